/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx2.h"
#include "ops/kernels/zo_gemm_tiles.h"
#include "ops/kernels/zo_x86.h"

enum { kStep = 2 };

static inline __attribute__((always_inline)) void tile(const zo_gemm* g, const uint8_t* const* row, int8_t* const* y,
                                                       int32_t first, const int rows) {
  const int32_t left = g->columns - first;
  const int8_t* filters = g->filters + (size_t)first * (size_t)g->steps * kStep;
  __m256i low[kZoTileRows], high[kZoTileRows];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
    low[r] = zo_avx2_load(g->output->start + first);
    high[r] = zo_avx2_load(g->output->start + first + 8);
  }
  for (int32_t s = 0; s < g->steps; ++s, filters += kZoColumns * kStep) {
    const __m256i both = zo_avx2_load(filters);
    const __m256i w0 = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(both));
    const __m256i w1 = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(both, 1));
    const ptrdiff_t at = g->step_at[s];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      int32_t two;
      __builtin_memcpy(&two, row[r] + at, sizeof two);
      const __m256i x = _mm256_set1_epi32(two);
      low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(x, w0));
      high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(x, w1));
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
    zo_avx2_finish(g->output, first, low[r], high[r], y[r], left < kZoColumns ? left : kZoColumns);
  }
}

ZO_GEMM_BY_TILES(zo_avx2_gemm)
