/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_arm.h"
#include "ops/kernels/zo_neon.h"

enum { kStep = 8 };

static inline uint32_t dot(const zo_dots* d, const int8_t* w) {
  const int16_t* x = (const int16_t*)(const void*)d->row;
  const int32_t depth = d->depth;
  int32x4_t sums = vdupq_n_s32(0);
  int32_t at = 0;
  for (; at + kStep <= depth; at += kStep) {
    const int16x8_t own = vmovl_s8(vld1_s8(w + at)), values = vld1q_s16(x + at);
    sums = vmlal_s16(sums, vget_low_s16(values), vget_low_s16(own));
    sums = vmlal_high_s16(sums, values, own);
  }
  uint32_t sum = (uint32_t)vaddvq_s32(sums);
  for (; at < depth; ++at) sum += (uint32_t)(x[at] * w[at]);
  return sum;
}

void zo_neon_dots(const zo_dots* dots) { zo_dots_by_channels(dots, 8, dot, zo_neon_finish_sums); }
