/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/papers/zo_coordinate.h"

#include "ops/core/kernels/zo_apply_steps.h"
#include "ops/core/random/zo_stream.h"
#include "ops/core/weights/zo_biases.h"
#include "ops/core/zo_features.h"

/* The weight that a direction moves. */
static uint32_t chosen_weight(const zo_tensor* tensor, uint32_t seed) {
  return zo_stream_key(seed, tensor->stream) % zo_values(tensor);
}

void zo_perturb_coordinates_s8(const zo_tensor* tensor, zo_distribution distribution, const zo_perturb_terms* terms) {
  for (uint32_t t = 0; t < terms->count; ++t) {
    const uint32_t index = chosen_weight(tensor, terms->terms[t].seed);
    const int32_t step = terms->terms[t].k * (int32_t)distribution.mu;
    if (zo_is_of_biases(tensor)) {
      zo_add_to_bias(zo_biases_of(tensor) + index, step * (INT32_C(1) << ZO_BIAS_SHIFT));
      continue;
    }
    /* Modulo 256, as every perturbation. */
    const int32_t moved = tensor->weights[index] + step;
    tensor->weights[index] = (int8_t)(uint8_t)moved;
  }
}

/* The rounding term of one weight: that of the stream in zo_draw_rounding. */
static int32_t rounding_of(const zo_tensor* tensor, uint32_t seed, uint32_t index) {
  const uint32_t key = zo_stream_key(seed, tensor->stream | ZO_ROUNDING_STREAM);
  uint32_t word = zo_stream_state(key, index / ZO_STREAM_TILE);
  for (uint32_t i = 0; i <= index % ZO_STREAM_TILE; i += 4u) word = zo_stream_next(word);
  const uint32_t turn = 8u * (index % 4u);
  return (int32_t)((word >> turn | (uint32_t)((uint64_t)word << (32u - turn))) & 0xFFFFu);
}

uint32_t zo_update_coordinates_s8(const zo_tensor* tensor, const zo_query* queries, uint32_t count) {
  uint32_t indices[ZO_MAX_QUERIES];
  uint32_t saturated = 0;
  for (uint32_t q = 0; q < count; ++q) indices[q] = chosen_weight(tensor, queries[q].seed);
  for (uint32_t q = 0; q < count; ++q) {
    const uint32_t index = indices[q];
    int32_t step = 0;
    int is_first = 1;
    for (uint32_t p = 0; p < count; ++p) {
      if (indices[p] != index) continue;
      if (p < q) is_first = 0;
      step += queries[p].coefficient;
    }
    if (!is_first) continue;
    if (zo_multiplier_of(tensor) != NULL) {
      step = zo_scale_step(step, tensor->multiplier[index / tensor->inner % tensor->channels]);
    }
    int8_t* weight = tensor->weights + index;
    if (tensor->fraction != NULL) {
      saturated += zo_round_steps_16(weight, tensor->fraction + index, &step, 1, tensor->limit);
      continue;
    }
    const int32_t random = rounding_of(tensor, queries[0].seed, index);
    if (zo_is_of_biases(tensor)) {
      saturated += zo_step_bias(zo_biases_of(tensor) + index, step, random);
    } else {
      saturated += zo_round_steps_8(weight, &step, &random, 1, tensor->limit);
    }
  }
  return saturated;
}
