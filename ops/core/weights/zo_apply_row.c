/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/weights/zo_apply_row.h"

#include <string.h>

#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_stream.h"

/* The four rounding terms of a word: halves of it and of the word turned by a byte. */
static inline uint32_t turned(uint32_t word) { return word >> 8 | word << 24; }

/* Moves one weight; returns 1 where it was clipped. */
static inline uint32_t apply_one(int8_t* weight, int32_t step, uint32_t random, int32_t limit) {
  int32_t moved = *weight + zo_floor_shift(step + (int32_t)random, ZO_COEFFICIENT_BITS);
  uint32_t saturated = 0;
  if ((uint32_t)(moved + limit) > 2u * (uint32_t)limit) {
    moved = moved < 0 ? -limit : limit;
    saturated = 1;
  }
  *weight = (int8_t)moved;
  return saturated;
}

#if defined(__ARM_FEATURE_SIMD32) && defined(__ARMEL__) && !defined(ZO_PORTABLE)
#include <arm_acle.h>

/* Steps and limits that bytes suffice for: at most 126 LSB up or down, which rounding makes 127 at
 * most, and a limit whose distance from 127 fits twice. */
#define STEP_MAX (INT32_C(126) << ZO_COEFFICIENT_BITS)
#define LIMIT_MIN 64

static int bytes_suffice(int32_t limit, int32_t largest) {
  return largest <= STEP_MAX && limit >= LIMIT_MIN;
}

/* Moves weights, four at a time, up to the first ones of which any would be clipped or to `end`.
 * Returns where it stopped. */
static int8_t* apply_words(int8_t* weights, const int8_t* end, const int32_t* steps, int32_t limit,
                           uint32_t* stream) {
  const uint32_t each = UINT32_C(0x01010101);
  const int8x4_t up = (int8x4_t)(each * (uint32_t)(127 - limit));
  const int8x4_t down = (int8x4_t)(each * (uint32_t)(255 - 2 * limit));
  const int8x4_t back = (int8x4_t)(each * (uint32_t)(128 - limit));
  uint32_t state = *stream;
  for (; weights != end; weights += 4, steps += 4) {
    const uint32_t word = zo_stream_next(state);
    const uint32_t s0 = (uint32_t)steps[0] + (word & 0xFFFFu);
    const uint32_t s1 = (uint32_t)steps[1] + (turned(word) & 0xFFFFu);
    const uint32_t s2 = (uint32_t)steps[2] + (word >> 16);
    const uint32_t s3 = (uint32_t)steps[3] + (turned(word) >> 16);
    /* Their whole parts, a byte each. */
    const uint32_t even = ((s2 & UINT32_C(0xFFFF0000)) | s0 >> 16) & UINT32_C(0x00FF00FF);
    const uint32_t odd = ((s3 & UINT32_C(0xFFFF0000)) | s1 >> 16) & UINT32_C(0x00FF00FF);
    const uint32_t whole = even | odd << 8;
    uint32_t before;
    memcpy(&before, weights, sizeof before);
    /* Saturated with 127 - limit added, then with 128 - limit subtracted. */
    int8x4_t clipped = __qadd8((int8x4_t)before, (int8x4_t)whole);
    clipped = __qsub8(__qadd8(clipped, up), down);
    clipped = __qadd8(clipped, back);
    if ((uint32_t)clipped != __uadd8(before, whole)) break;
    memcpy(weights, &clipped, sizeof clipped);
    state = word;
  }
  *stream = state;
  return weights;
}

#else

static int bytes_suffice(int32_t limit, int32_t largest) {
  (void)limit;
  (void)largest;
  return 0;
}

static int8_t* apply_words(int8_t* weights, const int8_t* end, const int32_t* steps, int32_t limit,
                           uint32_t* stream) {
  (void)end;
  (void)steps;
  (void)limit;
  (void)stream;
  return weights;
}

#endif

uint32_t zo_apply_row_8(int8_t* weights, const int32_t* steps, uint32_t count, int32_t limit,
                        int32_t largest, uint32_t* stream) {
  uint32_t saturated = 0;
  uint32_t state = *stream;
  const int8_t* const end = weights + count;
  const int8_t* const whole = weights + count / 4u * 4u;
  const int by_bytes = bytes_suffice(limit, largest);
  for (;;) {
    if (by_bytes) {
      int8_t* const stopped = apply_words(weights, whole, steps, limit, &state);
      steps += stopped - weights;
      weights = stopped;
    }
    if (weights == whole) break;
    state = zo_stream_next(state);
    const uint32_t other = turned(state);
    saturated += apply_one(weights, steps[0], state & 0xFFFFu, limit);
    saturated += apply_one(weights + 1, steps[1], other & 0xFFFFu, limit);
    saturated += apply_one(weights + 2, steps[2], state >> 16, limit);
    saturated += apply_one(weights + 3, steps[3], other >> 16, limit);
    weights += 4;
    steps += 4;
  }
  *stream = state;
  state = zo_stream_next(state);
  for (; weights != end; ++weights, ++steps) {
    saturated += apply_one(weights, *steps, state & 0xFFFFu, limit);
    state = turned(state);
  }
  return saturated;
}
