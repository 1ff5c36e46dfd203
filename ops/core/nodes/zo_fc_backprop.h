/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Integer backpropagation through a FULLY_CONNECTED layer: the errors of its inputs from those of
 * its outputs, for a tail of layers that is trained by its exact gradient (ElasticZO, sec. 4).
 */
#ifndef TFLM_ZO_OPS_CORE_NODES_ZO_FC_BACKPROP_H_
#define TFLM_ZO_OPS_CORE_NODES_ZO_FC_BACKPROP_H_

#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fraction bits by which the unit of input errors is larger than that of output errors, in terms of
 * the layer's largest filter scale: an input error is worth 2^8 LSB of the widest channel. */
#define ZO_FC_BACKPROP_BITS 8

/* Errors of the inputs,
 *
 *   e_j = 0 if routes[j] is ZO_ROUTE_CLAMPED, else
 *         saturate(floor((sum_i f_i w_ij * 2^p + 2^7) / 2^8)),
 *   f_i = floor((e_i scale_i + 2^14) / 2^15) / 2^p (toward minus infinity)
 *
 * with p the smallest number of bits for which outputs <= 512 * 2^p, so that sums stay in 32 bits.
 *
 *   samples
 *   inputs, outputs  of the layer
 *   weights          int8 [outputs, inputs], within +-127
 *   scales           int16 [outputs], Q15: filter scale of each output channel relative to the
 *                    largest; null: one scale for all (1 - 2^-15 is then 1)
 *   output_errors    int16 [samples, outputs]
 *   routes           uint8 [samples, inputs] of the layer before, or null: nothing is clamped
 *   input_errors     int16 [samples, inputs], saturated to +-32767
 *   scratch          int32 [inputs]
 *
 * Errors: ZO_ERROR_ARGUMENT: a null pointer, a zero size, or more than 65,536 outputs. */
zo_status zo_fc_backprop_s8(uint32_t samples, uint32_t inputs, uint32_t outputs, const int8_t* weights,
                            const int16_t* scales, const int16_t* output_errors, const uint8_t* routes,
                            int16_t* input_errors, int32_t* scratch);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_NODES_ZO_FC_BACKPROP_H_ */
