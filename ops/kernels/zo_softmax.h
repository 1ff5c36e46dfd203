/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * SOFTMAX of int8 logits, as TFLM's reference kernel defines it, in gemmlowp's fixed point.
 *
 * A logit's term depends only on its distance to the largest one of its row, so the exponentials
 * are a table of 256.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_SOFTMAX_H_
#define TFLM_ZO_OPS_KERNELS_ZO_SOFTMAX_H_

#include "ops/core/math/zo_requantize.h"

enum {
  kZoSoftmaxBits = 5 /* integer bits of the exponential's argument */
};

typedef struct zo_softmax {
  int32_t exponentials[256]; /* by the distance, unit 2^-31 */
  int32_t terms[256];        /* of a row's sum: the same, unit 2^-19 */
} zo_softmax;

/* Fills the table.
 *   multiplier  of a distance, so that it gets the unit 2^-26; its shift is 0 or more */
void zo_softmax_init(zo_softmax* softmax, zo_multiplier multiplier);

/* Outputs of scale 1/256 and zero point -128. TFLM's own kernel ends the process at 512 equal
 * logits. x, y  int8 [rows, depth]; depth at least 1 */
void zo_softmax_run(const zo_softmax* softmax, int32_t rows, int32_t depth, const int8_t* x, int8_t* y);

#endif /* TFLM_ZO_OPS_KERNELS_ZO_SOFTMAX_H_ */
