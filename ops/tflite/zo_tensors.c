/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/tflite/zo_tensors.h"

#include <math.h>

/* Factors from here on are no zo_multiplier. */
#define MULTIPLIER_END 1073741824.0

const TfLiteTensor* zo_node_input(const zo_node* node, int number) {
  return zo_tensor_at(node->context, node->inputs, number);
}

const TfLiteTensor* zo_node_output(const zo_node* node, int number) {
  return zo_tensor_at(node->context, node->outputs, number);
}

int32_t zo_node_samples(const zo_node* node) {
  const TfLiteIntArray* dims = zo_node_input(node, 0)->dims;
  return dims->size > 0 && dims->data[0] > 0 ? dims->data[0] : 1;
}

bool zo_is_int8(const TfLiteTensor* tensor) {
  return tensor != NULL && tensor->type == kTfLiteInt8 && tensor->params.zero_point >= INT8_MIN &&
         tensor->params.zero_point <= INT8_MAX;
}

bool zo_has_values(const TfLiteTensor* tensor, int type, int64_t count) {
  const unsigned bytes = type == kTfLiteInt8 ? 1u : (type == kTfLiteInt16 ? 2u : 4u);
  const int64_t end = INT64_C(1) << (8u * bytes - 1u);
  return tensor != NULL && tensor->type == type && tensor->bytes == bytes * (uint64_t)count &&
         tensor->params.zero_point >= -end && tensor->params.zero_point < end;
}

bool zo_has_scale(const TfLiteTensor* tensor) { return isfinite(tensor->params.scale) && tensor->params.scale > 0.0f; }

const TfLiteFloatArray* zo_scales(const TfLiteTensor* tensor) {
  const TfLiteAffineQuantization* affine = (const TfLiteAffineQuantization*)tensor->quantization.params;
  return tensor->quantization.type == kTfLiteAffineQuantization && affine != NULL ? affine->scale : NULL;
}

bool zo_has_rank(const TfLiteTensor* tensor, int rank) {
  if (tensor->dims == NULL || tensor->dims->size != rank) return false;
  uint64_t count = 1;
  for (int i = 0; i < rank; ++i) {
    if (tensor->dims->data[i] < 1) return false;
    count *= (uint64_t)tensor->dims->data[i];
    if (count > INT32_MAX) return false;
  }
  return tensor->bytes == count;
}

bool zo_is_multiplier(double real) { return real >= 0.0 && real < MULTIPLIER_END; }

zo_multiplier zo_quantize_multiplier(double real) {
  zo_multiplier result = {0, 0};
  if (real == 0.0) return result;
  int shift;
  const double mantissa = frexp(real, &shift);
  int64_t fixed = (int64_t)round(mantissa * (double)(INT64_C(1) << 31));
  if (fixed == (INT64_C(1) << 31)) {
    fixed /= 2;
    ++shift;
  }
  if (shift < -31) return result; /* would shift every bit out */
  result.value = (int32_t)fixed;
  result.shift = shift;
  return result;
}

bool zo_is_clamp(TfLiteFusedActivation activation) {
  return (int)activation >= kTfLiteActNone && (int)activation <= kTfLiteActRelu6;
}

/* Within +-2^15, which no level of int8 or int16 exceeds. */
static int32_t quantize(float value, const TfLiteTensor* tensor) {
  const float steps = roundf(value / tensor->params.scale);
  return tensor->params.zero_point + (int32_t)fminf(fmaxf(steps, -32768.0f), 32768.0f);
}

void zo_activation_range(TfLiteFusedActivation activation, const TfLiteTensor* output, int32_t* min, int32_t* max) {
  *min = output->type == kTfLiteInt16 ? INT16_MIN : INT8_MIN;
  *max = output->type == kTfLiteInt16 ? INT16_MAX : INT8_MAX;
  if (activation == kTfLiteActNone) return;
  const int32_t low = quantize(activation == kTfLiteActReluN1To1 ? -1.0f : 0.0f, output);
  if (low > *min) *min = low;
  if (activation == kTfLiteActRelu) return;
  const int32_t high = quantize(activation == kTfLiteActReluN1To1 ? 1.0f : 6.0f, output);
  if (high < *max) *max = high;
}
