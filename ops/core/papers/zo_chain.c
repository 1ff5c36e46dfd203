/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/papers/zo_chain.h"

#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_draw.h"
#include "ops/core/weights/zo_biases.h"
#include "ops/core/weights/zo_mask.h"
#include "ops/core/zo_features.h"

void zo_chain_weights(uint32_t momentum, uint32_t count, int32_t* weights) {
  uint32_t powers[ZO_MAX_CHAIN];
  uint64_t squares = 0;
  powers[0] = UINT32_C(1) << 16;
  for (uint32_t j = 0; j < count; ++j) {
    if (j > 0u) powers[j] = (uint32_t)((uint64_t)powers[j - 1u] * momentum >> 16);
    squares += (uint64_t)powers[j] * powers[j];
  }
  const uint64_t root = zo_square_root(squares << 24);
  for (uint32_t j = 0; j < count; ++j) {
    weights[j] = (int32_t)((((uint64_t)powers[j] << 27) + root / 2u) / root);
  }
}

/* Bits by which v * mu of a chain is finer than an LSB: those of v and of a Gaussian's mu. */
#define CHAIN_SHIFT (ZO_CHAIN_BITS + 12)

/* round(v * mu / 2^shift), half away from zero, |v| at most the table's end. */
static int32_t chain_perturbation(int32_t v, uint32_t mu, uint32_t shift) {
  const int32_t end = ZO_GAUSSIAN_Z_MAX * (INT32_C(1) << ZO_CHAIN_BITS);
  const uint32_t magnitude = (uint32_t)zo_clamp(v < 0 ? -v : v, 0, end);
  const uint32_t half = UINT32_C(1) << (shift - 1u);
  const int32_t rounded = (int32_t)(((uint64_t)magnitude * mu + half) >> shift);
  return v < 0 ? -rounded : rounded;
}

uint32_t zo_chain_length(const zo_perturb_terms* terms, uint32_t first) {
  uint32_t seeds = 1;
  while (first + seeds < terms->count && terms->terms[first + seeds].k == ZO_SAME_CHAIN) ++seeds;
  return seeds;
}

void zo_perturb_chain_s8(const zo_tensor* tensor, uint32_t begin, uint32_t size, zo_distribution distribution,
                         const zo_perturb_terms* terms, uint32_t first, uint32_t seeds) {
  int8_t* weights = tensor->weights + begin;
  const uint8_t* mask = zo_mask_of(tensor) != NULL ? tensor->mask + begin / 8u : NULL;
  const int32_t k = terms->terms[first].k;
  uint32_t states[ZO_MAX_CHAIN];
  int32_t shares[ZO_MAX_CHAIN];
  zo_chain_weights(terms->momentum, seeds, shares);
  for (uint32_t j = 0; j < seeds; ++j) {
    const uint32_t key = zo_stream_key(terms->terms[first + j].seed, tensor->stream);
    states[j] = zo_stream_state(key, begin / ZO_STREAM_TILE);
  }
  for (uint32_t i = 0; i < size; ++i) {
    int32_t v = 0;
    for (uint32_t j = 0; j < seeds; ++j) {
      if (i % 4u == 0u) states[j] = zo_stream_next(states[j]);
      v += shares[j] * zo_draw_gaussian(states[j], i % 4u);
    }
    if (!zo_mask_has(mask, i)) continue;
    if (zo_is_of_biases(tensor)) {
      const int32_t moved = chain_perturbation(v, distribution.mu, CHAIN_SHIFT - ZO_BIAS_SHIFT);
      zo_add_to_bias(zo_biases_of(tensor) + begin + i, k * moved);
    } else {
      const int32_t moved = k * chain_perturbation(v, distribution.mu, CHAIN_SHIFT);
      weights[i] = (int8_t)(uint8_t)((uint32_t)(uint8_t)weights[i] + (uint32_t)moved);
    }
  }
}
