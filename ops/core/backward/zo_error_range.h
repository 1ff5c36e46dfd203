/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* How far sums are shifted to become errors of 16 bits, and the exponents that follow. */
#ifndef TFLM_ZO_OPS_CORE_BACKWARD_ZO_ERROR_RANGE_H_
#define TFLM_ZO_OPS_CORE_BACKWARD_ZO_ERROR_RANGE_H_

#include "ops/core/math/zo_fixed_point.h"

#define ZO_ERROR_MAX 32767

/* Of sums: half of the largest unit of the results, 2^15, can still be added. */
#define ZO_ERROR_SUM_MAX (UINT64_C(0x7FFF0000))

/* The root, rounded up. */
static inline uint64_t zo_root_up(uint64_t value) {
  const uint64_t root = zo_square_root(value);
  return root * root < value ? root + 1u : root;
}

/* The smallest shift, half up, that makes an error of every number up to a largest one. */
static inline uint32_t zo_error_shift(uint64_t largest) {
  uint32_t bits = 0;
  while ((largest + (UINT64_C(1) << bits >> 1)) >> bits > (uint64_t)ZO_ERROR_MAX) ++bits;
  return bits;
}

static inline int8_t zo_error_exponent(int32_t exponent) { return (int8_t)zo_clamp(exponent, INT8_MIN, INT8_MAX); }

#endif /* TFLM_ZO_OPS_CORE_BACKWARD_ZO_ERROR_RANGE_H_ */
