/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "zo_fully_connected.h"

#include <math.h>
#include <stdlib.h>

#include "../core/zo_requantize.h"

enum { kInput = 0, kWeights = 1, kBias = 2 };

struct zo_fully_connected {
  int input, weights, bias, output; /* tensors; bias may be kTfLiteOptionalTensor */
  int32_t samples, depth, units;
  int32_t input_offset, weights_offset, output_offset;
  int32_t output_min, output_max;
  int32_t scales; /* 1 or units */
  /* Output memory for where the runtime allocates none: a tensor that only nodes of the same
   * delegate kernel read is that kernel's own business. */
  int8_t* scratch;
  zo_multiplier multipliers[];
};

static int input_at(const TfLiteIntArray* list, int index) {
  return index < list->size ? list->data[index] : kTfLiteOptionalTensor;
}

static const TfLiteAffineQuantization* affine(const TfLiteTensor* tensor) {
  return tensor->quantization.type == kTfLiteAffineQuantization
             ? (const TfLiteAffineQuantization*)tensor->quantization.params
             : NULL;
}

bool zo_fully_connected_supports(const TfLiteContext* context, const TfLiteNode* node) {
  const TfLiteFullyConnectedParams* params = (const TfLiteFullyConnectedParams*)node->builtin_data;
  if (params == NULL || params->weights_format != 0 || (int)params->activation < kTfLiteActNone ||
      (int)params->activation > kTfLiteActRelu6 || node->inputs->size < 2 ||
      node->outputs->size != 1) {
    return false;
  }
  const int bias = input_at(node->inputs, kBias);
  const TfLiteTensor* weights = &context->tensors[node->inputs->data[kWeights]];
  return context->tensors[node->inputs->data[kInput]].type == kTfLiteInt8 &&
         weights->type == kTfLiteInt8 && weights->dims->size == 2 && affine(weights) != NULL &&
         context->tensors[node->outputs->data[0]].type == kTfLiteInt8 &&
         (bias == kTfLiteOptionalTensor || context->tensors[bias].type == kTfLiteInt32);
}

static zo_multiplier quantize_multiplier(double real) {
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

static int32_t quantize(float value, const TfLiteTensor* tensor) {
  return tensor->params.zero_point + (int32_t)roundf(value / tensor->params.scale);
}

static void set_clamp(zo_fully_connected* self, TfLiteFusedActivation activation,
                      const TfLiteTensor* output) {
  self->output_min = INT8_MIN;
  self->output_max = INT8_MAX;
  if (activation == kTfLiteActNone) return;
  const int32_t low = quantize(activation == kTfLiteActReluN1To1 ? -1.0f : 0.0f, output);
  if (low > self->output_min) self->output_min = low;
  if (activation == kTfLiteActRelu) return;
  const int32_t high = quantize(activation == kTfLiteActReluN1To1 ? 1.0f : 6.0f, output);
  if (high < self->output_max) self->output_max = high;
}

static void set_multipliers(zo_fully_connected* self, const TfLiteTensor* input,
                            const TfLiteTensor* weights, const TfLiteTensor* output) {
  const TfLiteFloatArray* scales = affine(weights)->scale;
  if (self->scales == 1) {
    /* The product of a single scale is rounded to float first, in TFLM as here. */
    const float product = input->params.scale * weights->params.scale;
    self->multipliers[0] = quantize_multiplier((double)product / (double)output->params.scale);
    return;
  }
  for (int32_t unit = 0; unit < self->units; ++unit) {
    self->multipliers[unit] = quantize_multiplier(
        (double)input->params.scale * (double)scales->data[unit] / (double)output->params.scale);
  }
}

zo_fully_connected* zo_fully_connected_create(const TfLiteContext* context,
                                              const TfLiteIntArray* inputs,
                                              const TfLiteIntArray* outputs,
                                              const TfLiteFullyConnectedParams* params) {
  const TfLiteTensor* input = &context->tensors[inputs->data[kInput]];
  const TfLiteTensor* weights = &context->tensors[inputs->data[kWeights]];
  const TfLiteTensor* output = &context->tensors[outputs->data[0]];
  const int32_t units = weights->dims->data[0];
  const int32_t depth = weights->dims->data[1];
  const int32_t scales = affine(weights)->scale->size;
  if (units < 1 || depth < 1 || input->bytes % (size_t)depth != 0 ||
      output->bytes != input->bytes / (size_t)depth * (size_t)units ||
      (scales != 1 && scales != units)) {
    return NULL;
  }
  zo_fully_connected* self = calloc(1, sizeof *self + (size_t)scales * sizeof(zo_multiplier));
  if (self == NULL) return NULL;
  self->scratch = malloc(output->bytes);
  if (self->scratch == NULL) {
    free(self);
    return NULL;
  }
  self->input = inputs->data[kInput];
  self->weights = inputs->data[kWeights];
  self->bias = input_at(inputs, kBias);
  self->output = outputs->data[0];
  self->samples = (int32_t)(input->bytes / (size_t)depth);
  self->depth = depth;
  self->units = units;
  self->input_offset = -input->params.zero_point;
  self->weights_offset = scales == 1 ? -weights->params.zero_point : 0;
  self->output_offset = output->params.zero_point;
  self->scales = scales;
  set_clamp(self, params->activation, output);
  set_multipliers(self, input, weights, output);
  return self;
}

/* sum_i (x_i + a) (w_i + b), in the form that compilers vectorize. */
static int32_t dot_product(const int8_t* x, const int8_t* w, int32_t depth, int32_t a, int32_t b) {
  int32_t products = 0, x_sum = 0, w_sum = 0;
  for (int32_t i = 0; i < depth; ++i) {
    products += (int16_t)x[i] * (int16_t)w[i];
    w_sum += w[i];
  }
  if (b != 0) {
    for (int32_t i = 0; i < depth; ++i) x_sum += x[i];
  }
  return products + a * w_sum + b * x_sum + depth * a * b;
}

void zo_fully_connected_run(const zo_fully_connected* self, TfLiteContext* context) {
  const int8_t* x = (const int8_t*)context->tensors[self->input].data;
  const int8_t* weights = (const int8_t*)context->tensors[self->weights].data;
  const int32_t* bias = self->bias == kTfLiteOptionalTensor
                            ? NULL
                            : (const int32_t*)context->tensors[self->bias].data;
  TfLiteTensor* output = &context->tensors[self->output];
  if (output->data == NULL) output->data = self->scratch;
  int8_t* y = (int8_t*)output->data;
  for (int32_t sample = 0; sample < self->samples; ++sample, x += self->depth) {
    for (int32_t unit = 0; unit < self->units; ++unit) {
      int32_t sum = dot_product(x, weights + (size_t)unit * (size_t)self->depth, self->depth,
                                self->input_offset, self->weights_offset);
      if (bias != NULL) sum += bias[unit];
      int32_t value = zo_requantize(sum, self->multipliers[self->scales == 1 ? 0 : unit]);
      value += self->output_offset;
      value = value < self->output_min ? self->output_min : value;
      value = value > self->output_max ? self->output_max : value;
      *y++ = (int8_t)value;
    }
  }
}

void zo_fully_connected_free(zo_fully_connected* self, TfLiteContext* context) {
  if (self == NULL) return;
  if (context != NULL && context->tensors[self->output].data == self->scratch) {
    context->tensors[self->output].data = NULL;
  }
  free(self->scratch);
  free(self);
}
