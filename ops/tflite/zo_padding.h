/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TFLM_ZO_OPS_TFLITE_ZO_PADDING_H_
#define TFLM_ZO_OPS_TFLITE_ZO_PADDING_H_

#include "ops/kernels/zo_window.h"
#include "ops/tflite/zo_tensors.h"

/* How a window moves, as an operator's parameters say. */
typedef struct zo_moves {
  int padding;
  int filter_height, filter_width;
  int stride_height, stride_width;
  int dilation_height, dilation_width;
} zo_moves;

/* The window that leads from these tensors' shapes to one another, with TFLite's paddings; false
 * if none does. Channels of the output are not looked at. */
bool zo_window_of(const TfLiteTensor* input, const TfLiteTensor* output, const zo_moves* moves, zo_window* window);

#endif /* TFLM_ZO_OPS_TFLITE_ZO_PADDING_H_ */
