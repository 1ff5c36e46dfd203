/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/kernels/zo_apply_row.h"

#include "ops/core/kernels/zo_apply_steps.h"
#include "ops/core/kernels/zo_weight_loops.h"
#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_stream.h"

/* Each of these provides zo_row_fits, which says whether its loops take the steps of a row, and the
 * loops: zo_move_vectors_8 and, if it defines ZO_ROW_FRACTIONS, zo_move_vectors_16. */
#if ZO_ROW_VECTORS && ZO_MVE
#include "ops/core/kernels/zo_apply_row_mve.h"
#elif ZO_ROW_VECTORS
#include "ops/core/kernels/zo_apply_row_dsp.h"
#endif

/* Moves one weight; returns 1 if it was clipped. */
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

/* The weights of a row that are left, one by one. */
static uint32_t apply_rest_8(int8_t* weights, const int32_t* steps, uint32_t count, int32_t limit, uint32_t* stream) {
  uint32_t saturated = 0;
  uint32_t state = *stream;
  const int8_t* const end = weights + count;
  for (const int8_t* const whole = weights + count / 4u * 4u; weights != whole; weights += 4) {
    state = zo_stream_next(state);
    const uint32_t other = zo_turned(state);
    saturated += apply_one(weights, steps[0], state & 0xFFFFu, limit);
    saturated += apply_one(weights + 1, steps[1], other & 0xFFFFu, limit);
    saturated += apply_one(weights + 2, steps[2], state >> 16, limit);
    saturated += apply_one(weights + 3, steps[3], other >> 16, limit);
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

uint32_t zo_apply_row_8(int8_t* weights, const int32_t* steps, uint32_t count, int32_t limit, int32_t largest,
                        uint32_t* stream) {
  uint32_t saturated = 0;
#if ZO_KERNEL_SETS
  const zo_weight_loops* loops = zo_weight_loops_of_machine();
  if (loops != NULL && count >= ZO_LOOPS_MIN) {
    const uint32_t done = zo_loops_apply_row(loops, weights, steps, count, limit, stream, &saturated);
    weights += done;
    steps += done;
    count -= done;
  }
#endif
#if ZO_ROW_VECTORS
  while (count >= ZO_ROW_TOGETHER && zo_row_fits(limit, largest)) {
    const uint32_t most = count < ZO_ROW_MOST ? count : ZO_ROW_MOST;
    const uint32_t done = most / ZO_ROW_TOGETHER * ZO_ROW_TOGETHER;
    saturated += zo_move_vectors_8(weights, steps, done, limit, stream);
    weights += done;
    steps += done;
    count -= done;
  }
#else
  (void)largest;
#endif
  if (count > 0u) saturated += apply_rest_8(weights, steps, count, limit, stream);
  return saturated;
}

#if ZO_ROWS_TOGETHER > 1u
/* Whether words can be read at all of these places, in steps of words. */
static int are_words(const int8_t* weights, const uint32_t* apart) {
  uintptr_t places = (uintptr_t)weights;
  for (uint32_t i = 0; i < ZO_ROWS_TOGETHER; ++i) places |= apart[i];
  return places % 4u == 0u;
}

uint32_t zo_apply_rows_8(int8_t* weights, const uint32_t* apart, const int32_t* steps, uint32_t count, int32_t limit,
                         int32_t largest, uint32_t* streams) {
  uint32_t saturated = 0;
  while (count >= 4u && zo_row_fits(limit, largest) && are_words(weights, apart)) {
    const uint32_t done = (count < ZO_ROWS_MOST ? count : ZO_ROWS_MOST) / 4u * 4u;
    saturated += zo_move_four_rows(weights, apart, steps, done, limit, streams);
    weights += done;
    steps += done;
    count -= done;
  }
  for (uint32_t i = 0; count > 0u && i < ZO_ROWS_TOGETHER; ++i) {
    saturated += zo_apply_row_8(weights + apart[i], steps, count, limit, largest, &streams[i]);
  }
  return saturated;
}
#endif

uint32_t zo_apply_row_16(int8_t* weights, int8_t* fraction, const int32_t* steps, uint32_t count, int32_t limit,
                         int32_t largest) {
  uint32_t saturated = 0;
#if defined(ZO_ROW_FRACTIONS)
  while (count >= ZO_ROW_TOGETHER && zo_row_fits(limit, largest)) {
    const uint32_t most = count < ZO_ROW_MOST ? count : ZO_ROW_MOST;
    const uint32_t done = most / ZO_ROW_TOGETHER * ZO_ROW_TOGETHER;
    saturated += zo_move_vectors_16(weights, fraction, steps, done, limit);
    weights += done;
    fraction += done;
    steps += done;
    count -= done;
  }
#else
  (void)largest;
#endif
  while (count > 0u) {
    const uint32_t size = count < ZO_STEPS_CHUNK ? count : ZO_STEPS_CHUNK;
    saturated += zo_apply_steps_16(weights, fraction, steps, size, limit);
    weights += size;
    fraction += size;
    steps += size;
    count -= size;
  }
  return saturated;
}

#if ZO_ROWS_FRACTIONS
uint32_t zo_apply_rows_16(int8_t* weights, int8_t* fraction, const uint32_t* apart, const int32_t* steps,
                          uint32_t count, int32_t limit, int32_t largest) {
  uint32_t saturated = 0;
  while (count >= ZO_ROW_TOGETHER && zo_row_fits(limit, largest)) {
    const uint32_t most = count < ZO_ROW_MOST ? count : ZO_ROW_MOST;
    const uint32_t done = most / ZO_ROW_TOGETHER * ZO_ROW_TOGETHER;
    saturated += zo_move_four_rows_16(weights, fraction, apart, steps, done, limit);
    weights += done;
    fraction += done;
    steps += done;
    count -= done;
  }
  for (uint32_t i = 0; count > 0u && i < ZO_ROWS_TOGETHER; ++i) {
    saturated += zo_apply_row_16(weights + apart[i], fraction + apart[i], steps, count, limit, largest);
  }
  return saturated;
}
#endif
