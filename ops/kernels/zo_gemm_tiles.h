/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A product in tiles of four rows and one block of columns.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_GEMM_TILES_H_
#define TFLM_ZO_OPS_KERNELS_ZO_GEMM_TILES_H_

#include "ops/kernels/zo_gemm.h"

enum { kZoTileRows = 4 };

/* Outputs of some rows, in the columns from `first` on. */
typedef void zo_gemm_tile(const zo_gemm* gemm, const uint8_t* const* row, int8_t* const* y, int32_t first);

/* `four` takes kZoTileRows rows, of which the last may be there twice, `one` takes one. */
static inline __attribute__((always_inline)) void zo_gemm_by_tiles(const zo_gemm* g, zo_gemm_tile* four,
                                                                   zo_gemm_tile* one) {
  for (int32_t first = 0; first < g->columns; first += kZoColumns) {
    for (int32_t at = 0; at < g->row_count; at += kZoTileRows) {
      const uint8_t* row[kZoTileRows];
      int8_t* y[kZoTileRows];
      const int32_t left = g->row_count - at;
      for (int r = 0; r < kZoTileRows; ++r) {
        const int32_t own = at + (r < left ? r : left - 1);
        row[r] = g->rows + g->row_at[own];
        y[r] = g->y + (ptrdiff_t)own * g->columns + first;
      }
      if (left > 1) {
        four(g, row, y, first);
      } else {
        one(g, row, y, first);
      }
    }
  }
}

/* A zo_gemm_function of the file's own tile(gemm, row, y, first, rows), which is inlined with
 * either number of rows. */
#define ZO_GEMM_BY_TILES(name)                                                                          \
  static void four_rows(const zo_gemm* g, const uint8_t* const* row, int8_t* const* y, int32_t first) { \
    tile(g, row, y, first, kZoTileRows);                                                                \
  }                                                                                                     \
  static void one_row(const zo_gemm* g, const uint8_t* const* row, int8_t* const* y, int32_t first) {   \
    tile(g, row, y, first, 1);                                                                          \
  }                                                                                                     \
  void name(const zo_gemm* gemm) { zo_gemm_by_tiles(gemm, four_rows, one_row); }

#endif /* TFLM_ZO_OPS_KERNELS_ZO_GEMM_TILES_H_ */
