/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The loop of zo_row_steps.c with the DSP extension (Cortex-M4, M7, M33). */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_ROW_STEPS_DSP_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_ROW_STEPS_DSP_H_

#include "ops/core/math/zo_fixed_point.h"

#define ZO_BOUNDED_STEPS 4u

/* The upper half of value * lacking, in `half` - value: half of the bits cut off afterwards, and
 * minus value * 2^32. */
static inline uint32_t scale_one(uint32_t value, zo_row_scale s, int32_t half, int64_t* sum) {
  const int32_t g = (int32_t)value;
  const int32_t coarse = zo_floor_shift(g, ZO_SQUARE_SHIFT);
  *sum += (int64_t)coarse * coarse;
  int32_t step;
  __asm__("smmla %0, %1, %2, %3" : "=r"(step) : "r"(g), "r"(s.lacking), "r"(half - g));
  step = zo_floor_shift(step, s.right);
  if ((uint32_t)(step + s.clip) > 2u * (uint32_t)s.clip) step = step < 0 ? -s.clip : s.clip;
  return (uint32_t)step;
}

/* Replaces two values by their steps, and moves on. */
static inline int32_t* scale_two(int32_t* values, zo_row_scale s, int32_t half, int64_t* sum) {
  uint32_t a, b;
  __asm__("ldrd %0, %1, [%2]" : "=&r"(a), "=&r"(b) : "r"(values), "m"(*(int32_t (*)[2])values));
  a = scale_one(a, s, half, sum);
  b = scale_one(b, s, half, sum);
  __asm__ volatile("strd %1, %2, [%0], #8" : "+r"(values) : "r"(a), "r"(b) : "memory");
  return values;
}

static inline uint64_t scale_bounded(int32_t* values, uint32_t count, const zo_row_scale* by) {
  const zo_row_scale s = *by;
  const int32_t half = INT32_C(1) << (s.right - 1u);
  int64_t sum = 0;
  for (const int32_t* const end = values + count; values != end;) {
    values = scale_two(values, s, half, &sum);
    values = scale_two(values, s, half, &sum);
  }
  return (uint64_t)sum;
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_ROW_STEPS_DSP_H_ */
