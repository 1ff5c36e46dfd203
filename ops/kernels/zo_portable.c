/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The reference of all kernel sets, in loops that compilers vectorize.
 */
#include "ops/kernels/zo_portable.h"

#include <string.h>

enum { kStep = 2, kRows = 4, kLanes = 8 };

/* Sums of kRows rows at most and kZoColumns columns. */
static void gemm_block(const zo_gemm* g, const int16_t* const* row, int32_t rows, int32_t first,
                       uint32_t sums[kRows][kZoColumns]) {
  const int8_t* filters = g->filters + (size_t)first * (size_t)g->steps * kStep;
  for (int32_t r = 0; r < rows; ++r) {
    memcpy(sums[r], g->output->start + first, sizeof sums[r]);
  }
  for (int32_t s = 0; s < g->steps; ++s, filters += kZoColumns * kStep) {
    const size_t at = (size_t)g->step_at[s] / sizeof(int16_t);
    for (int32_t r = 0; r < rows; ++r) {
      const int32_t a = row[r][at], b = row[r][at + 1];
      for (int32_t c = 0; c < kZoColumns; ++c) {
        sums[r][c] += (uint32_t)(a * filters[kStep * c] + b * filters[kStep * c + 1]);
      }
    }
  }
}

void zo_portable_gemm(const zo_gemm* gemm) {
  for (int32_t first = 0; first < gemm->columns; first += kZoColumns) {
    const int32_t left = gemm->columns - first;
    const int32_t valid = left < kZoColumns ? left : kZoColumns;
    for (int32_t at = 0; at < gemm->row_count; at += kRows) {
      const int32_t rows = gemm->row_count - at < kRows ? gemm->row_count - at : kRows;
      const int16_t* row[kRows];
      uint32_t sums[kRows][kZoColumns];
      for (int32_t r = 0; r < rows; ++r) {
        row[r] = (const int16_t*)(const void*)(gemm->rows + gemm->row_at[at + r]);
      }
      gemm_block(gemm, row, rows, first, sums);
      for (int32_t r = 0; r < rows; ++r) {
        int8_t* y = gemm->y + (ptrdiff_t)(at + r) * gemm->columns + first;
        for (int32_t c = 0; c < valid; ++c) {
          y[c] = zo_output_of(gemm->output, first + c, (int32_t)sums[r][c]);
        }
      }
    }
  }
}

void zo_portable_dots(const zo_dots* dots) {
  const int16_t* x = (const int16_t*)(const void*)dots->row;
  for (int32_t c = 0; c < dots->channels; ++c) {
    const int8_t* w = dots->filters + (ptrdiff_t)c * dots->depth;
    uint32_t sum = (uint32_t)dots->output->start[c];
    for (int32_t i = 0; i < dots->depth; ++i) sum += (uint32_t)(x[i] * w[i]);
    dots->y[c] = zo_output_of(dots->output, c, (int32_t)sum);
  }
}

void zo_portable_depthwise(const zo_depthwise* depthwise) {
  const zo_depthwise* d = depthwise;
  for (int32_t run = 0; run < d->run_count; ++run) {
    const int16_t* x = d->x + d->run_at[run];
    int8_t* y = d->y + (ptrdiff_t)run * d->length;
    for (int32_t at = 0, block = 0; at < d->length; at += kLanes) {
      const int32_t first = block * kLanes;
      const int16_t* filters = d->filters + (size_t)first * (size_t)d->taps;
      uint32_t sums[kLanes];
      memcpy(sums, d->output->start + first, sizeof sums);
      for (int32_t tap = 0; tap < d->taps; tap += 2, filters += 2 * kLanes) {
        const int16_t* a = x + at + d->tap_at[tap];
        const int16_t* b = x + at + d->tap_at[tap + 1];
        for (int32_t i = 0; i < kLanes; ++i) {
          sums[i] += (uint32_t)(a[i] * filters[2 * i] + b[i] * filters[2 * i + 1]);
        }
      }
      for (int32_t i = 0; i < kLanes && at + i < d->length; ++i) {
        y[at + i] = zo_output_of(d->output, first + i, (int32_t)sums[i]);
      }
      block = block + 1 < d->period ? block + 1 : 0;
    }
  }
}

void zo_portable_add(const zo_add* add) {
  for (size_t i = 0; i < add->count; ++i) {
    add->y[i] = zo_add_one(add, add->x[0][i], add->x[1][i]);
  }
}
