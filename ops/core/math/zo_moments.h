/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Mean and standard deviation of up to 2^21 numbers of 32 bits, from exact sums. */
#ifndef TFLM_ZO_OPS_CORE_MATH_ZO_MOMENTS_H_
#define TFLM_ZO_OPS_CORE_MATH_ZO_MOMENTS_H_

#include "ops/core/math/zo_scale.h"

/* All zero before the first number. Numbers are within +-(2^31 - 1), at most 2^21 of them: the sum
 * is within +-2^52, the sum of squares below 2^83. */
typedef struct zo_moments {
  uint32_t count;
  uint32_t largest; /* |number| */
  int64_t sum;
  uint64_t squares_low;
  uint64_t squares_high;
} zo_moments;

static inline void zo_moments_add(zo_moments* m, const int32_t* numbers, uint32_t count) {
  for (uint32_t j = 0; j < count; ++j) {
    const int64_t number = numbers[j];
    const uint32_t magnitude = (uint32_t)(number < 0 ? -number : number);
    const uint64_t square = (uint64_t)magnitude * magnitude;
    m->sum += number;
    m->squares_low += square;
    m->squares_high += (uint64_t)(m->squares_low < square);
    if (magnitude > m->largest) m->largest = magnitude;
  }
  m->count += count;
}

/* Adds the numbers that others are the moments of. */
static inline void zo_moments_join(zo_moments* m, const zo_moments* others) {
  m->count += others->count;
  m->sum += others->sum;
  m->squares_low += others->squares_low;
  m->squares_high += others->squares_high + (uint64_t)(m->squares_low < others->squares_low);
  if (others->largest > m->largest) m->largest = others->largest;
}

/* Mean times 2^bits, half up; bits in -1..16 and |sum| 2^bits < 2^61. The count is not zero. */
static inline int64_t zo_moments_mean(const zo_moments* m, int32_t bits) {
  const int64_t twice = 2 * (int64_t)m->count;
  const int64_t numerator = m->sum * (INT64_C(1) << (bits + 1)) + m->count;
  const int64_t quotient = numerator / twice;
  return numerator % twice < 0 ? quotient - 1 : quotient;
}

/* count^2 times the variance, count * (sum of squares) - sum^2: exact but for the 32 bits of the
 * result, truncated; zero if and only if all numbers are equal. */
static inline zo_scale zo_moments_spread(const zo_moments* m) {
  const uint64_t low_half = UINT32_C(0xFFFFFFFF);
  const uint64_t count = m->count;
  /* count * squares */
  uint64_t low = (m->squares_low & low_half) * count;
  const uint64_t middle = (m->squares_low >> 32) * count + (low >> 32);
  uint64_t high = m->squares_high * count + (middle >> 32);
  low = middle << 32 | (low & low_half);
  /* less sum^2 */
  const uint64_t sum = (uint64_t)(m->sum < 0 ? -m->sum : m->sum);
  const uint64_t cross = 2u * (sum & low_half) * (sum >> 32);
  uint64_t square_low = (sum & low_half) * (sum & low_half);
  uint64_t square_high = (sum >> 32) * (sum >> 32) + (cross >> 32);
  square_low += cross << 32;
  square_high += (uint64_t)(square_low < cross << 32);
  high -= square_high + (uint64_t)(low < square_low);
  low -= square_low;
  int32_t exponent = 0;
  for (; high != 0u; high >>= 1) {
    low = low >> 1 | high << 63;
    ++exponent;
  }
  return zo_scale_of(low, exponent);
}

#endif /* TFLM_ZO_OPS_CORE_MATH_ZO_MOMENTS_H_ */
