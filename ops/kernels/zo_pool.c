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

static void average(const zo_pool* pool, const int8_t* x, part p, int8_t* y) {
  const int32_t channels = pool->window.channels, width = pool->window.width;
  const int32_t count = (p.bottom - p.top) * (p.right - p.left);
  memset(pool->sums, 0, (size_t)channels * sizeof *pool->sums);
  for (int32_t row = p.top; row < p.bottom; ++row) {
    for (int32_t column = p.left; column < p.right; ++column) {
      const int8_t* own = x + ((ptrdiff_t)row * width + column) * channels;
      for (int32_t c = 0; c < channels; ++c) pool->sums[c] += own[c];
    }
  }
  for (int32_t c = 0; c < channels; ++c) {
    const int32_t sum = pool->sums[c];
    const int32_t mean = (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
    y[c] = (int8_t)smaller(larger(mean, pool->min), pool->max);
  }
}

static void maximum(const zo_pool* pool, const int8_t* x, part p, int8_t* y) {
  const int32_t channels = pool->window.channels, width = pool->window.width;
  const int8_t least = (int8_t)pool->min, most = (int8_t)pool->max;
  for (int32_t c = 0; c < channels; ++c) y[c] = least;
  for (int32_t row = p.top; row < p.bottom; ++row) {
    for (int32_t column = p.left; column < p.right; ++column) {
      const int8_t* own = x + ((ptrdiff_t)row * width + column) * channels;
      for (int32_t c = 0; c < channels; ++c) y[c] = own[c] > y[c] ? own[c] : y[c];
    }
  }
  for (int32_t c = 0; c < channels; ++c) y[c] = y[c] < most ? y[c] : most;
}

void zo_pool_run(const zo_pool* pool, const int8_t* x, int8_t* y) {
  const zo_window* w = &pool->window;
  for (int32_t s = 0; s < w->samples; ++s) {
    for (int32_t row = 0; row < w->out_height; ++row) {
      for (int32_t column = 0; column < w->out_width; ++column, y += w->channels) {
        if (pool->average) {
          average(pool, x, part_of(w, row, column), y);
        } else {
          maximum(pool, x, part_of(w, row, column), y);
        }
      }
    }
    x += (ptrdiff_t)w->height * w->width * w->channels;
  }
}
