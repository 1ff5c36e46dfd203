/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* How far sums are shifted to become errors of 16 bits, and the exponents that follow. */
#ifndef TFLM_ZO_OPS_CORE_BACKWARD_ZO_ERROR_RANGE_H_
#define TFLM_ZO_OPS_CORE_BACKWARD_ZO_ERROR_RANGE_H_

#include "ops/core/math/zo_fixed_point.h"

#define ZO_ERROR_MAX 32767

/* value / 2^bits, half up; bits <= 30, and 2^(bits - 1) can be added to the value. */
static inline int32_t zo_half_up(int32_t value, uint32_t bits) {
  return zo_floor_shift(value + (int32_t)(UINT32_C(1) << bits >> 1), bits);
}

/* The smallest shift, half up, that makes an error of every number up to a largest one. */
static inline uint32_t zo_error_shift(uint64_t largest) {
  uint32_t bits = 0;
  while ((largest + (UINT64_C(1) << bits >> 1)) >> bits > (uint64_t)ZO_ERROR_MAX) ++bits;
  return bits;
}

static inline int8_t zo_error_exponent(int32_t exponent) {
  return (int8_t)zo_clamp(exponent, INT8_MIN, INT8_MAX);
}

/* The largest |error|. */
static inline uint32_t zo_largest_error(const int16_t* errors, uint32_t count) {
  int32_t largest = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t e = errors[i] < 0 ? -errors[i] : errors[i];
    if (e > largest) largest = e;
  }
  return (uint32_t)largest;
}

#endif /* TFLM_ZO_OPS_CORE_BACKWARD_ZO_ERROR_RANGE_H_ */
