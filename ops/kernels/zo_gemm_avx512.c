/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx512.h"
#include "ops/kernels/zo_x86.h"

/* Sums of `rows` rows and `blocks` blocks of 16 columns stay in registers. */
#define MAX_ROWS 12
#define MAX_BLOCKS 4
#define MAX_SUMS 24

/* Outputs of vectors of sums if some channel shifts left or not at all. */
static __attribute__((noinline)) void finish_slowly(const zo_output* output, int32_t first, const __m512i* lifted,
                                                    int rows, int blocks, int8_t* const* y, int32_t valid) {
  for (int i = 0; i < rows * blocks; ++i) {
    const int32_t at = i % blocks * kZoColumns;
    int32_t values[kZoColumns];
    _mm512_storeu_si512(values, zo_avx512_lift(lifted[i]));
    for (int32_t c = 0; c < valid - at && c < kZoColumns; ++c) {
      y[i / blocks][at + c] = zo_output_of(output, first + at + c, values[c]);
    }
  }
}

/* The outputs of vector i. */
static inline __attribute__((always_inline)) void store_quarter(int8_t* const* y, const int i, const int blocks,
                                                                __mmask64 mask, __m128i bytes) {
  const int at = i % blocks * kZoColumns;
  _mm_mask_storeu_epi8(y[i / blocks] + at, (__mmask16)(mask >> at), bytes);
}

static inline __attribute__((always_inline)) void tile(const zo_gemm* g, const uint8_t* const* row, int8_t* const* y,
                                                       int32_t block, const int rows, const int blocks, int32_t valid) {
  const zo_output* out = g->output;
  __m512i sums[MAX_ROWS][MAX_BLOCKS];
  const int32_t first = block * kZoColumns;
#pragma GCC unroll 4
  for (int b = 0; b < blocks; ++b) {
    const __m512i start = zo_avx512_lift(_mm512_loadu_si512(out->start + first + b * kZoColumns));
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
  if (!out->shifts_right) {
    __m512i stored[MAX_SUMS];
#pragma GCC unroll 24
    for (int i = 0; i < rows * blocks; ++i) stored[i] = sums[i / blocks][i % blocks];
    finish_slowly(out, first, stored, rows, blocks, y, valid);
    return;
  }
  const zo_avx512_range range = zo_avx512_range_of(out);
#pragma GCC unroll 4
  for (int b = 0; b < blocks; ++b) {
    const zo_avx512_output o = zo_avx512_output_of(out, first + b * kZoColumns);
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r) sums[r][b] = zo_avx512_scaled(sums[r][b], &o);
  }
  const __mmask64 mask = valid >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << valid) - 1u;
  /* Four vectors at a time, along rows first; if fewer are left the last one stands in. */
  const int vectors = rows * blocks, last = vectors - 1;
#pragma GCC unroll 6
  for (int i = 0; i < vectors; i += 4) {
    const int j = i < last ? i + 1 : last, k = j < last ? j + 1 : last, l = k < last ? k + 1 : last;
    const __m512i four = zo_avx512_four_bytes(sums[i / blocks][i % blocks], sums[j / blocks][j % blocks],
                                              sums[k / blocks][k % blocks], sums[l / blocks][l % blocks], range);
    if (blocks == 4) {
      _mm512_mask_storeu_epi8(y[i / blocks], mask, four);
      continue;
    }
    store_quarter(y, i, blocks, mask, _mm512_castsi512_si128(four));
    if (i + 1 < vectors) store_quarter(y, j, blocks, mask, _mm512_extracti32x4_epi32(four, 1));
    if (i + 2 < vectors) store_quarter(y, k, blocks, mask, _mm512_extracti32x4_epi32(four, 2));
    if (i + 3 < vectors) store_quarter(y, l, blocks, mask, _mm512_extracti32x4_epi32(four, 3));
  }
}

/* All rows, with so many blocks at a time. If fewer rows are left than a tile has, the last one
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
