/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The sum of squares of a gradient's row, and the row's steps. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_ROW_STEPS_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_ROW_STEPS_H_

#include "ops/core/math/zo_scale.h"

/* Gradients are squared in units of 2^ZO_SQUARE_SHIFT and count for ZO_SQUARE_MAX of them at most:
 * two million squares fit 64 bits. */
#define ZO_SQUARE_SHIFT 8u
#define ZO_SQUARE_MAX (INT32_C(1) << 21)

/* Sum of floor(G / 2^ZO_SQUARE_SHIFT)^2, each within +-ZO_SQUARE_MAX before it is squared. */
uint64_t zo_row_squares(const int32_t* gradient, uint32_t count);

/* How steps n mantissa / 2^bits are made of n = -G. From 2^(bits - 7) on, |n| gives more than any
 * clip, so it need not be larger, and fits 32 bits even if it is shifted so that `bits` exceeds
 * 32. Then one multiplication of 32 bits suffices, of whose product only the upper half counts. */
typedef struct zo_row_scale {
  int32_t most;    /* of |G|; 0: all steps are 0 */
  int32_t lacking; /* 2^32 less the mantissa, which is 2^31 + 1 to 2^32 */
  uint32_t left;   /* that n is shifted by */
  uint32_t right;  /* that the upper half of the product is, 1..31 */
  int32_t clip;
} zo_row_scale;

/* Of steps round(-G factor), half up, within +-clip, 1..2^24. */
zo_row_scale zo_row_scale_of(zo_scale factor, int32_t clip);

/* Replaces a gradient by its steps.
 *
 *   values   int32 [count], |G| <= largest
 *   squares  zo_row_squares of the gradient is added to it, if it is not null */
void zo_row_steps(int32_t* values, uint32_t count, int32_t largest, const zo_row_scale* scale, uint64_t* squares);

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_ROW_STEPS_H_ */
