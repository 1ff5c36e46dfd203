/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Updates of a few bits, rounded by their own low bits instead of by random numbers, as in NITI and
 * ElasticZO-INT8. */
#ifndef TFLM_ZO_OPS_CORE_PAPERS_ZO_PSEUDO_STOCHASTIC_H_
#define TFLM_ZO_OPS_CORE_PAPERS_ZO_PSEUDO_STOCHASTIC_H_

#include "ops/core/math/zo_fixed_point.h"

/* Bits of a number: 0 for 0, else 1 + floor(log2(value)). */
static inline uint32_t zo_bit_width(uint32_t value) {
  uint32_t width = 0;
  for (; value != 0u; value >>= 1) ++width;
  return width;
}

/* value / 2^shift, shift in 0..31, any value; odd in `value`.
 *
 * Of the magnitude's `shift` low bits, the lower floor(shift / 2) are the random number L and the
 * others the probability U: the magnitude, shifted, is rounded up (away from zero) if U > L, or,
 * with an odd shift, in which L has one bit fewer, if U > 2 L. It is always one of the two integers
 * next to the exact quotient. A shift of 0 gives the value itself, a shift of 1 rounds half away
 * from zero.
 *
 * Over all values of the low bits, the mean of (rounded - exact) magnitude is +2^-(shift + 1) for
 * an odd shift and -(2^(shift / 2) - 1) / 2^(shift + 1) for an even one: between -1/8 and +1/4, and
 * within 1/16 from a shift of 5 on. The largest magnitude of B bits, shifted by B - b, may round
 * up to 2^b.
 *
 * Source: NITI (Wang et al., 2022), pseudo-stochastic rounding. */
static inline int32_t zo_pseudo_stochastic(int32_t value, uint32_t shift) {
  const uint32_t magnitude = value < 0 ? 0u - (uint32_t)value : (uint32_t)value;
  if (shift == 0u) return value;
  const uint32_t half = shift / 2u;
  const uint32_t dropped = magnitude & ((UINT32_C(1) << shift) - 1u);
  const uint32_t probability = dropped >> half;
  const uint32_t random = (dropped & ((UINT32_C(1) << half) - 1u)) << (shift % 2u);
  const int32_t rounded = (int32_t)((magnitude >> shift) + (uint32_t)(probability > random));
  return value < 0 ? -rounded : rounded;
}

#endif /* TFLM_ZO_OPS_CORE_PAPERS_ZO_PSEUDO_STOCHASTIC_H_ */
