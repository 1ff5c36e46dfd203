/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * FULLY_CONNECTED with weights of 16 bits and activations of 8, for weight perturbation with steps
 * and perturbations below the resolution of 8-bit weights (QZO-FF's 16w8a).
 */
#ifndef TFLM_ZO_OPS_CORE_GRAPH_ZO_INT16_FULLY_CONNECTED_H_
#define TFLM_ZO_OPS_CORE_GRAPH_ZO_INT16_FULLY_CONNECTED_H_

#include "ops/core/zo_types.h"

/* Inputs of one unit: sums of 8-bit products stay in int32_t. */
#define ZO_INT16_DEPTH_MAX 65536

typedef struct zo_int16_fully_connected {
  uint32_t units;             /* 1..2^20 */
  uint32_t depth;             /* 1..ZO_INT16_DEPTH_MAX */
  const int8_t* weights;      /* [units, depth] */
  const int8_t* fraction;     /* [units, depth], unit 2^-8 LSB */
  const int32_t* bias;        /* [units], unit: input scale * weight scale, or null */
  const uint8_t* multipliers; /* ZO_INT16_MULTIPLIER_BYTES each, no alignment: int32 value,
                                 little-endian, then int8 shift, see zo_requantize.h */
  uint32_t multiplier_count;  /* 1, or one per unit */
  int32_t input_zero_point;
  int32_t output_zero_point;
  int32_t output_min; /* of the fused activation, within -128..127 */
  int32_t output_max;
} zo_int16_fully_connected;

#define ZO_INT16_MULTIPLIER_BYTES 5

/* Writes the outputs of one sample.
 *
 *   S = sum_i (256 w_i + f_i) (x_i - input zero point) + 256 bias      exact
 *   y = clamp(round(S / 256 * multiplier) + output zero point, min, max)
 *
 * with TFLM's rounding (zo_requantize_16): if all fractions are 0, y equals TFLM's FULLY_CONNECTED,
 * bit for bit.
 *
 *   x  int8 [depth]
 *   y  int8 [units] */
void zo_int16_fully_connected_s8(const zo_int16_fully_connected* layer, const int8_t* x, int8_t* y);

#endif /* TFLM_ZO_OPS_CORE_GRAPH_ZO_INT16_FULLY_CONNECTED_H_ */
