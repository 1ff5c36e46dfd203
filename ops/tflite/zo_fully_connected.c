/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/tflite/zo_fully_connected.h"

#include <math.h>
#include <stdlib.h>

#include "ops/core/math/zo_requantize.h"

enum { kInput = 0, kWeights = 1, kBias = 2 };

/* Factors from here on are no zo_multiplier. */
#define MULTIPLIER_END 1073741824.0

struct zo_fully_connected {
  int input, weights, bias, output; /* tensors; bias may be kTfLiteOptionalTensor */
  int32_t samples, depth, units;
  int32_t input_offset, weights_offset, output_offset;
  int32_t output_min, output_max;
  int32_t scales; /* 1 or units */
  /* Output memory for where the runtime allocates none: a tensor that only ops of the same
   * delegate kernel read is that kernel's own business. */
  int8_t* scratch;
  zo_multiplier multipliers[];
};

/* Inputs whose products int32_t holds the sum of. */
#define DEPTH_AT_ONCE INT32_C(65536)

static int input_at(const TfLiteIntArray* list, int index) {
  return index < list->size ? list->data[index] : kTfLiteOptionalTensor;
}

static const TfLiteAffineQuantization* affine(const TfLiteTensor* tensor) {
  return tensor->quantization.type == kTfLiteAffineQuantization
             ? (const TfLiteAffineQuantization*)tensor->quantization.params
             : NULL;
}

/* A tensor of the graph, or null. */
static const TfLiteTensor* tensor_at(const TfLiteContext* context, int index) {
  return index >= 0 && (size_t)index < context->tensors_size ? &context->tensors[index] : NULL;
}

/* An int8 tensor with a zero point that int8 holds. Of several scales, none is in params. */
static bool is_int8(const TfLiteTensor* tensor) {
  return tensor != NULL && tensor->type == kTfLiteInt8 && tensor->params.zero_point >= INT8_MIN &&
         tensor->params.zero_point <= INT8_MAX;
}

static bool has_scale(const TfLiteTensor* tensor) {
  return isfinite(tensor->params.scale) && tensor->params.scale > 0.0f;
}

/* The factor from accumulators to outputs, of a unit. */
static double multiplier_of(const TfLiteTensor* input, const TfLiteTensor* weights,
                            const TfLiteTensor* output, int32_t unit) {
  const TfLiteFloatArray* scales = affine(weights)->scale;
  if (scales->size == 1) {
    /* The product of a single scale is rounded to float first, in TFLM as here. */
    const float product = input->params.scale * weights->params.scale;
    return (double)product / (double)output->params.scale;
  }
  return (double)input->params.scale * (double)scales->data[unit] / (double)output->params.scale;
}

static bool multipliers_are_valid(const TfLiteTensor* input, const TfLiteTensor* weights,
                                  const TfLiteTensor* output) {
  for (int32_t unit = 0; unit < affine(weights)->scale->size; ++unit) {
    const double multiplier = multiplier_of(input, weights, output, unit);
    if (!(multiplier >= 0.0 && multiplier < MULTIPLIER_END)) return false;
  }
  return true;
}

bool zo_fully_connected_supports(const TfLiteContext* context, const TfLiteIntArray* inputs,
                                 const TfLiteIntArray* outputs,
                                 const TfLiteFullyConnectedParams* params) {
  if (params == NULL || params->weights_format != 0 || (int)params->activation < kTfLiteActNone ||
      (int)params->activation > kTfLiteActRelu6 || inputs->size < 2 || outputs->size != 1) {
    return false;
  }
  const int bias = input_at(inputs, kBias);
  const TfLiteTensor* bias_tensor = tensor_at(context, bias);
  const TfLiteTensor* input = tensor_at(context, inputs->data[kInput]);
  const TfLiteTensor* weights = tensor_at(context, inputs->data[kWeights]);
  const TfLiteTensor* output = tensor_at(context, outputs->data[0]);
  return is_int8(input) && has_scale(input) && is_int8(weights) && is_int8(output) &&
         has_scale(output) && weights->dims != NULL && weights->dims->size == 2 &&
         affine(weights) != NULL && affine(weights)->scale != NULL &&
         affine(weights)->scale->size >= 1 && multipliers_are_valid(input, weights, output) &&
         (bias == kTfLiteOptionalTensor ||
          (bias_tensor != NULL && bias_tensor->type == kTfLiteInt32));
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

/* Within +-2^15, far outside int8 already. */
static int32_t quantize(float value, const TfLiteTensor* tensor) {
  const float steps = roundf(value / tensor->params.scale);
  return tensor->params.zero_point + (int32_t)fminf(fmaxf(steps, -32768.0f), 32768.0f);
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
  for (int32_t i = 0; i < self->scales; ++i) {
    self->multipliers[i] = quantize_multiplier(multiplier_of(input, weights, output, i));
  }
}

zo_fully_connected* zo_fully_connected_create(const TfLiteContext* context,
                                              const TfLiteIntArray* inputs,
                                              const TfLiteIntArray* outputs,
                                              const TfLiteFullyConnectedParams* params) {
  if (!zo_fully_connected_supports(context, inputs, outputs, params)) return NULL;
  const TfLiteTensor* input = &context->tensors[inputs->data[kInput]];
  const TfLiteTensor* weights = &context->tensors[inputs->data[kWeights]];
  const TfLiteTensor* output = &context->tensors[outputs->data[0]];
  const int32_t units = weights->dims->data[0];
  const int32_t depth = weights->dims->data[1];
  const int32_t scales = affine(weights)->scale->size;
  const int bias = input_at(inputs, kBias);
  if (units < 1 || depth < 1 || weights->bytes != (uint64_t)units * (uint64_t)depth ||
      input->bytes == 0 || input->bytes % (size_t)depth != 0 || input->bytes > INT32_MAX ||
      output->bytes != (uint64_t)(input->bytes / (size_t)depth) * (uint64_t)units ||
      (bias != kTfLiteOptionalTensor &&
       context->tensors[bias].bytes != (uint64_t)units * sizeof(int32_t)) ||
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
  self->bias = bias;
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

/* sum_i (x_i + a) (w_i + b), depth at most DEPTH_AT_ONCE, in the form that compilers vectorize;
 * modulo 2^32, as TFLM's accumulator in effect is. */
static uint32_t dot_product(const int8_t* x, const int8_t* w, int32_t depth, int32_t a, int32_t b) {
  int32_t products = 0, x_sum = 0, w_sum = 0;
  for (int32_t i = 0; i < depth; ++i) {
    products += (int16_t)x[i] * (int16_t)w[i];
    w_sum += w[i];
  }
  if (b != 0) {
    for (int32_t i = 0; i < depth; ++i) x_sum += x[i];
  }
  return (uint32_t)products + (uint32_t)(a * w_sum) + (uint32_t)(b * x_sum) +
         (uint32_t)(depth * a * b);
}

bool zo_fully_connected_run(const zo_fully_connected* self, TfLiteContext* context) {
  const int8_t* x = (const int8_t*)context->tensors[self->input].data;
  const int8_t* weights = (const int8_t*)context->tensors[self->weights].data;
  const int32_t* bias = self->bias == kTfLiteOptionalTensor
                            ? NULL
                            : (const int32_t*)context->tensors[self->bias].data;
  TfLiteTensor* output = &context->tensors[self->output];
  if (output->data == NULL) output->data = self->scratch;
  int8_t* y = (int8_t*)output->data;
  if (x == NULL || weights == NULL || (bias == NULL && self->bias != kTfLiteOptionalTensor)) {
    return false;
  }
  for (int32_t sample = 0; sample < self->samples; ++sample, x += self->depth) {
    for (int32_t unit = 0; unit < self->units; ++unit) {
      const int8_t* w = weights + (size_t)unit * (size_t)self->depth;
      uint32_t sum = bias != NULL ? (uint32_t)bias[unit] : 0u;
      for (int32_t at = 0; at < self->depth; at += DEPTH_AT_ONCE) {
        const int32_t left = self->depth - at;
        sum += dot_product(x + at, w + at, left < DEPTH_AT_ONCE ? left : DEPTH_AT_ONCE,
                           self->input_offset, self->weights_offset);
      }
      const int32_t value =
          zo_requantize((int32_t)sum, self->multipliers[self->scales == 1 ? 0 : unit]);
      const int32_t offset = self->output_offset;
      *y++ =
          (int8_t)(zo_clamp(value, self->output_min - offset, self->output_max - offset) + offset);
    }
  }
  return true;
}

void zo_fully_connected_free(zo_fully_connected* self, TfLiteContext* context) {
  if (self == NULL) return;
  if (context != NULL && context->tensors[self->output].data == self->scratch) {
    context->tensors[self->output].data = NULL;
  }
  free(self->scratch);
  free(self);
}
