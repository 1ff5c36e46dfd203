/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* From an accumulator to the next layer's unit: TFLite's multiplication by a real number in fixed
 * point. */
#ifndef TFLM_ZO_OPS_CORE_MATH_ZO_REQUANTIZE_H_
#define TFLM_ZO_OPS_CORE_MATH_ZO_REQUANTIZE_H_

#include "ops/core/math/zo_fixed_point.h"

/* A real multiplier as TFLite's kernels keep it: value * 2^-31 * 2^shift, value in 0..2^31-1,
 * shift in -31..30. */
typedef struct zo_multiplier {
  int32_t value;
  int32_t shift;
} zo_multiplier;

/* high / 2^bits, half away from zero; bits in 0..31. */
static inline int32_t zo_divide_by_power(int32_t high, uint32_t bits) {
  const int32_t mask = (int32_t)((UINT32_C(1) << bits) - 1u);
  const int32_t threshold = (mask >> 1) + (high < 0 ? 1 : 0);
  return zo_floor_shift(high, bits) + ((high & mask) > threshold ? 1 : 0);
}

/* x * multiplier, rounded twice: half up at 2^-31, then half away from zero at 2^shift. The double
 * rounding is TFLite's definition of int8 inference. */
static inline int32_t zo_requantize(int32_t x, zo_multiplier multiplier) {
  const uint32_t left = multiplier.shift > 0 ? (uint32_t)multiplier.shift : 0u;
  const uint32_t right = multiplier.shift > 0 ? 0u : (uint32_t)-multiplier.shift;
  const int64_t product = (int64_t)(int32_t)((uint32_t)x << left) * multiplier.value;
  const int32_t high = (int32_t)zo_floor_shift64(product + (INT64_C(1) << 30), 31);
  return zo_divide_by_power(high, right);
}

#endif /* TFLM_ZO_OPS_CORE_MATH_ZO_REQUANTIZE_H_ */
