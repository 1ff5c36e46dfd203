/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Sums of two tensors of the same shape: ADD.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_ADD_H_
#define TFLM_ZO_OPS_KERNELS_ZO_ADD_H_

#include <stddef.h>

#include "ops/core/math/zo_requantize.h"

/* y = (a (x0 - z0) 2^20 + b (x1 - z1) 2^20) c + zero point, each factor a zo_multiplier whose shift
 * is 0 at most, between min and max. */
typedef struct zo_add {
  const int8_t* x[2];
  int8_t* y;
  size_t count;
  int32_t offset[2]; /* -z0, -z1 */
  zo_multiplier input[2], output;
  int32_t zero_point, min, max;
} zo_add;

typedef void zo_add_function(const zo_add* add);

static inline int8_t zo_add_one(const zo_add* add, int32_t x0, int32_t x1) {
  const int32_t unit = INT32_C(1) << 20;
  const int32_t sum = zo_requantize((x0 + add->offset[0]) * unit, add->input[0]) +
                      zo_requantize((x1 + add->offset[1]) * unit, add->input[1]);
  return (int8_t)zo_clamp(zo_requantize(sum, add->output) + add->zero_point, add->min, add->max);
}

#endif /* TFLM_ZO_OPS_KERNELS_ZO_ADD_H_ */
