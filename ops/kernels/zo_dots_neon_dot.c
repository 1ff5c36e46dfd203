/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_arm.h"
#include "ops/kernels/zo_neon.h"

enum { kStep = 16, kChannels = 8 };

/* The sum of products, and the correction times the sum of the filter. */
static inline uint32_t dot(const int8_t* x, const int8_t* w, int32_t depth, int32_t correction) {
  const int8x16_t ones = vdupq_n_s8(1);
  int32x4_t products = vdupq_n_s32(0), filter = vdupq_n_s32(0);
  int32_t at = 0;
  for (; at + kStep <= depth; at += kStep) {
    const int8x16_t own = vld1q_s8(w + at);
    products = vdotq_s32(products, vld1q_s8(x + at), own);
    filter = vdotq_s32(filter, ones, own);
  }
  uint32_t sum =
      (uint32_t)vaddvq_s32(products) + (uint32_t)correction * (uint32_t)vaddvq_s32(filter);
  for (; at < depth; ++at) sum += (uint32_t)((x[at] + correction) * w[at]);
  return sum;
}

void zo_neon_dot_dots(const zo_dots* dots) {
  const zo_dots* d = dots;
  const int8_t* x = (const int8_t*)d->row;
  for (int32_t first = 0; first < d->channels; first += kChannels) {
    int32_t sums[kChannels] = {0};
    const int32_t left = d->channels - first, valid = left < kChannels ? left : kChannels;
    for (int32_t c = 0; c < valid; ++c) {
      const int8_t* w = d->filters + (ptrdiff_t)(first + c) * d->depth;
      sums[c] =
          (int32_t)(dot(x, w, d->depth, d->correction) + (uint32_t)d->output->start[first + c]);
    }
    zo_neon_finish(d->output, first, vld1q_s32(sums), vld1q_s32(sums + 4), d->y + first, valid);
  }
}
