/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "ops/kernels/zo_conv.h"
#include "ops/tflite/zo_exact_ops.h"
#include "ops/tflite/zo_padding.h"

enum { kInput = 0, kFilters = 1, kBias = 2 };

/* One of the three is not null. */
typedef struct exact_filters {
  zo_conv* conv;
  zo_depthwise_conv* depthwise;
  zo_offset_filters* offset_filters;
} exact_filters;

/* The tensors of a layer, which are checked. */
typedef struct tensors {
  const TfLiteTensor *input, *filters, *bias, *output;
} tensors;

static tensors tensors_of(const zo_node* node) {
  const tensors result = {zo_node_input(node, kInput), zo_node_input(node, kFilters), zo_node_input(node, kBias),
                          zo_node_output(node, 0)};
  return result;
}

static int bias_index(const zo_node* node) {
  return kBias < node->inputs->size ? node->inputs->data[kBias] : kTfLiteOptionalTensor;
}

/* The factor from sums to outputs, of a channel. FULLY_CONNECTED rounds the product of a single
 * scale to float first, in TFLM as here. */
static double factor_of(const zo_node* node, int32_t channel) {
  const tensors t = tensors_of(node);
  const TfLiteFloatArray* scales = zo_scales(t.filters);
  if (scales->size > 1) {
    return (double)t.input->params.scale * (double)scales->data[channel] / (double)t.output->params.scale;
  }
  if (node->builtin != kTfLiteBuiltinFullyConnected) {
    return (double)t.input->params.scale * (double)scales->data[0] / (double)t.output->params.scale;
  }
  const float product = t.input->params.scale * t.filters->params.scale;
  return (double)product / (double)t.output->params.scale;
}

/* Common checks of all layers, for so many output channels. `is_activation` checks types of input and output. */
static bool supports(const zo_node* node, bool (*is_activation)(const TfLiteTensor*), TfLiteFusedActivation activation,
                     int rank, int32_t channels) {
  const tensors t = tensors_of(node);
  if (!is_activation(t.input) || !zo_has_scale(t.input) || !is_activation(t.output) || !zo_has_scale(t.output) ||
      !zo_is_int8(t.filters) || !zo_has_rank(t.filters, rank) || !zo_is_clamp(activation) || channels < 1) {
    return false;
  }
  const TfLiteFloatArray* scales = zo_scales(t.filters);
  if (scales == NULL || (scales->size != 1 && scales->size != channels)) return false;
  for (int32_t c = 0; c < scales->size; ++c) {
    if (!zo_is_multiplier(factor_of(node, c))) return false;
  }
  if (bias_index(node) == kTfLiteOptionalTensor) return true;
  const bool is_wide = t.input->type == kTfLiteInt16;
  return t.bias != NULL && t.bias->type == (is_wide ? kTfLiteInt64 : kTfLiteInt32) &&
         t.bias->bytes == (uint64_t)channels * (is_wide ? sizeof(int64_t) : sizeof(int32_t));
}

static bool is_depthwise(const zo_node* node) { return node->builtin == kTfLiteBuiltinDepthwiseConv2d; }

static TfLiteConvParams conv_params(const zo_node* node) {
  if (!is_depthwise(node)) return *(const TfLiteConvParams*)node->params;
  const TfLiteDepthwiseConvParams* p = (const TfLiteDepthwiseConvParams*)node->params;
  const TfLiteConvParams result = {p->padding,    p->stride_width,          p->stride_height,
                                   p->activation, p->dilation_width_factor, p->dilation_height_factor};
  return result;
}

static bool conv_window(const zo_node* node, zo_window* window) {
  const TfLiteConvParams params = conv_params(node);
  const tensors t = tensors_of(node);
  const int *filter = t.filters->dims->data, channels = t.input->dims->data[3], outputs = t.output->dims->data[3];
  const zo_moves moves = {params.padding,
                          filter[1],
                          filter[2],
                          params.stride_height,
                          params.stride_width,
                          params.dilation_height_factor,
                          params.dilation_width_factor};
  return zo_window_of(t.input, t.output, &moves, window) &&
         (is_depthwise(node) ? filter[0] == 1 && filter[3] == outputs && filter[3] % channels == 0
                             : filter[3] == channels && filter[0] == outputs);
}

bool zo_exact_conv_supports(const zo_node* node) {
  const TfLiteTensor* filters = zo_node_input(node, kFilters);
  zo_window window;
  return filters != NULL && zo_has_rank(filters, 4) &&
         supports(node, zo_is_int8, conv_params(node).activation, 4, filters->dims->data[is_depthwise(node) ? 3 : 0]) &&
         conv_window(node, &window);
}

/* Values of `size` bytes. */
static bool dense_supports(const zo_node* node, bool (*is_activation)(const TfLiteTensor*), size_t size) {
  const TfLiteFullyConnectedParams* params = (const TfLiteFullyConnectedParams*)node->params;
  const tensors t = tensors_of(node);
  if (t.filters == NULL || !zo_has_rank(t.filters, 2) || params->weights_format != 0 ||
      !supports(node, is_activation, params->activation, 2, t.filters->dims->data[0])) {
    return false;
  }
  const size_t units = (size_t)t.filters->dims->data[0];
  const size_t row = (size_t)t.filters->dims->data[1] * size;
  return t.input->bytes > 0 && t.input->bytes % row == 0 && t.input->bytes <= INT32_MAX &&
         t.output->bytes == t.input->bytes / row * units * size;
}

bool zo_exact_fully_connected_supports(const zo_node* node) { return dense_supports(node, zo_is_int8, 1); }

/* The layer, but for its window; false if memory is short. */
static bool layer_of(const zo_node* node, TfLiteFusedActivation activation, int32_t channels, int32_t threads,
                     zo_multiplier** multipliers, zo_layer* layer) {
  const tensors t = tensors_of(node);
  *multipliers = malloc((size_t)channels * sizeof **multipliers);
  if (*multipliers == NULL) return false;
  for (int32_t c = 0; c < channels; ++c) {
    (*multipliers)[c] = zo_quantize_multiplier(factor_of(node, c));
  }
  layer->channels = channels;
  layer->input_zero_point = t.input->params.zero_point;
  layer->multipliers = *multipliers;
  layer->zero_point = t.output->params.zero_point;
  layer->threads = threads;
  layer->constant = t.filters->allocation_type == kTfLiteMmapRo;
  zo_activation_range(activation, t.output, &layer->min, &layer->max);
  return true;
}

/* Owns its arguments; null if all are null or there is no memory. */
static void* holder_of(zo_conv* conv, zo_depthwise_conv* depthwise, zo_offset_filters* offset_filters) {
  exact_filters* self = NULL;
  if (conv != NULL || depthwise != NULL || offset_filters != NULL) {
    self = malloc(sizeof *self);
  }
  if (self == NULL) {
    zo_conv_free(conv);
    zo_depthwise_conv_free(depthwise);
    zo_offset_filters_free(offset_filters);
    return NULL;
  }
  self->conv = conv;
  self->depthwise = depthwise;
  self->offset_filters = offset_filters;
  return self;
}

void* zo_exact_conv_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads) {
  const int32_t channels = zo_node_output(node, 0)->dims->data[3];
  zo_multiplier* multipliers = NULL;
  zo_layer layer;
  if (!conv_window(node, &layer.window) ||
      !layer_of(node, conv_params(node).activation, channels, threads, &multipliers, &layer)) {
    return NULL;
  }
  void* self = is_depthwise(node) ? holder_of(NULL, zo_depthwise_conv_create(kernels, &layer), NULL)
                                  : holder_of(zo_conv_create(kernels, &layer), NULL, NULL);
  free(multipliers);
  return self;
}

/* Rows of inputs, of which each gives one of outputs. */
int32_t zo_exact_fully_connected_samples(const zo_node* node) {
  const tensors t = tensors_of(node);
  return (int32_t)(t.input->bytes / (size_t)t.filters->dims->data[1]);
}

void* zo_exact_fully_connected_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads) {
  const TfLiteFullyConnectedParams* params = (const TfLiteFullyConnectedParams*)node->params;
  const tensors t = tensors_of(node);
  const int32_t units = t.filters->dims->data[0], depth = t.filters->dims->data[1];
  const int32_t samples = zo_exact_fully_connected_samples(node);
  zo_multiplier* multipliers = NULL;
  zo_layer layer;
  /* A sample is an image of one pixel. */
  const zo_window window = {samples, 1, 1, depth, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
  layer.window = window;
  if (!layer_of(node, params->activation, units, threads, &multipliers, &layer)) return NULL;
  const int32_t zero_point = zo_scales(t.filters)->size == 1 ? t.filters->params.zero_point : 0;
  void* self = zero_point == 0 ? holder_of(zo_conv_create(kernels, &layer), NULL, NULL)
                               : holder_of(NULL, NULL, zo_offset_filters_create(&layer, zero_point));
  free(multipliers);
  return self;
}

bool zo_exact_filters_begin(void* self, const zo_node* node) {
  const exact_filters* op = (const exact_filters*)self;
  const TfLiteTensor* biases = zo_tensor_at(node->context, node->inputs, kBias);
  const TfLiteTensor* own = zo_tensor_at(node->context, node->inputs, kFilters);
  const int8_t* filters = (const int8_t*)own->data;
  const int32_t* bias = biases == NULL ? NULL : (const int32_t*)biases->data;
  if (filters == NULL || (biases != NULL && bias == NULL)) return false;
  if (op->conv != NULL) {
    zo_conv_begin(op->conv, filters, bias);
  } else if (op->depthwise != NULL) {
    zo_depthwise_conv_begin(op->depthwise, filters, bias);
  } else {
    zo_offset_filters_begin(op->offset_filters, filters, bias);
  }
  return true;
}

void zo_exact_filters_run(const void* self, const zo_node* node, zo_share share) {
  const exact_filters* op = (const exact_filters*)self;
  const int8_t* x = (const int8_t*)zo_tensor_at(node->context, node->inputs, kInput)->data;
  int8_t* y = (int8_t*)zo_tensor_at(node->context, node->outputs, 0)->data;
  if (op->conv != NULL) {
    zo_conv_run(op->conv, x, share, y);
  } else if (op->depthwise != NULL) {
    zo_depthwise_conv_run(op->depthwise, x, share, y);
  } else {
    zo_offset_filters_run(op->offset_filters, x, share, y);
  }
}

void zo_exact_filters_free(void* self) {
  exact_filters* op = (exact_filters*)self;
  zo_conv_free(op->conv);
  zo_depthwise_conv_free(op->depthwise);
  zo_offset_filters_free(op->offset_filters);
  free(op);
}

/* --- FULLY_CONNECTED of int16. TFLM rounds its sums of 64 bits once, LiteRT in float. --- */

typedef struct dense16 {
  int32_t depth, units, min, max;
  zo_multiplier multipliers[];
} dense16;

static bool is_int16(const TfLiteTensor* tensor) {
  return tensor != NULL && tensor->type == kTfLiteInt16 && tensor->params.zero_point == 0;
}

bool zo_exact_dense16_supports(const zo_node* node) {
  if (!dense_supports(node, is_int16, sizeof(int16_t))) return false;
  const TfLiteTensor* filters = zo_node_input(node, kFilters);
  for (int32_t unit = 0; unit < filters->dims->data[0]; ++unit) {
    if (factor_of(node, unit) >= 128.0) return false; /* beyond TFLM's shifts */
  }
  return filters->params.zero_point == 0;
}

int32_t zo_exact_dense16_samples(const zo_node* node) {
  return zo_exact_fully_connected_samples(node) / (int32_t)sizeof(int16_t);
}

void* zo_exact_dense16_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads) {
  (void)kernels;
  (void)threads;
  const tensors t = tensors_of(node);
  const int32_t units = t.filters->dims->data[0];
  dense16* self = malloc(sizeof *self + (size_t)units * sizeof self->multipliers[0]);
  if (self == NULL) return NULL;
  self->units = units;
  self->depth = t.filters->dims->data[1];
  for (int32_t unit = 0; unit < units; ++unit) {
    self->multipliers[unit] = zo_quantize_multiplier(factor_of(node, unit));
  }
  zo_activation_range(((const TfLiteFullyConnectedParams*)node->params)->activation, t.output, &self->min, &self->max);
  return self;
}

bool zo_exact_dense16_begin(void* self, const zo_node* node) {
  (void)self;
  const TfLiteTensor* bias = zo_tensor_at(node->context, node->inputs, kBias);
  return zo_tensor_at(node->context, node->inputs, kFilters)->data != NULL && (bias == NULL || bias->data != NULL);
}

/* sum * multiplier, whose 16 upper bits count; modulo 2^64 where TFLM's overflows. */
static int32_t requantize_sum(uint64_t sum, zo_multiplier multiplier) {
  const uint64_t reduced = multiplier.value < 0x7FFF0000 ? ((uint32_t)multiplier.value + 0x8000u) >> 16 : 0x7FFFu;
  const uint32_t bits = (uint32_t)(15 - multiplier.shift);
  return (int32_t)zo_floor_shift64((int64_t)(sum * reduced + (UINT64_C(1) << (bits - 1u))), bits);
}

void zo_exact_dense16_run(const void* self, const zo_node* node, zo_share share) {
  const dense16* op = (const dense16*)self;
  const TfLiteTensor* biases = zo_tensor_at(node->context, node->inputs, kBias);
  const int64_t* bias = biases == NULL ? NULL : (const int64_t*)biases->data;
  const int16_t* x = (const int16_t*)zo_tensor_at(node->context, node->inputs, kInput)->data;
  int16_t* y = (int16_t*)zo_tensor_at(node->context, node->outputs, 0)->data;
  x += (ptrdiff_t)share.first * op->depth;
  y += (ptrdiff_t)share.first * op->units;
  for (int32_t sample = 0; sample < share.count; ++sample, x += op->depth) {
    const int8_t* w = (const int8_t*)zo_tensor_at(node->context, node->inputs, kFilters)->data;
    for (int32_t unit = 0; unit < op->units; ++unit, w += op->depth) {
      int64_t sum = 0;
      for (int32_t i = 0; i < op->depth; ++i) sum += x[i] * w[i];
      const uint64_t whole = (uint64_t)sum + (bias != NULL ? (uint64_t)bias[unit] : 0u);
      const int32_t value = requantize_sum(whole, op->multipliers[unit]);
      *y++ = (int16_t)(value < op->min ? op->min : (value > op->max ? op->max : value));
    }
  }
}
