/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Forward pass, errors and updates of the layers of a network in float32, one sample at a time. Activations are
 * [rows, columns, channels]; filters are [outputs, rows, columns, inputs], of depthwise layers [rows, columns,
 * channels], as in a .tflite file. A dense layer is a convolution of one pixel.
 */
#ifndef TFLM_ZO_BENCHMARKS_ALTERNATIVES_NETWORK_H_
#define TFLM_ZO_BENCHMARKS_ALTERNATIVES_NETWORK_H_

#include <stdbool.h>
#include <stdint.h>

typedef enum { kConv, kDepthwise, kMaxPool, kAveragePool, kAdd } layer_kind;

/* Places are indices of floats: of activations and errors in the arena, of filter and bias in the weights. */
enum { kNowhere = -1 };

typedef struct {
  layer_kind kind;
  bool relu, relu6;             /* a ReLU6 is both */
  int32_t input, other, output; /* activations; `other` is the second one of an addition */
  int32_t input_error, other_error, output_error;
  bool input_error_is_first, other_error_is_first; /* of several layers that write this error */
  int32_t filter, bias;
  int32_t in_rows, in_columns, in_channels;
  int32_t out_rows, out_columns, out_channels;
  int32_t rows, columns; /* of the kernel */
  int32_t stride_rows, stride_columns;
  int32_t pad_rows, pad_columns; /* before the first row and column */
} layer;

/* Computes a layer's output. `patch` is for the inputs of one output pixel. */
void layer_forward(const layer* l, float* arena, const float* weights, float* patch);

/* Adds the layer's errors to those of its input. Changes the errors of its output by the ReLU. */
void layer_backward(const layer* l, float* arena, const float* weights, float* patch);

/* Moves filter and bias against their gradients. */
void layer_update(const layer* l, const float* arena, float* weights, float* patch, float rate);

/* Replaces logits by p - y, the error of softmax and cross-entropy. Returns the cross-entropy. */
float softmax_error(const float* logits, float* error, int32_t classes, int32_t label);

#endif /* TFLM_ZO_BENCHMARKS_ALTERNATIVES_NETWORK_H_ */
