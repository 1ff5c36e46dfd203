/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Positive numbers of any size with 32 significant bits: running means of squares, whose range no
 * fixed point covers. Every function truncates, so results are the same everywhere. */
#ifndef TFLM_ZO_OPS_CORE_MATH_ZO_SCALE_H_
#define TFLM_ZO_OPS_CORE_MATH_ZO_SCALE_H_

#include "ops/core/math/zo_fixed_point.h"

/* mantissa * 2^exponent; the mantissa's highest bit is set, or all of it is 0 for zero. */
typedef struct zo_scale {
  uint32_t mantissa;
  int32_t exponent;
} zo_scale;

/* Exponents beyond this are no result of a run: squares of gradients reach 2^140, and a mean that
 * nothing is added to for all steps that a run may have falls by less. Sums, differences and halves
 * of a few exponents within it stay in int32_t. */
#define ZO_SCALE_EXPONENT_MAX (INT32_C(1) << 28)

/* Whether a number from outside, such as a log's, is one that functions here give. */
static inline int zo_scale_is_valid(zo_scale scale) {
  return (scale.mantissa == 0u || scale.mantissa >> 31 != 0u) && scale.exponent >= -ZO_SCALE_EXPONENT_MAX &&
         scale.exponent <= ZO_SCALE_EXPONENT_MAX;
}

/* value * 2^exponent, its 32 highest bits kept. */
static inline zo_scale zo_scale_of(uint64_t value, int32_t exponent) {
  zo_scale result = {0, 0};
  if (value == 0u) return result;
  while (value >> 32 != 0u) {
    value >>= 1;
    ++exponent;
  }
  while (value >> 31 == 0u) {
    value <<= 1;
    --exponent;
  }
  result.mantissa = (uint32_t)value;
  result.exponent = exponent;
  return result;
}

/* a + b. */
static inline zo_scale zo_scale_sum(zo_scale a, zo_scale b) {
  if (a.mantissa == 0u) return b;
  if (b.mantissa == 0u) return a;
  if (a.exponent < b.exponent) {
    const zo_scale larger = b;
    b = a;
    a = larger;
  }
  /* 31 bits below the larger one's: anything smaller does not change the sum. */
  const uint32_t distance = (uint32_t)(a.exponent - b.exponent);
  const uint64_t low = distance < 63u ? ((uint64_t)b.mantissa << 31) >> distance : 0u;
  return zo_scale_of(((uint64_t)a.mantissa << 31) + low, a.exponent - 31);
}

/* mean + (value - mean) / 2^bits, 1 <= bits <= 31. */
static inline zo_scale zo_scale_blend(zo_scale mean, zo_scale value, uint32_t bits) {
  const zo_scale kept =
      zo_scale_of((uint64_t)mean.mantissa * ((UINT64_C(1) << bits) - 1u), mean.exponent - (int32_t)bits);
  value.exponent -= (int32_t)bits;
  return zo_scale_sum(kept, value);
}

/* Square root. */
static inline zo_scale zo_scale_root(zo_scale square) {
  /* An even exponent and a radicand of 63 or 62 bits: a root of 32 or 31. */
  const uint32_t odd = (uint32_t)square.exponent & 1u;
  const uint64_t radicand = (uint64_t)square.mantissa << (odd != 0u ? 31 : 30);
  return zo_scale_of(zo_square_root(radicand), (square.exponent - (odd != 0u ? 31 : 30)) / 2);
}

/* a / b; b is not zero. */
static inline zo_scale zo_scale_ratio(zo_scale a, zo_scale b) {
  return zo_scale_of(((uint64_t)a.mantissa << 32) / b.mantissa, a.exponent - b.exponent - 32);
}

/* a b. */
static inline zo_scale zo_scale_product(zo_scale a, zo_scale b) {
  return zo_scale_of((uint64_t)a.mantissa * b.mantissa, a.exponent + b.exponent);
}

/* The nearest integer, half up, at most `limit`. */
static inline uint32_t zo_scale_round(zo_scale value, uint32_t limit) {
  if (value.mantissa == 0u || value.exponent < -32) return 0;
  if (value.exponent > 0) return limit;
  const uint64_t doubled = ((uint64_t)value.mantissa << 1) >> (uint32_t)-value.exponent;
  const uint64_t rounded = (doubled + 1u) >> 1;
  return rounded < limit ? (uint32_t)rounded : limit;
}

#endif /* TFLM_ZO_OPS_CORE_MATH_ZO_SCALE_H_ */
