/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Common data of layers with filters, and the arrays of their output channels.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_LAYER_H_
#define TFLM_ZO_OPS_KERNELS_ZO_LAYER_H_

#include "ops/kernels/zo_output.h"
#include "ops/kernels/zo_window.h"

typedef struct zo_layer {
  zo_window window;
  int32_t channels; /* of the output */
  int32_t input_zero_point;
  const zo_multiplier* multipliers; /* [channels], not needed once the layer is made */
  int32_t zero_point, min, max;     /* of the output */
  bool constant;                    /* filters stay the same after one run has used them */
  int32_t threads;                  /* that may compute it at the same time */
} zo_layer;

/* The output channels in the order that a kernel takes them in. */
typedef struct zo_channels {
  zo_output output;
  int32_t* memory; /* start, multiplier, right */
  int32_t* start;
} zo_channels;

/* Arrays of `count` entries: entry i is of channel source[i], or of none if that is below 0. */
bool zo_channels_init(zo_channels* channels, const zo_layer* layer, const int32_t* source, int32_t count);

void zo_channels_free(zo_channels* channels);

#endif /* TFLM_ZO_OPS_KERNELS_ZO_LAYER_H_ */
