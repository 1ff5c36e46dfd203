/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * From 32-bit sums to int8 outputs, as in TFLM: the end of every kernel.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_OUTPUT_H_
#define TFLM_ZO_OPS_KERNELS_ZO_OUTPUT_H_

#include <stdbool.h>

#include "ops/core/math/zo_requantize.h"

/* Channels come in blocks of so many; arrays of channels are as long as whole blocks. */
enum { kZoBlock = 64 };

/* The output channels of a layer. */
typedef struct zo_output {
  const int32_t* start;      /* of each channel's sum: the bias and the constant term of the zero
                                points */
  const int32_t* multiplier; /* zo_multiplier.value */
  const int32_t* right;      /* -zo_multiplier.shift */
  bool shifts_right;         /* every `right` is 1 at least: vectors compute that; the rest is rare */
  int32_t zero_point, min, max;
} zo_output;

/* The output of a sum of one channel, one value at a time. */
static inline int8_t zo_output_of(const zo_output* output, int32_t channel, int32_t sum) {
  const zo_multiplier multiplier = {output->multiplier[channel], -output->right[channel]};
  const int32_t value = zo_requantize(sum, multiplier);
  const int32_t offset = output->zero_point;
  return (int8_t)(zo_clamp(value, output->min - offset, output->max - offset) + offset);
}

#endif /* TFLM_ZO_OPS_KERNELS_ZO_OUTPUT_H_ */
