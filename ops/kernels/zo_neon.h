/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * TFLM's requantization of 4 sums at once.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_NEON_H_
#define TFLM_ZO_OPS_KERNELS_ZO_NEON_H_

#include <arm_neon.h>

#include "ops/kernels/zo_output.h"

/* h / 2^right, half away from zero; right is 1 at least. The rounding shift has more than 32 bits
 * within. */
static inline int32x4_t zo_neon_divide(int32x4_t h, int32x4_t right) {
  return vrshlq_s32(vaddq_s32(h, vshrq_n_s32(h, 31)), vnegq_s32(right));
}

/* Outputs of 4 sums, from this channel on, not yet clamped. */
static inline int32x4_t zo_neon_scaled(int32x4_t sums, const zo_output* o, int32_t channel) {
  const int32x4_t h = vqrdmulhq_s32(sums, vld1q_s32(o->multiplier + channel));
  const int32x4_t y = zo_neon_divide(h, vld1q_s32(o->right + channel));
  return vaddq_s32(y, vdupq_n_s32(o->zero_point));
}

/* 8 outputs, clamped. */
static inline int8x8_t zo_neon_bytes(int32x4_t low, int32x4_t high, int32_t min, int32_t max) {
  const int8x8_t bytes = vqmovn_s16(vcombine_s16(vqmovn_s32(low), vqmovn_s32(high)));
  return vmin_s8(vmax_s8(bytes, vdup_n_s8((int8_t)min)), vdup_n_s8((int8_t)max));
}

/* Stores the first `valid` bytes, 8 at most. */
static inline void zo_neon_store(int8_t* y, int8x8_t bytes, int32_t valid) {
  if (valid >= 8) {
    vst1_s8(y, bytes);
    return;
  }
  int8_t all[8];
  vst1_s8(all, bytes);
  for (int32_t i = 0; i < valid; ++i) y[i] = all[i];
}

/* Outputs of 8 sums of neighbouring channels. */
static inline void zo_neon_finish(const zo_output* o, int32_t channel, int32x4_t low, int32x4_t high, int8_t* y,
                                  int32_t valid) {
  if (!o->shifts_right) {
    int32_t sums[8];
    vst1q_s32(sums, low);
    vst1q_s32(sums + 4, high);
    for (int32_t i = 0; i < valid && i < 8; ++i) y[i] = zo_output_of(o, channel + i, sums[i]);
    return;
  }
  const int8x8_t bytes =
      zo_neon_bytes(zo_neon_scaled(low, o, channel), zo_neon_scaled(high, o, channel + 4), o->min, o->max);
  zo_neon_store(y, bytes, valid);
}

/* The same of sums in memory. */
static inline void zo_neon_finish_sums(const zo_output* o, int32_t channel, const int32_t* sums, int8_t* y,
                                       int32_t valid) {
  zo_neon_finish(o, channel, vld1q_s32(sums), vld1q_s32(sums + 4), y, valid);
}

/* Those of `fours` vectors of sums, an even number. */
static inline void zo_neon_finish_row(const zo_output* o, int32_t channel, const int32x4_t* sums, int fours, int8_t* y,
                                      int32_t valid) {
  for (int f = 0; f < fours && 4 * f < valid; f += 2) {
    zo_neon_finish(o, channel + 4 * f, sums[f], sums[f + 1], y + 4 * f, valid - 4 * f);
  }
}

#endif /* TFLM_ZO_OPS_KERNELS_ZO_NEON_H_ */
