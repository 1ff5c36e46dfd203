/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Errors of the inputs of a CONV_2D or DEPTHWISE_CONV_2D from those of its outputs, of one sample,
 * in integers: weights of 8 bits, errors of 16, sums of 32. Errors and exponents are those of
 * zo_errors.h, layers and their layouts those of zo_node_layer.h, whose fields for nodes are unused.
 */
#ifndef TFLM_ZO_OPS_CORE_BACKWARD_ZO_CONV_BACKPROP_H_
#define TFLM_ZO_OPS_CORE_BACKWARD_ZO_CONV_BACKPROP_H_

#include "ops/core/nodes/zo_node_layer.h"

/* Weights that read one input channel, k_h * k_w * out_c (depthwise: k_h * k_w * out_c / in_c), at
 * most: sums of their squares fit 32 bits. */
#define ZO_CONV_BACKPROP_WEIGHTS_MAX (UINT32_C(1) << 17)

/* int32 values of scratch memory of both functions: in_c. */
uint32_t zo_conv_backprop_scratch_values(const zo_node_layer* layer);

/* The norm of a layer's weights, once for all samples of a step:
 *
 *   norm = ceil(sqrt(max over input channels of the sum of w^2 over the weights that read it))
 *
 *   weights  int8 [out_c, k_h, k_w, in_c] or, depthwise, [1, k_h, k_w, out_c]
 *   scratch  int32 [zo_conv_backprop_scratch_values] */
zo_status zo_conv_backprop_norm_s8(const zo_node_layer* layer, const int8_t* weights, int32_t* scratch, uint32_t* norm);

/* Errors of the inputs, with e_pc that of output channel c at position p,
 *
 *   f_pc            = floor((e_pc scale_c + 2^(a-1)) / 2^a)
 *   S_j             = sum over the outputs and weights that read input j of f_pc w
 *   e'_j            = floor((S_j + 2^(r-1)) / 2^r)
 *   input exponent  = exponent + a + r - 15
 *
 * By Cauchy and Schwarz no |S_j|, nor any part of its sum, exceeds
 *
 *   N = ceil(sqrt(T max over p of F_p)) norm
 *
 * where T is the largest number of outputs that read one input along the height, times that along
 * the width, and F_p the sum of f_pc^2 over c (depthwise: over the channels that read one input
 * channel, the largest of them). a >= 0 is the smallest for which all |f| <= 32767 and N <= 2^31 -
 * 2^16, and r >= 0 the smallest for which N 2^-r, half up, is within 32767: nothing overflows or
 * saturates, and the results fill the bits that the bound permits (12 or 13 of 16 if errors and
 * weights are uncorrelated). With a = 0 or r = 0 there is nothing to round.
 *
 *   norm           of these weights, from zo_conv_backprop_norm_s8
 *   scales         int16 [out_c], Q15, within +-32767: filter scale of each output channel relative
 *                  to the largest, or any other factors of theirs; null: all are 2^15
 *   output_errors  int16 [out_h, out_w, out_c]
 *   input_errors   int16 [in_h, in_w, in_c]; may begin before output_errors, and overlap them, if
 *                  for each input position they end, up to it, before the first output position that
 *                  a later one reads: positions are written in order, after all of their sums
 *   scratch        int32 [zo_conv_backprop_scratch_values] */
zo_status zo_conv_backprop_s8(const zo_node_layer* layer, const int8_t* weights, uint32_t norm, const int16_t* scales,
                              const int16_t* output_errors, int8_t exponent, int16_t* input_errors,
                              int8_t* input_exponent, int32_t* scratch);

#endif /* TFLM_ZO_OPS_CORE_BACKWARD_ZO_CONV_BACKPROP_H_ */
