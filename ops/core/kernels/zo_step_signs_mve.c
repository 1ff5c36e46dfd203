/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The loop of zo_step_signs.h for one query, with vectors of MVE (Cortex-M55, M85). */
#include "ops/core/kernels/zo_step_run.h"

#if ZO_STEP_SIGNS && ZO_STEP_VECTORS

#include <arm_mve.h>

#include "ops/core/random/zo_stream.h"

#define CHUNK ZO_STEP_SIGNS_CHUNK

/* What all vectors of a run need of its coefficient c. */
typedef struct mve_step {
  uint8x16_t whole;    /* floor(c / 2^16) */
  uint16x8_t fraction; /* the rest */
} mve_step;

/* Moves 16 weights. Where the sign is minus, floor((r - c) / 2^16) = -floor((~r + c) / 2^16), all
 * 16 bits of r turned over: so every weight moves by +-(whole + carry of fraction + r). */
ZO_ALWAYS_INLINE uint32_t move_16_mve(int8_t* weights, uint32_t signs, uint32_t random,
                                      mve_step step, uint8x16_t* largest) {
  const uint32_t w0 = zo_stream_next(random), w1 = zo_stream_next(w0);
  const uint32_t w2 = zo_stream_next(w1), w3 = zo_stream_next(w2);
  /* Halves of words are for even weights, those of words turned by a byte for odd ones. */
  /* Not vcreateq_u32(), whose halves GCC 12 swaps. */
  const uint32x4_t words = {w0, w1, w2, w3};
  const uint32x4_t turned = vsliq_n_u32(vshrq_n_u32(words, 8), words, 24);
  const int8x16_t minus = vpselq_s8(vdupq_n_s8(-1), vdupq_n_s8(0), (mve_pred16_t)signs);
  uint16x8_t even =
      veorq_u16(vreinterpretq_u16_u32(words), vreinterpretq_u16_s16(vmovlbq_s8(minus)));
  uint16x8_t odd =
      veorq_u16(vreinterpretq_u16_u32(turned), vreinterpretq_u16_s16(vmovltq_s8(minus)));
  even = vshrq_n_u16(vhaddq_u16(even, step.fraction), 15);
  odd = vshrq_n_u16(vhaddq_u16(odd, step.fraction), 15);
  const uint8x16_t carries = vreinterpretq_u8_u16(vsliq_n_u16(even, odd, 8));
  const int8x16_t moves = vreinterpretq_s8_u8(vaddq_u8(carries, step.whole));
  const int8x16_t moved = vqaddq_s8(vldrbq_s8(weights), vsubq_s8(veorq_s8(moves, minus), minus));
  vstrbq_s8(weights, moved);
  *largest = vmaxaq_s8(*largest, moved);
  return w3;
}

uint32_t zo_step_single_mve(const zo_step_run* run) {
  /* The entry of two plus signs. */
  const int32_t coefficient = (int32_t)run->tables->pairs[0][0].first;
  mve_step step;
  step.whole = vdupq_n_u8((uint8_t)((uint32_t)coefficient >> 16));
  step.fraction = vdupq_n_u16((uint16_t)coefficient);
  uint32_t clipped = 0;
  uint32_t state = run->states[0], random = *run->rounding;
  int8_t* weights = run->weights;
  for (const int8_t* const end = weights + CHUNK * run->chunks; weights != end; weights += CHUNK) {
    state = zo_stream_next(state);
    uint8x16_t largest = vdupq_n_u8(0);
    random = move_16_mve(weights, state & 0xFFFFu, random, step, &largest);
    random = move_16_mve(weights + 16, state >> 16, random, step, &largest);
    if (vmaxvq_u8(0, largest) > (uint32_t)run->limit)
      clipped += zo_step_clip_8(weights, run->limit);
  }
  run->states[0] = state;
  *run->rounding = random;
  return clipped;
}

#endif
