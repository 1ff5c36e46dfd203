/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * SVDF, as TFLM's reference kernel computes it. A filter reduces the input to one feature and keeps the last `memory`
 * features, the newest one last. A unit adds up `rank` filters, each one the product of its features and its weights
 * of time. Sums wrap. TFLM ignores the fused activation.
 */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_SVDF_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_SVDF_H_

#include <stdbool.h>
#include <stddef.h>

#include "ops/core/math/zo_requantize.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes are 1 at least. */
typedef struct zo_svdf {
  int32_t depth, units, rank, memory;
  int32_t input_zero_point, state_zero_point, zero_point;
  zo_multiplier feature, output; /* from sums to features and to outputs */
  bool is_wide;                  /* state and weights of time are int16, else int8 */
} zo_svdf;

typedef struct zo_svdf_tensors {
  const int8_t* x;       /* [samples, depth] */
  const int8_t* weights; /* [units * rank, depth] */
  const void* time;      /* [units * rank, memory] */
  const int32_t* bias;   /* [units] */
  void* state;           /* [samples, units * rank, memory] */
  int8_t* y;             /* [samples, units] */
} zo_svdf_tensors;

/* Computes `count` samples, from sample `first` on, and moves their states on. */
void zo_svdf_run(const zo_svdf* svdf, const zo_svdf_tensors* tensors, int32_t first, int32_t count);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_SVDF_H_ */
