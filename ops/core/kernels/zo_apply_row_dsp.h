/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Rows of weights moved by instructions of the DSP extension (Cortex-M4, M7, M33), four weights at
 * a time. zo_apply_row.c includes this file and does the rest. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_DSP_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_DSP_H_

#include "ops/core/kernels/zo_dsp_lanes.h"
#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_stream.h"

/* Weights that are moved together, and the most that are in one call. */
#define ZO_ROW_TOGETHER 4u
#define ZO_ROW_MOST UINT32_C(0xFFFFFFFC)

/* Whether bytes suffice: for steps of at most 127 LSB up or down, rounded, and a limit whose
 * distance from 127 fits twice. */
static inline int zo_row_fits(int32_t limit, int32_t largest) {
  return largest <= INT32_C(127) << ZO_COEFFICIENT_BITS && limit >= 64;
}

/* Moves the first weights of a row, `count` of them, a multiple of ZO_ROW_TOGETHER. Returns how
 * many were clipped. */
static inline uint32_t zo_move_vectors_8(int8_t* weights, const int32_t* steps, uint32_t count,
                                         int32_t limit, uint32_t* stream) {
  const uint32_t each = UINT32_C(0x01010101);
  const uint32_t up = each * (uint32_t)(127 - limit), down = each * (uint32_t)(255 - 2 * limit);
  const uint32_t back = each * (uint32_t)(128 - limit);
  uint32_t clipped = 0, state = *stream;
  for (const int8_t* const end = weights + count; weights != end; weights += 4, steps += 4) {
    state = zo_stream_next(state);
    const uint32_t moves = whole_parts(add_rounding(load_four((const uint32_t*)steps), state));
    const uint32_t before = load_4(weights);
    /* Saturated with 127 - limit added, then with 128 - limit subtracted. */
    uint32_t inside = add_8_saturated(add_8_saturated(before, moves), up);
    inside = add_8_saturated(subtract_8_saturated(inside, down), back);
    store_4(weights, inside);
    /* The sum modulo 2^8 is another one where it was clipped or saturated. */
    uint32_t changed = inside ^ __uadd8(before, moves);
    for (; changed != 0u; changed >>= 8) clipped += (uint32_t)((changed & 0xFFu) != 0u);
  }
  *stream = state;
  return clipped;
}

#if !defined(__OPTIMIZE_SIZE__)
#define ZO_ROW_FRACTIONS 1

/* Brings halves of a word to within +-limit; returns how many it has clipped. */
static uint32_t zo_clip_halves(uint32_t* halves, int32_t limit) {
  const int32_t low = (int16_t)*halves, high = (int16_t)(*halves >> 16);
  const int32_t low_inside = zo_clamp(low, -limit, limit);
  const int32_t high_inside = zo_clamp(high, -limit, limit);
  *halves = (uint32_t)high_inside << 16 | (uint16_t)low_inside;
  return (uint32_t)(low != low_inside) + (uint32_t)(high != high_inside);
}

/* The same with fractions. */
static inline uint32_t zo_move_vectors_16(int8_t* weights, int8_t* fraction, const int32_t* steps,
                                          uint32_t count, int32_t limit) {
  const uint32_t limits = UINT32_C(0x01000100) * (uint32_t)limit;
  uint32_t half = UINT32_C(1) << 15; /* of what a step is rounded to, 2^-8 LSB */
  __asm__("" : "+r"(half));          /* a register, to which a shifted one is added at once */
  uint32_t clipped = 0;
  for (const int8_t* const end = weights + count; weights != end;
       weights += 4, fraction += 4, steps += 4) {
    four_steps f = load_four((const uint32_t*)steps);
    f.s0 = half + (f.s0 << 8);
    f.s1 = half + (f.s1 << 8);
    f.s2 = half + (f.s2 << 8);
    f.s3 = half + (f.s3 << 8);
    four_values v =
        move_four_values(weights, fraction, high_halves(f.s2, f.s0), high_halves(f.s3, f.s1));
    if (beyond_limit(v, limits) != 0u) {
      clipped += zo_clip_halves(&v.even, 256 * limit) + zo_clip_halves(&v.odd, 256 * limit);
    }
    store_four_values(weights, fraction, v);
  }
  return clipped;
}

#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_DSP_H_ */
