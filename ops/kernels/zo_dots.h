/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * FULLY_CONNECTED of one sample with filters as they lie: where they may change between invokes,
 * packing them, or only looking whether they have changed, takes as long as using them.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_DOTS_H_
#define TFLM_ZO_OPS_KERNELS_ZO_DOTS_H_

#include "ops/kernels/zo_output.h"

typedef struct zo_dots {
  const uint8_t* row; /* [depth], in the layout of the set's gemm */
  int32_t depth;
  const int8_t* filters; /* [channels, depth] */
  int32_t channels;
  int32_t correction; /* of a sum, for each unit of the sum of its filter; 0 where rows are int16 */
  const zo_output* output; /* starts without the correction */
  int8_t* y;               /* [channels] */
} zo_dots;

typedef void zo_dots_function(const zo_dots* dots);

#endif /* TFLM_ZO_OPS_KERNELS_ZO_DOTS_H_ */
