/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/*
 * How one weight's z is read from a word of the stream (see zo_stream.h). Inline and free of
 * branches on the data, because every weight op spends its time here.
 */
#ifndef TFLM_ZO_OPS_CORE_RANDOM_ZO_DRAW_H_
#define TFLM_ZO_OPS_CORE_RANDOM_ZO_DRAW_H_

#include "ops/core/random/zo_stream.h"
#include "ops/core/zo_features.h"

/* Weights that one word of the stream serves. */
static inline uint32_t zo_weights_per_word(zo_distribution distribution) {
  if (zo_is_rademacher(distribution)) return 32u;
  return zo_is_gaussian(distribution) ? 4u : 2u;
}

/* +1 if bit `j` of the word is clear, -1 if it is set. */
static inline int32_t zo_draw_rademacher(uint32_t word, uint32_t j) { return 1 - (int32_t)(((word >> j) & 1u) << 1); }

/* Byte j: sign in bit 7, index of the quantile below it. */
static inline int32_t zo_draw_gaussian(uint32_t word, uint32_t j) {
  const uint32_t byte = (word >> (8u * j)) & 0xFFu;
  const int32_t magnitude = (int32_t)zo_gaussian_quantiles[byte & 0x7Fu];
  const int32_t sign = -(int32_t)(byte >> 7);
  return (magnitude ^ sign) - sign;
}

/* Half-word j: zero decided by the low byte, value by the high one. -128 has no counterpart and
 * counts as 0, which makes the distribution exactly symmetric. */
static inline int32_t zo_draw_sparse_uniform(uint32_t word, uint32_t j, uint32_t radius, uint32_t p_zero) {
  const uint32_t half = (word >> (16u * j)) & 0xFFFFu;
  const int32_t byte = (int32_t)((half >> 8) ^ 0x80u) - 128;
  /* 128 * 255 keeps the shifted value non-negative: >> of a negative number is
   * implementation-defined in C99. */
  const uint32_t shifted = (uint32_t)(byte * (int32_t)(2u * radius + 1u) + 128 + 32768);
  const int32_t value = (int32_t)(shifted >> 8) - 128;
  const uint32_t keep = (uint32_t)((half & 0xFFu) >= p_zero) & (uint32_t)(byte != -128);
  return value * (int32_t)keep;
}

static inline int32_t zo_draw(zo_distribution distribution, uint32_t word, uint32_t j) {
  if (zo_is_rademacher(distribution)) return zo_draw_rademacher(word, j);
  if (zo_is_gaussian(distribution)) return zo_draw_gaussian(word, j);
  return zo_draw_sparse_uniform(word, j, distribution.mu, distribution.p_zero);
}

/* round(z * mu / 2^12), half away from zero. */
static inline int32_t zo_gaussian_perturbation(int32_t z, uint32_t mu) {
  const uint32_t magnitude = (uint32_t)(z < 0 ? -z : z);
  const int32_t rounded = (int32_t)((magnitude * mu + 2048u) >> 12);
  return z < 0 ? -rounded : rounded;
}

#endif /* TFLM_ZO_OPS_CORE_RANDOM_ZO_DRAW_H_ */
