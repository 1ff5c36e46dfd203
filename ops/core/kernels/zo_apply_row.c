/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/kernels/zo_apply_row.h"

#include "ops/core/kernels/zo_weight_loops.h"
#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_stream.h"

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
#include "ops/core/kernels/zo_apply_row_dsp.h"
#else

static inline int zo_bytes_suffice(int32_t limit, int32_t largest) {
  (void)limit;
  (void)largest;
  return 0;
}

static inline int8_t* zo_apply_words(int8_t* weights, const int8_t* end, const int32_t* steps,
                                     int32_t limit, uint32_t* stream) {
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
#if ZO_KERNEL_SETS
  const zo_weight_loops* loops = zo_weight_loops_of_machine();
  if (loops != NULL && count >= ZO_LOOPS_MIN) {
    const uint32_t done =
        zo_loops_apply_row(loops, weights, steps, count, limit, stream, &saturated);
    weights += done;
    steps += done;
    count -= done;
  }
#endif
  uint32_t state = *stream;
  const int8_t* const end = weights + count;
  const int8_t* const whole = weights + count / 4u * 4u;
  const int by_bytes = zo_bytes_suffice(limit, largest);
  for (;;) {
    if (by_bytes) {
      int8_t* const stopped = zo_apply_words(weights, whole, steps, limit, &state);
      steps += stopped - weights;
      weights = stopped;
    }
    if (weights == whole) break;
    state = zo_stream_next(state);
    const uint32_t other = zo_turned(state);
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
    state = zo_turned(state);
  }
  return saturated;
}
