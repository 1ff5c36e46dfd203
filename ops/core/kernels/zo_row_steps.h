/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* What a row of a gradient is worth, and the steps that are made of it. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_ROW_STEPS_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_ROW_STEPS_H_

#include "ops/core/math/zo_scale.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gradients are squared in units of 2^ZO_SQUARE_SHIFT and count for ZO_SQUARE_MAX of them at most:
 * two million squares fit 64 bits. */
#define ZO_SQUARE_SHIFT 8u
#define ZO_SQUARE_MAX (INT32_C(1) << 21)

/* Sum of floor(G / 2^ZO_SQUARE_SHIFT)^2, each within +-ZO_SQUARE_MAX before it is squared. */
uint64_t zo_row_squares(const int32_t* gradient, uint32_t count);

/* Replaces a gradient by its steps, round(-G factor), half up, within +-clip.
 *
 *   values   int32 [count], |G| <= largest
 *   clip     1..2^24
 *   squares  zo_row_squares of the gradient is added to it, if it is not null */
void zo_row_steps(int32_t* values, uint32_t count, int32_t largest, zo_scale factor, int32_t clip,
                  uint64_t* squares);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_ROW_STEPS_H_ */
