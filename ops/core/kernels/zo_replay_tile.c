/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/kernels/zo_replay_tile.h"

#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_stream.h"

/* Weights that half a word of signs serves. */
#define HALF 16u

static const uint16_t own_bit[HALF] = {1u << 0, 1u << 1, 1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,
                                       1u << 8, 1u << 9, 1u << 10, 1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15};

/* One of the two moves of a step: W + by, clipped to +-256 limit. Clipping comes first, so that
 * nothing leaves 16 bits: W is brought to low..high, where adding keeps it within the limit. */
typedef struct move {
  int16_t low;
  int16_t high;
  uint16_t by;
} move;

static move move_of(int32_t coefficient, int32_t limit) {
  const int32_t by =
      zo_clamp(zo_floor_shift(coefficient + 128, ZO_COEFFICIENT_BITS - 8), -2 * limit - 1, 2 * limit + 1);
  move m;
  m.low = (int16_t)(by < 0 ? zo_clamp(-limit - by, INT16_MIN, INT16_MAX) : INT16_MIN);
  m.high = (int16_t)(by > 0 ? zo_clamp(limit - by, INT16_MIN, INT16_MAX) : INT16_MAX);
  m.by = (uint16_t)by;
  return m;
}

/* Constant bounds and selections instead of branches: the loop vectorizes. */
static uint32_t apply_signs(int16_t* restrict values, uint32_t signs, move plus, move minus) {
  uint16_t clipped = 0;
  for (uint32_t j = 0; j < HALF; ++j) {
    const int is_minus = (signs & own_bit[j]) != 0u;
    const int16_t low = is_minus ? minus.low : plus.low;
    const int16_t high = is_minus ? minus.high : plus.high;
    const uint16_t by = is_minus ? minus.by : plus.by;
    const int16_t value = values[j];
    int16_t inside = value < low ? low : value;
    inside = inside > high ? high : inside;
    clipped = (uint16_t)(clipped + (inside != value));
    /* Within 16 bits by construction; unsigned, because the sum is formed modulo 2^16. */
    values[j] = (int16_t)(uint16_t)((uint16_t)inside + by);
  }
  return clipped;
}

int zo_replay_tile_fits(const zo_tensor* tensor, uint32_t begin, uint32_t count) {
  const int32_t limit = 256 * tensor->limit;
  for (uint32_t i = begin; i < begin + count; ++i) {
    const int32_t value = 256 * tensor->weights[i] + tensor->fraction[i];
    if (value < -limit || value > limit) return 0;
  }
  return 1;
}

uint32_t zo_replay_tile(const zo_tensor* tensor, uint32_t begin, uint32_t count, const zo_query* steps,
                        uint32_t step_count) {
  int16_t values[ZO_STREAM_TILE];
  int8_t* weights = tensor->weights + begin;
  int8_t* fraction = tensor->fraction + begin;
  /* Whole words at the end too; weights beyond the tile are ignored. */
  const uint32_t whole = count / (2u * HALF) * (2u * HALF);
  for (uint32_t i = 0; i < count; ++i) {
    values[i] = (int16_t)(256 * weights[i] + fraction[i]);
  }
  uint32_t clipped = 0;
  for (uint32_t t = 0; t < step_count; ++t) {
    const move plus = move_of(steps[t].coefficient, 256 * tensor->limit);
    const move minus = move_of(-steps[t].coefficient, 256 * tensor->limit);
    uint32_t state = zo_stream_state(zo_stream_key(steps[t].seed, tensor->stream), begin / ZO_STREAM_TILE);
    for (uint32_t i = 0; i < whole; i += 2u * HALF) {
      state = zo_stream_next(state);
      clipped += apply_signs(values + i, state & 0xFFFFu, plus, minus);
      clipped += apply_signs(values + i + HALF, state >> 16, plus, minus);
    }
    if (whole < count) state = zo_stream_next(state);
    for (uint32_t i = whole; i < count; ++i) {
      const move m = (state >> (i - whole) & 1u) != 0u ? minus : plus;
      const int32_t inside = zo_clamp(values[i], m.low, m.high);
      clipped += (uint32_t)(inside != values[i]);
      values[i] = (int16_t)(uint16_t)((uint16_t)inside + m.by);
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t rounded = zo_floor_shift(values[i] + 128, 8);
    weights[i] = (int8_t)rounded;
    fraction[i] = (int8_t)(values[i] - 256 * rounded);
  }
  return clipped;
}
