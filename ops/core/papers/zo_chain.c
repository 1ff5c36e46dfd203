/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/papers/zo_chain.h"

#include "ops/core/math/zo_fixed_point.h"

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
