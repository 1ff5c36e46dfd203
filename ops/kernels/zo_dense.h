/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * FULLY_CONNECTED of many samples with filters in their original layout, if they may change between
 * invokes: samples lie in columns, so that nothing of the filters is copied or compared.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_DENSE_H_
#define TFLM_ZO_OPS_KERNELS_ZO_DENSE_H_

#include <stddef.h>

#include "ops/kernels/zo_output.h"

/* Samples come in blocks of so many, and at most so many at once. */
enum { kZoSamples = 16, kZoSamplesAtOnce = 32 };

typedef struct zo_dense {
  const int8_t* x;       /* [samples, depth] */
  int32_t samples;       /* kZoSamplesAtOnce at most */
  int32_t depth;         /* a multiple of the layout's step */
  const int8_t* filters; /* [channels, depth] */
  int32_t channels;
  int32_t correction;      /* of a sum, for each unit of the sum of its filter */
  const zo_output* output; /* starts without the correction */
  uint8_t* memory;         /* for samples in columns: kZoSamplesAtOnce * depth bytes */
  int8_t* y;               /* [samples, channels] */
} zo_dense;

typedef void zo_dense_function(const zo_dense* dense);

#endif /* TFLM_ZO_OPS_KERNELS_ZO_DENSE_H_ */
