/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * MEAN and SUM over any axes.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_REDUCE_H_
#define TFLM_ZO_OPS_KERNELS_ZO_REDUCE_H_

#include <stdbool.h>
#include <stddef.h>

#include "ops/core/math/zo_requantize.h"

enum { kZoReduceRank = 6 };

typedef struct zo_reduce {
  int32_t rank;
  int32_t dims[kZoReduceRank]; /* of the input, 1 at least each */
  bool summed[kZoReduceRank];  /* axes that are gone in the output */
  int32_t input_zero_point, zero_point;
  zo_multiplier multiplier;
  int32_t* sums; /* [outputs] */
  size_t outputs;
} zo_reduce;

/* Values that an output is of. */
int64_t zo_reduce_count(const zo_reduce* reduce);

/* The multiplier of a mean, from that of a sum: TFLM divides the one by the other in fixed point.
 */
zo_multiplier zo_reduce_mean_multiplier(zo_multiplier multiplier, int64_t count);

void zo_reduce_run(const zo_reduce* reduce, const int8_t* x, int8_t* y);

#endif /* TFLM_ZO_OPS_KERNELS_ZO_REDUCE_H_ */
