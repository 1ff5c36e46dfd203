/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Errors of a pooling's inputs from those of its outputs, of one sample: MAX_POOL_2D,
 * AVERAGE_POOL_2D, and MEAN over height and width, which is the average of a window as large as the
 * image. Errors and exponents are those of zo_errors.h.
 */
#ifndef TFLM_ZO_OPS_CORE_BACKWARD_ZO_POOL_BACKPROP_H_
#define TFLM_ZO_OPS_CORE_BACKWARD_ZO_POOL_BACKPROP_H_

#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Inputs [in_h, in_w, channels], outputs [out_h, out_w, channels], as TFLite has them. */
typedef struct zo_pool {
  uint32_t in_h, in_w, channels; /* sides 1..4096, channels 1..65536, at most 2^30 values */
  uint32_t out_h, out_w;
  uint32_t k_h, k_w;           /* window of at most 2^16 positions */
  uint32_t stride_h, stride_w; /* 1..4096 */
  uint32_t pad_top, pad_left;  /* smaller than the window; every window reads an input */
} zo_pool;

/* Checks that the sizes fit each other. */
zo_status zo_pool_check(const zo_pool* pool);

/* int32 values of scratch memory that zo_average_pool_backprop needs: channels. */
uint32_t zo_pool_scratch_values(const zo_pool* pool);

/* The error of an output goes to the largest input of its window, and of equals to the first one,
 * row by row, as TensorFlow's goes. The input's error is
 *
 *   e'_j            = floor((sum of the e that go to j + 2^(o-1)) / 2^o)
 *   input exponent  = exponent + o
 *
 * with o >= 0 the smallest for which R max |e| 2^-o, half up, is within 32767: R is the largest
 * number of windows that read an input, 1 if windows do not overlap, and o is 0 then.
 *
 *   inputs         int8 [in_h, in_w, channels]
 *   output_errors  int16 [out_h, out_w, channels]
 *   input_errors   int16 [in_h, in_w, channels] */
zo_status zo_max_pool_backprop(const zo_pool* pool, const int8_t* inputs, const int16_t* output_errors, int8_t exponent,
                               int16_t* input_errors, int8_t* input_exponent);

/* The error of an output goes to the inputs of its window in equal parts, n_w of them; inputs in
 * the padding do not count. The input's error is
 *
 *   u_w             = floor((2^t + floor(n_w / 2)) / n_w)
 *   e'_j            = floor((sum over the windows w that read j of e_w u_w + 2^(r-1)) / 2^r)
 *   input exponent  = exponent + r - t
 *
 * with t <= 31 the largest for which U, the largest sum of u_w over the windows of one input, is
 * within 65535, so that sums stay in 32 bits, and r >= 0 the smallest for which U max |e| 2^-r,
 * half up, is within 32767. A mean over 2^k positions is exact.
 *
 *   output_errors  int16 [out_h, out_w, channels]
 *   input_errors   int16 [in_h, in_w, channels]; may overlap output_errors as in zo_conv_backprop_s8
 *   scratch        int32 [zo_pool_scratch_values] */
zo_status zo_average_pool_backprop(const zo_pool* pool, const int16_t* output_errors, int8_t exponent,
                                   int16_t* input_errors, int8_t* input_exponent, int32_t* scratch);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_BACKWARD_ZO_POOL_BACKPROP_H_ */
