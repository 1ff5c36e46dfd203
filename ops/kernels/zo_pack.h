/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Filters as products take them.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_PACK_H_
#define TFLM_ZO_OPS_KERNELS_ZO_PACK_H_

#include <stddef.h>

#include "ops/kernels/zo_gemm.h"

/* Steps of up to kZoColumns filters: [steps, kZoColumns, layout.step]. Missing columns, and
 * missing values of the last step, are 0 or stay unchanged.
 *   from  the first of `values` neighbouring values of the first filter
 *   next  values from there to those of the next filter */
typedef void zo_pack_function(const int8_t* from, ptrdiff_t next, int32_t columns, int32_t values, int8_t* to);

/* For steps of two values and of four. */
zo_pack_function zo_pack_twos, zo_pack_fours;

#endif /* TFLM_ZO_OPS_KERNELS_ZO_PACK_H_ */
