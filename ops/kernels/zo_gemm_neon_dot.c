/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_arm.h"
#include "ops/kernels/zo_gemm_tiles.h"
#include "ops/kernels/zo_neon.h"

enum { kStep = 4, kFours = kZoColumns / 4 };

static inline __attribute__((always_inline)) void tile(const zo_gemm* g, const uint8_t* const* row, int8_t* const* y,
                                                       int32_t first, const int rows) {
  const int8_t* filters = g->filters + (size_t)first * (size_t)g->steps * kStep;
  int32x4_t sums[kZoTileRows][kFours];
  for (int r = 0; r < rows; ++r) {
    for (int f = 0; f < kFours; ++f) sums[r][f] = vld1q_s32(g->output->start + first + 4 * f);
  }
  for (int32_t s = 0; s < g->steps; ++s, filters += kZoColumns * kStep) {
    const int8x16x4_t w = vld1q_s8_x4(filters);
    const ptrdiff_t at = g->step_at[s];
    for (int r = 0; r < rows; ++r) {
      int32_t four;
      __builtin_memcpy(&four, row[r] + at, sizeof four);
      const int8x16_t x = vreinterpretq_s8_s32(vdupq_n_s32(four));
      for (int f = 0; f < kFours; ++f) sums[r][f] = vdotq_s32(sums[r][f], w.val[f], x);
    }
  }
  for (int r = 0; r < rows; ++r) {
    zo_neon_finish_row(g->output, first, sums[r], kFours, y[r], g->columns - first);
  }
}

ZO_GEMM_BY_TILES(zo_neon_dot_gemm)
