/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/random/zo_draw.h"

const uint8_t zo_gaussian_quantiles[128] = {
    0,  1,  1,  1,  2,  2,  2,  3,  3,  3,  4,  4,  4,  5,  5,  6,  6,  6,  7,  7,  7,  8,  8,  8,   9,  9,
    10, 10, 10, 11, 11, 11, 12, 12, 13, 13, 13, 14, 14, 14, 15, 15, 16, 16, 16, 17, 17, 18, 18, 18,  19, 19,
    20, 20, 20, 21, 21, 22, 22, 23, 23, 23, 24, 24, 25, 25, 26, 26, 27, 27, 27, 28, 28, 29, 29, 30,  30, 31,
    31, 32, 32, 33, 34, 34, 35, 35, 36, 36, 37, 38, 38, 39, 39, 40, 41, 41, 42, 43, 44, 44, 45, 46,  47, 47,
    48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 59, 60, 62, 63, 65, 67, 69, 71, 73, 76, 80, 85, 91, 105,
};

uint32_t zo_query_seed(uint32_t run_seed, uint32_t step, uint32_t query) {
  return zo_fmix(zo_fmix(run_seed + UINT32_C(0x9E3779B9) * (step + 1u)) + UINT32_C(0x85EBCA6B) * query);
}

zo_status zo_distribution_check(zo_distribution distribution) {
  if (zo_is_gaussian(distribution)) {
    return distribution.p_zero == 0 && distribution.mu >= 1 ? ZO_OK : ZO_ERROR_DISTRIBUTION;
  }
  const int valid =
      distribution.mu >= 1 && distribution.mu <= 127 &&
      (zo_is_sparse_uniform(distribution) ||
       (distribution.p_zero == 0 && (distribution.kind == ZO_RADEMACHER || zo_is_coordinate(distribution))));
  return valid ? ZO_OK : ZO_ERROR_DISTRIBUTION;
}

int32_t zo_distribution_z_max(zo_distribution distribution) {
  if (zo_is_sparse_uniform(distribution)) return distribution.mu;
  return zo_is_gaussian(distribution) ? ZO_GAUSSIAN_Z_MAX : 1;
}

int32_t zo_distribution_reach(zo_distribution distribution) {
  return zo_is_gaussian(distribution) ? zo_gaussian_perturbation(ZO_GAUSSIAN_Z_MAX, distribution.mu)
                                      : (int32_t)distribution.mu;
}

zo_status zo_direction(zo_distribution distribution, uint32_t seed, uint32_t tensor, uint32_t begin, uint32_t count,
                       int8_t* z) {
  zo_status status = zo_distribution_check(distribution);
  if (status != ZO_OK) return status;
  if (z == NULL || begin % ZO_STREAM_TILE != 0) return ZO_ERROR_ARGUMENT;

  const uint32_t key = zo_stream_key(seed, tensor);
  if (zo_is_coordinate(distribution)) {
    if (begin != 0u || count == 0u) return ZO_ERROR_ARGUMENT;
    for (uint32_t i = 0; i < count; ++i) z[i] = i == key % count;
    return ZO_OK;
  }
  uint32_t state = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t at = i % ZO_STREAM_TILE;
    if (at == 0) state = zo_stream_state(key, (begin + i) / ZO_STREAM_TILE);
    const uint32_t per_word = zo_weights_per_word(distribution);
    if (at % per_word == 0) state = zo_stream_next(state);
    z[i] = (int8_t)zo_draw(distribution, state, at % per_word);
  }
  return ZO_OK;
}
