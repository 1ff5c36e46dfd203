/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx512.h"
#include "ops/kernels/zo_x86.h"

/* Sums of `rows` rows and `blocks` blocks of 16 columns stay in registers. */
#define MAX_ROWS 12
#define MAX_BLOCKS 4

/* Outputs where some channel shifts left or not at all. */
static void finish_slowly(const zo_output* output, int32_t first, __m512i sums, int8_t* y,
                          int32_t valid) {
  int32_t values[kZoColumns];
  _mm512_storeu_si512(values, sums);
  for (int32_t c = 0; c < valid && c < kZoColumns; ++c) {
    y[c] = zo_output_of(output, first + c, values[c]);
  }
}

static inline __attribute__((always_inline)) void tile(const zo_gemm* g, const uint8_t* const* row,
                                                       int8_t* const* y, int32_t block,
                                                       const int rows, const int blocks,
                                                       int32_t valid) {
  const zo_output* out = g->output;
  __m512i sums[MAX_ROWS][MAX_BLOCKS];
  const int32_t first = block * kZoColumns;
#pragma GCC unroll 4
  for (int b = 0; b < blocks; ++b) {
    const __m512i start = _mm512_loadu_si512(out->start + first + b * kZoColumns);
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r) sums[r][b] = start;
  }
  const int8_t* filters = g->filters + (size_t)block * (size_t)g->steps * 64u;
  const size_t next_block = (size_t)g->steps * 64u;
  const int32_t* step_at = g->step_at;
  for (int32_t s = 0; s < g->steps; ++s, filters += 64) {
    __m512i w[MAX_BLOCKS];
    const ptrdiff_t at = step_at[s];
#pragma GCC unroll 4
    for (int b = 0; b < blocks; ++b) {
      w[b] = _mm512_loadu_si512(filters + (size_t)b * next_block);
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r) {
      int32_t four;
      __builtin_memcpy(&four, row[r] + at, sizeof four);
      const __m512i x = _mm512_set1_epi32(four);
#pragma GCC unroll 4
      for (int b = 0; b < blocks; ++b) zo_avx512_add_fours(&sums[r][b], x, w[b]);
    }
  }
#pragma GCC unroll 4
  for (int b = 0; b < blocks; ++b) {
    if (!out->shifts_right) {
#pragma GCC unroll 12
      for (int r = 0; r < rows; ++r) {
        finish_slowly(out, first + b * kZoColumns, sums[r][b], y[r] + b * kZoColumns,
                      valid - b * kZoColumns);
      }
      continue;
    }
    const zo_avx512_output o = zo_avx512_output_of(out, first + b * kZoColumns);
    const int32_t left = valid - b * kZoColumns;
    if (left <= 0) break;
    const __mmask16 mask = (__mmask16)(left >= kZoColumns ? 0xFFFFu : (1u << left) - 1u);
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r) {
      _mm_mask_storeu_epi8(y[r] + b * kZoColumns, mask, zo_avx512_finish(sums[r][b], &o));
    }
  }
}

/* All rows, with so many blocks at a time. Where fewer rows are left than a tile has, the last one
 * stands in for the missing ones. */
#define TILES(name, blocks, most, half)                     \
  static void name(const zo_gemm* g, int32_t block) {       \
    const int32_t valid = g->columns - block * kZoColumns;  \
    int8_t* const first = g->y + block * kZoColumns;        \
    for (int32_t at = 0; at < g->row_count;) {              \
      const uint8_t* row[most];                             \
      int8_t* y[most];                                      \
      const int32_t left = g->row_count - at;               \
      for (int r = 0; r < (most); ++r) {                    \
        const int32_t own = at + (r < left ? r : left - 1); \
        row[r] = g->rows + g->row_at[own];                  \
        y[r] = first + (ptrdiff_t)own * g->columns;         \
      }                                                     \
      if (left > (half)) {                                  \
        tile(g, row, y, block, most, blocks, valid);        \
        at += (most);                                       \
      } else if (left > 1) {                                \
        tile(g, row, y, block, half, blocks, valid);        \
        at += (half);                                       \
      } else {                                              \
        tile(g, row, y, block, 1, blocks, valid);           \
        at += 1;                                            \
      }                                                     \
    }                                                       \
  }

TILES(four_blocks, 4, 6, 3)
TILES(two_blocks, 2, 12, 4)
TILES(one_block, 1, 12, 4)

void zo_avx512_gemm(const zo_gemm* gemm) {
  int32_t left = (gemm->columns + kZoColumns - 1) / kZoColumns;
  for (int32_t block = 0; left > 0;) {
    if (left >= 3) {
      four_blocks(gemm, block);
      block += 4;
      left -= 4;
    } else if (left == 2) {
      two_blocks(gemm, block);
      block += 2;
      left -= 2;
    } else {
      one_block(gemm, block);
      block += 1;
      left -= 1;
    }
  }
}
