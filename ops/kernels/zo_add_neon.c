/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_arm.h"
#include "ops/kernels/zo_neon.h"

enum { kLanes = 8 };

/* x * multiplier with its two roundings, the shift being 0 at most. */
static inline int32x4_t scaled(int32x4_t x, zo_multiplier multiplier) {
  const int32x4_t high = vqrdmulhq_n_s32(x, multiplier.value);
  return multiplier.shift == 0 ? high : zo_neon_divide(high, vdupq_n_s32(-multiplier.shift));
}

static inline int32x4_t term(int16x4_t x, int32_t offset, zo_multiplier multiplier) {
  const int32x4_t value = vaddq_s32(vmovl_s16(x), vdupq_n_s32(offset));
  return scaled(vshlq_n_s32(value, 20), multiplier);
}

static inline int32x4_t sum_of(const zo_add* add, int16x4_t a, int16x4_t b) {
  const int32x4_t sum = vaddq_s32(term(a, add->offset[0], add->input[0]), term(b, add->offset[1], add->input[1]));
  return vaddq_s32(scaled(sum, add->output), vdupq_n_s32(add->zero_point));
}

void zo_neon_add(const zo_add* add) {
  size_t i = 0;
  for (; i + kLanes <= add->count; i += kLanes) {
    const int16x8_t a = vmovl_s8(vld1_s8(add->x[0] + i)), b = vmovl_s8(vld1_s8(add->x[1] + i));
    const int32x4_t low = sum_of(add, vget_low_s16(a), vget_low_s16(b));
    const int32x4_t high = sum_of(add, vget_high_s16(a), vget_high_s16(b));
    vst1_s8(add->y + i, zo_neon_bytes(low, high, add->min, add->max));
  }
  for (; i < add->count; ++i) add->y[i] = zo_add_one(add, add->x[0][i], add->x[1][i]);
}
