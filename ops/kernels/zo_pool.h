/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * AVERAGE_POOL_2D and MAX_POOL_2D, in loops over channels that compilers vectorize.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_POOL_H_
#define TFLM_ZO_OPS_KERNELS_ZO_POOL_H_

#include "ops/kernels/zo_window.h"

typedef struct zo_pool {
  zo_window window; /* dilations are 1; every window has a part of the image */
  bool average;     /* rounded half away from zero, of the positions inside of the image; else the
                       largest */
  int32_t min, max;
} zo_pool;

/* Memory that a pooling needs besides its input and its output. */
size_t zo_pool_scratch_bytes(const zo_pool* pool);

/* Pools so many samples, from x on.
 *   scratch  zo_pool_scratch_bytes(), aligned for int32_t */
void zo_pool_run(const zo_pool* pool, const int8_t* x, int32_t samples, void* scratch, int8_t* y);

#endif /* TFLM_ZO_OPS_KERNELS_ZO_POOL_H_ */
