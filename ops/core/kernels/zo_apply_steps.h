/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* How a step in fixed point moves weights: rounding and clipping, shared by all updates. The rules
 * are specified in zo_update.h. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_STEPS_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_STEPS_H_

#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_stream.h"

/* C++, which has no such word, may read this file as a part of another. */
#ifdef __cplusplus
#define ZO_RESTRICT
#else
#define ZO_RESTRICT restrict
#endif

/* Weights that are rounded together; eight words of a rounding stream. */
#define ZO_STEPS_CHUNK 32u

/* A step times a channel's Q31 factor, half up. */
static inline int32_t zo_scale_step(int32_t step, int32_t multiplier) {
  const int64_t product = (int64_t)step * multiplier;
  return (int32_t)zo_floor_shift64(product + (INT64_C(1) << 30), 31);
}

/* The rounding terms of a chunk: four overlapping half-words of each word of the stream. */
static inline void zo_draw_rounding(int32_t* random, uint32_t* rounding) {
  uint32_t word = *rounding;
  for (uint32_t j = 0; j < ZO_STEPS_CHUNK; j += 4u) {
    word = zo_stream_next(word);
    random[j] = (int32_t)(word & 0xFFFFu);
    random[j + 1u] = (int32_t)(word >> 8 & 0xFFFFu);
    random[j + 2u] = (int32_t)(word >> 16);
    random[j + 3u] = (int32_t)((word >> 24 | word << 8) & 0xFFFFu);
  }
  *rounding = word;
}

/* Inlined into a call with constant `count` for whole chunks, if it vectorizes. */
static inline uint32_t zo_round_steps_8(int8_t* ZO_RESTRICT weights, const int32_t* ZO_RESTRICT steps,
                                        const int32_t* ZO_RESTRICT random, uint32_t count, int32_t limit) {
  uint32_t saturated = 0;
  for (uint32_t j = 0; j < count; ++j) {
    const int32_t moved = weights[j] + zo_floor_shift(steps[j] + random[j], ZO_COEFFICIENT_BITS);
    const int32_t clipped = zo_clamp(moved, -limit, limit);
    saturated += (uint32_t)(clipped != moved);
    weights[j] = (int8_t)clipped;
  }
  return saturated;
}

static inline uint32_t zo_apply_steps_8(int8_t* weights, const int32_t* steps, uint32_t count, int32_t limit,
                                        uint32_t* rounding) {
  int32_t random[ZO_STEPS_CHUNK];
  zo_draw_rounding(random, rounding);
  return count == ZO_STEPS_CHUNK ? zo_round_steps_8(weights, steps, random, ZO_STEPS_CHUNK, limit)
                                 : zo_round_steps_8(weights, steps, random, count, limit);
}

static inline uint32_t zo_round_steps_16(int8_t* ZO_RESTRICT weights, int8_t* ZO_RESTRICT fraction,
                                         const int32_t* ZO_RESTRICT steps, uint32_t count, int32_t limit) {
  uint32_t saturated = 0;
  for (uint32_t j = 0; j < count; ++j) {
    const int32_t moved = 256 * weights[j] + fraction[j] + zo_floor_shift(steps[j] + 128, ZO_COEFFICIENT_BITS - 8);
    const int32_t clipped = zo_clamp(moved, -256 * limit, 256 * limit);
    const int32_t whole = zo_floor_shift(clipped + 128, 8);
    saturated += (uint32_t)(clipped != moved);
    weights[j] = (int8_t)whole;
    fraction[j] = (int8_t)(clipped - 256 * whole);
  }
  return saturated;
}

static inline uint32_t zo_apply_steps_16(int8_t* weights, int8_t* fraction, const int32_t* steps, uint32_t count,
                                         int32_t limit) {
  return count == ZO_STEPS_CHUNK ? zo_round_steps_16(weights, fraction, steps, ZO_STEPS_CHUNK, limit)
                                 : zo_round_steps_16(weights, fraction, steps, count, limit);
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_STEPS_H_ */
