/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/weights/zo_biases.h"

#include "ops/core/random/zo_draw.h"

uint32_t zo_step_biases(int32_t* biases, const int32_t* steps, uint32_t count, uint32_t* rounding) {
  uint32_t saturated = 0, word = 0;
  for (uint32_t j = 0; j < count; ++j) {
    if (j % 4u == 0u) word = *rounding = zo_stream_next(*rounding);
    saturated += zo_step_bias(&biases[j], steps[j], (int32_t)(word & 0xFFFFu));
    word = zo_turned(word);
  }
  return saturated;
}

void zo_perturb_biases(int32_t* biases, uint32_t count, uint32_t state, zo_distribution distribution, int32_t k) {
  const uint32_t per_word = zo_weights_per_word(distribution);
  for (uint32_t i = 0; i < count; ++i) {
    if (i % per_word == 0u) state = zo_stream_next(state);
    int32_t moved = zo_draw(distribution, state, i % per_word) * (INT32_C(1) << ZO_BIAS_SHIFT);
    if (zo_is_rademacher(distribution)) moved *= (int32_t)distribution.mu;
    if (zo_is_gaussian(distribution)) moved = zo_gaussian_perturbation(moved, distribution.mu);
    zo_add_to_bias(&biases[i], k * moved);
  }
}
