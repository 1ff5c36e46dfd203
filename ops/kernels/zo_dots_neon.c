/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_arm.h"
#include "ops/kernels/zo_neon.h"

enum { kStep = 8, kChannels = 8 };

static inline int32_t dot(const int16_t* x, const int8_t* w, int32_t depth) {
  int32x4_t sums = vdupq_n_s32(0);
  int32_t at = 0;
  for (; at + kStep <= depth; at += kStep) {
    const int16x8_t own = vmovl_s8(vld1_s8(w + at)), values = vld1q_s16(x + at);
    sums = vmlal_s16(sums, vget_low_s16(values), vget_low_s16(own));
    sums = vmlal_high_s16(sums, values, own);
  }
  uint32_t sum = (uint32_t)vaddvq_s32(sums);
  for (; at < depth; ++at) sum += (uint32_t)(x[at] * w[at]);
  return (int32_t)sum;
}

void zo_neon_dots(const zo_dots* dots) {
  const zo_dots* d = dots;
  const int16_t* x = (const int16_t*)(const void*)d->row;
  for (int32_t first = 0; first < d->channels; first += kChannels) {
    int32_t sums[kChannels] = {0};
    const int32_t left = d->channels - first, valid = left < kChannels ? left : kChannels;
    for (int32_t c = 0; c < valid; ++c) {
      const int8_t* w = d->filters + (ptrdiff_t)(first + c) * d->depth;
      sums[c] = (int32_t)((uint32_t)dot(x, w, d->depth) + (uint32_t)d->output->start[first + c]);
    }
    zo_neon_finish(d->output, first, vld1q_s32(sums), vld1q_s32(sums + 4), d->y + first, valid);
  }
}
