/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The loop of zo_row_steps.c with the DSP extension (Cortex-M4, M7, M33). */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_ROW_STEPS_DSP_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_ROW_STEPS_DSP_H_

#include "ops/core/kernels/zo_dsp_lanes.h"

#define ZO_BOUNDED_STEPS 1

/* The upper half of minus value * mantissa, in `half` - value: half of what is cut off afterwards,
 * and the 2^32 that the mantissa lacks. */
static inline int32_t scale_one(uint32_t value, row_scale s, int32_t half, int64_t* sum) {
  const int32_t g = (int32_t)value;
  const int32_t coarse = zo_floor_shift(g, ZO_SQUARE_SHIFT);
  *sum += (int64_t)coarse * coarse;
  int32_t step;
  __asm__("smmls %0, %1, %2, %3" : "=r"(step) : "r"(g), "r"(s.mantissa), "r"(half - g));
  step = zo_floor_shift(step, s.right);
  if ((uint32_t)(step + s.clip) > 2u * (uint32_t)s.clip) step = step < 0 ? -s.clip : s.clip;
  return step;
}

static inline uint64_t scale_bounded(int32_t* values, uint32_t count, row_scale s) {
  const int32_t half = INT32_C(1) << (s.right - 1u);
  int64_t sum = 0;
  for (const int32_t* const end = values + count; values != end; values += 4) {
    const four_steps f = load_four((const uint32_t*)values);
    values[0] = scale_one(f.s0, s, half, &sum);
    values[1] = scale_one(f.s1, s, half, &sum);
    values[2] = scale_one(f.s2, s, half, &sum);
    values[3] = scale_one(f.s3, s, half, &sum);
  }
  return (uint64_t)sum;
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_ROW_STEPS_DSP_H_ */
