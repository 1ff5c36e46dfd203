/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/weights/zo_biases.h"

#include "ops/core/random/zo_draw.h"

void zo_perturb_biases(int32_t* biases, uint32_t count, uint32_t state,
                       zo_distribution distribution, int32_t k) {
  const uint32_t per_word = zo_weights_per_word(distribution);
  for (uint32_t i = 0; i < count; ++i) {
    if (i % per_word == 0u) state = zo_stream_next(state);
    int32_t moved = zo_draw(distribution, state, i % per_word) * (INT32_C(1) << ZO_BIAS_SHIFT);
    if (zo_is_rademacher(distribution)) moved *= (int32_t)distribution.mu;
    if (zo_is_gaussian(distribution)) moved = zo_gaussian_perturbation(moved, distribution.mu);
    zo_add_to_bias(&biases[i], k * moved);
  }
}
