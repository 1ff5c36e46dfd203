/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_arm.h"
#include "ops/kernels/zo_neon.h"

enum { kStep = 16 };

/* The sum of products, and the correction times the sum of the filter. */
static inline uint32_t dot(const zo_dots* d, const int8_t* w) {
  const int8_t* x = (const int8_t*)d->row;
  const int32_t depth = d->depth, correction = d->correction;
  const int8x16_t ones = vdupq_n_s8(1);
  int32x4_t products = vdupq_n_s32(0), filter = vdupq_n_s32(0);
  int32_t at = 0;
  for (; at + kStep <= depth; at += kStep) {
    const int8x16_t own = vld1q_s8(w + at);
    products = vdotq_s32(products, vld1q_s8(x + at), own);
    filter = vdotq_s32(filter, ones, own);
  }
  uint32_t sum = (uint32_t)vaddvq_s32(products) + (uint32_t)correction * (uint32_t)vaddvq_s32(filter);
  for (; at < depth; ++at) sum += (uint32_t)((x[at] + correction) * w[at]);
  return sum;
}

void zo_neon_dot_dots(const zo_dots* dots) { zo_dots_by_channels(dots, 8, dot, zo_neon_finish_sums); }
