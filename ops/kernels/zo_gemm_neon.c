/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_arm.h"
#include "ops/kernels/zo_gemm_tiles.h"
#include "ops/kernels/zo_neon.h"

enum { kStep = 2, kFours = kZoColumns / 4 };

/* Sums of 16 columns with one value of the row. */
static inline void add_products(int32x4_t sums[kFours], int8x16_t w, int16_t x) {
  const int16x8_t low = vmovl_s8(vget_low_s8(w)), high = vmovl_s8(vget_high_s8(w));
  sums[0] = vmlal_n_s16(sums[0], vget_low_s16(low), x);
  sums[1] = vmlal_n_s16(sums[1], vget_high_s16(low), x);
  sums[2] = vmlal_n_s16(sums[2], vget_low_s16(high), x);
  sums[3] = vmlal_n_s16(sums[3], vget_high_s16(high), x);
}

static inline __attribute__((always_inline)) void tile(const zo_gemm* g, const uint8_t* const* row, int8_t* const* y,
                                                       int32_t first, const int rows) {
  const int8_t* filters = g->filters + (size_t)first * (size_t)g->steps * kStep;
  int32x4_t sums[kZoTileRows][kFours];
  for (int r = 0; r < rows; ++r) {
    for (int f = 0; f < kFours; ++f) sums[r][f] = vld1q_s32(g->output->start + first + 4 * f);
  }
  for (int32_t s = 0; s < g->steps; ++s, filters += kZoColumns * kStep) {
    const int8x16x2_t w = vld2q_s8(filters);
    const ptrdiff_t at = g->step_at[s];
    for (int r = 0; r < rows; ++r) {
      int16_t two[2];
      __builtin_memcpy(two, row[r] + at, sizeof two);
      add_products(sums[r], w.val[0], two[0]);
      add_products(sums[r], w.val[1], two[1]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    zo_neon_finish_row(g->output, first, sums[r], kFours, y[r], g->columns - first);
  }
}

ZO_GEMM_BY_TILES(zo_neon_gemm)
