/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Int8 tensors of a runtime: checks, and the fixed-point factors and clamps that TFLM derives from
 * their scales.
 */
#ifndef TFLM_ZO_OPS_TFLITE_ZO_TENSORS_H_
#define TFLM_ZO_OPS_TFLITE_ZO_TENSORS_H_

#include "ops/abi/tflite_c_api.h"
#include "ops/core/math/zo_requantize.h"

/* An operator of the graph. */
typedef struct zo_node {
  const TfLiteContext* context;
  const TfLiteIntArray* inputs;
  const TfLiteIntArray* outputs;
  const void* params;
  int builtin;
} zo_node;

/* Tensor of this place in a list; null if there is none. */
static inline const TfLiteTensor* zo_tensor_at(const TfLiteContext* context, const TfLiteIntArray* list, int number) {
  const int index = list != NULL && number < list->size ? list->data[number] : -1;
  return index >= 0 && (size_t)index < context->tensors_size ? &context->tensors[index] : NULL;
}

/* Input or output of this number; null if there is none. Inlined in loops over operators alone:
 * checks look at many tensors, once. */
const TfLiteTensor* zo_node_input(const zo_node* node, int number);
const TfLiteTensor* zo_node_output(const zo_node* node, int number);

/* Samples of a node whose inputs all have so many: the first dimension, or 1 of a scalar. */
int32_t zo_node_samples(const zo_node* node);

/* Returns whether a tensor is int8 and its zero point is within int8. */
bool zo_is_int8(const TfLiteTensor* tensor);

/* Returns whether a tensor has this type, int8, int16 or int32, so many values, and a zero point within the type. */
bool zo_has_values(const TfLiteTensor* tensor, int type, int64_t count);

/* Returns whether a tensor has one positive, finite scale. Several scales are in zo_scales() alone. */
bool zo_has_scale(const TfLiteTensor* tensor);

/* Scales by channel, or one; null if the tensor has none. */
const TfLiteFloatArray* zo_scales(const TfLiteTensor* tensor);

/* Returns whether a tensor has `rank` dimensions, each at least 1, whose product fits its bytes. */
bool zo_has_rank(const TfLiteTensor* tensor, int rank);

/* Whether zo_quantize_multiplier takes the factor. */
bool zo_is_multiplier(double real);

/* TFLM's QuantizeMultiplier. */
zo_multiplier zo_quantize_multiplier(double real);

/* An activation that clamps. */
bool zo_is_clamp(TfLiteFusedActivation activation);

/* The range of outputs behind such an activation, with the output's zero point in it. */
void zo_activation_range(TfLiteFusedActivation activation, const TfLiteTensor* output, int32_t* min, int32_t* max);

#endif /* TFLM_ZO_OPS_TFLITE_ZO_TENSORS_H_ */
