/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_pool.h"

#include <string.h>

/* The part of the image that a window has: rows and columns from..to. */
typedef struct part {
  int32_t top, bottom, left, right;
} part;

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }
static int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

static part part_of(const zo_window* w, int32_t y, int32_t x) {
  const int32_t top = y * w->stride_height - w->pad_top;
  const int32_t left = x * w->stride_width - w->pad_left;
  const part result = {larger(top, 0), smaller(top + w->filter_height, w->height), larger(left, 0),
                       smaller(left + w->filter_width, w->width)};
  return result;
}

static void average(const zo_pool* pool, const int8_t* x, part p, int32_t* sums, int8_t* y) {
  const int32_t channels = pool->window.channels, width = pool->window.width;
  const int32_t count = (p.bottom - p.top) * (p.right - p.left);
  memset(sums, 0, (size_t)channels * sizeof *sums);
  for (int32_t row = p.top; row < p.bottom; ++row) {
    for (int32_t column = p.left; column < p.right; ++column) {
      const int8_t* own = x + ((ptrdiff_t)row * width + column) * channels;
      for (int32_t c = 0; c < channels; ++c) sums[c] += own[c];
    }
  }
  for (int32_t c = 0; c < channels; ++c) {
    const int32_t sum = sums[c];
    const int32_t mean = (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
    y[c] = (int8_t)smaller(larger(mean, pool->min), pool->max);
  }
}

static void raise_to(int8_t* restrict to, const int8_t* restrict from, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = from[i] > to[i] ? from[i] : to[i];
}

/* Columns that the windows of a row of outputs cover, those outside of the image included. */
static size_t span_of(const zo_window* w) {
  return (size_t)(w->out_width - 1) * (size_t)w->stride_width + (size_t)w->filter_width;
}

/* A row of outputs: the largest of each column's rows, then of each value's columns, whole rows at
 * a time, of which the outputs are some. `columns` is the scratch. */
static void maxima(const zo_pool* pool, const int8_t* x, int32_t row, int8_t* columns, int8_t* y) {
  const zo_window* w = &pool->window;
  const part rows = part_of(w, row, 0);
  const size_t channels = (size_t)w->channels, span = span_of(w);
  const size_t values = (span - (size_t)w->filter_width + 1u) * channels;
  const size_t covered = span - (size_t)w->pad_left; /* from the image's first column on */
  const size_t inside = (covered < (size_t)w->width ? covered : (size_t)w->width) * channels;
  int8_t* largest = columns + span * channels;
  memset(columns, pool->min, span * channels);
  for (int32_t r = rows.top; r < rows.bottom; ++r) {
    raise_to(columns + (size_t)w->pad_left * channels, x + (ptrdiff_t)r * w->width * w->channels, inside);
  }
  memcpy(largest, columns, values);
  for (size_t k = 1; k < (size_t)w->filter_width; ++k) {
    raise_to(largest, columns + k * channels, values);
  }
  const int8_t most = (int8_t)pool->max;
  for (size_t i = 0; i < values; ++i) largest[i] = largest[i] < most ? largest[i] : most;
  for (int32_t column = 0; column < w->out_width; ++column, y += channels) {
    memcpy(y, largest + (size_t)(column * w->stride_width) * channels, channels);
  }
}

size_t zo_pool_scratch_bytes(const zo_pool* pool) {
  const size_t channels = (size_t)pool->window.channels;
  return pool->average ? channels * sizeof(int32_t) : 2u * span_of(&pool->window) * channels;
}

void zo_pool_run(const zo_pool* pool, const int8_t* x, int32_t samples, void* scratch, int8_t* y) {
  const zo_window* w = &pool->window;
  for (int32_t s = 0; s < samples; ++s) {
    for (int32_t row = 0; row < w->out_height; ++row) {
      int8_t* own = y + (ptrdiff_t)row * w->out_width * w->channels;
      if (!pool->average) maxima(pool, x, row, (int8_t*)scratch, own);
      for (int32_t column = 0; pool->average && column < w->out_width; ++column) {
        average(pool, x, part_of(w, row, column), (int32_t*)scratch, own + (ptrdiff_t)column * w->channels);
      }
    }
    x += (ptrdiff_t)w->height * w->width * w->channels;
    y += (ptrdiff_t)w->out_height * w->out_width * w->channels;
  }
}
