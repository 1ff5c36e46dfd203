/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The inner loop of an update along Gaussian directions on cores with the DSP extension (Cortex-M4,
 * M7, M33, M55): four weights at a time, whose steps are summed up in registers. zo_update.c has
 * the portable form, which is the reference and serves every other core and kind of step. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_STEP_GAUSSIAN_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_STEP_GAUSSIAN_H_

#include "ops/core/zo_features.h"
#include "ops/core/zo_target.h"
#include "ops/core/zo_types.h"

/* Not if sizes are optimized. */
#if ZO_WITH_FAST_STEPS && ZO_WITH_GAUSSIAN && ZO_DSP && !defined(__OPTIMIZE_SIZE__)
#define ZO_STEP_GAUSSIAN 1
#else
#define ZO_STEP_GAUSSIAN 0
#endif

#if ZO_STEP_GAUSSIAN
/* One step on the first of the weights [begin, begin + count) of a tile, without multipliers.
 *
 *   largest   that |step| of a weight can be
 *   states    [queries], of the queries' streams; moved on
 *   rounding  state of the rounding stream, moved on with 8 bits
 *   clipped   the number of clipped weights is added to it
 *
 * Returns how many weights it has moved: whole fours, or none if bytes do not suffice. */
uint32_t zo_step_gaussian(const zo_tensor* tensor, uint32_t begin, uint32_t count, const zo_query* queries,
                          uint32_t query_count, int32_t largest, uint32_t* states, uint32_t* rounding,
                          uint32_t* clipped);
#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_STEP_GAUSSIAN_H_ */
