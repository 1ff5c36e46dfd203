/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/papers/zo_update_bits.h"

#include "ops/core/papers/zo_pseudo_stochastic.h"
#include "ops/core/random/zo_draw.h"
#include "ops/core/weights/zo_biases.h"
#include "ops/core/weights/zo_update.h"
#include "ops/core/zo_features.h"

/* Weights that are moved together: those of a word of signs, a whole number of words of any kind.
 */
#define BITS_CHUNK 32u

uint32_t zo_subtract_rounded(int8_t* weights, const int32_t* values, uint32_t count, uint32_t shift, int32_t limit) {
  uint32_t saturated = 0;
  for (uint32_t j = 0; j < count; ++j) {
    const int64_t moved = (int64_t)weights[j] - zo_pseudo_stochastic(values[j], shift);
    const int64_t clipped = zo_clamp64(moved, limit);
    saturated += (uint32_t)(clipped != moved);
    weights[j] = (int8_t)clipped;
  }
  return saturated;
}

/* The weights or biases [begin, begin + count) of one stream tile. */
static uint32_t update_tile_of_bits(const zo_tensor* tensor, uint32_t begin, uint32_t count, uint32_t state,
                                    zo_distribution distribution, int32_t direction, uint32_t shift) {
  const uint32_t per_word = zo_weights_per_word(distribution);
  uint32_t saturated = 0;
  for (uint32_t i = begin; i < begin + count; i += BITS_CHUNK) {
    const uint32_t size = begin + count - i < BITS_CHUNK ? begin + count - i : BITS_CHUNK;
    int32_t values[BITS_CHUNK];
    for (uint32_t j = 0; j < size; ++j) {
      if (j % per_word == 0u) state = zo_stream_next(state);
      values[j] = direction * zo_draw(distribution, state, j % per_word);
    }
    if (!zo_is_of_biases(tensor)) {
      saturated += zo_subtract_rounded(tensor->weights + i, values, size, shift, tensor->limit);
      continue;
    }
    for (uint32_t j = 0; j < size; ++j) {
      const int32_t step = zo_pseudo_stochastic(values[j], shift) * (INT32_C(1) << ZO_BIAS_SHIFT);
      saturated += zo_move_bias(zo_biases_of(tensor) + i + j, -step);
    }
  }
  return saturated;
}

zo_status zo_update_bits_s8(const zo_tensor* tensor, zo_distribution distribution, uint32_t seed, int32_t direction,
                            uint32_t bits, uint32_t* saturated) {
  if (!zo_update_takes(tensor) || tensor->fraction != NULL || bits < 1u || bits > ZO_UPDATE_BITS_MAX) {
    return ZO_ERROR_ARGUMENT;
  }
  if (direction < -1 || direction > 1) return ZO_ERROR_FACTOR;
  const zo_status status = zo_distribution_check(distribution);
  if (status != ZO_OK) return status;
  /* Not drawn weight by weight. */
  if (distribution.kind == ZO_COORDINATE) return ZO_ERROR_DISTRIBUTION;
  if (direction == 0) return ZO_OK;
  const uint32_t width = zo_bit_width((uint32_t)zo_distribution_z_max(distribution));
  const uint32_t shift = width > bits ? width - bits : 0u;
  const uint32_t key = zo_stream_key(seed, tensor->stream);
  uint32_t clipped = 0;
  const uint32_t count = zo_values(tensor);
  for (uint32_t begin = 0; begin < count; begin += ZO_STREAM_TILE) {
    const uint32_t size = count - begin < ZO_STREAM_TILE ? count - begin : ZO_STREAM_TILE;
    clipped += update_tile_of_bits(tensor, begin, size, zo_stream_state(key, begin / ZO_STREAM_TILE), distribution,
                                   direction, shift);
  }
  if (saturated != NULL) *saturated += clipped;
  return ZO_OK;
}
