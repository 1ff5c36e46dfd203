/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/backward/zo_conv_backprop.h"

#include <string.h>

#include "ops/core/backward/zo_error_range.h"
#include "ops/core/backward/zo_windows.h"
#include "ops/core/kernels/zo_add_products.h"

/* Weights of an input channel times their errors that are added in one pass over the sums. */
#define TOGETHER 64u

/* The norm of ZO_CONV_BACKPROP_WEIGHTS_MAX weights of -128. */
#define NORM_MAX UINT32_C(46341)

/* Output channels that read an input channel. */
static uint32_t reading_channels(const zo_node_layer* l) { return l->depthwise != 0u ? l->out_c / l->in_c : l->out_c; }

static int layer_fits(const zo_node_layer* l) {
  return zo_node_layer_check(l) == ZO_OK &&
         (uint64_t)l->k_h * l->k_w * reading_channels(l) <= ZO_CONV_BACKPROP_WEIGHTS_MAX;
}

uint32_t zo_conv_backprop_scratch_values(const zo_node_layer* layer) { return layer->in_c; }

zo_status zo_conv_backprop_norm_s8(const zo_node_layer* layer, const int8_t* weights, int32_t* scratch,
                                   uint32_t* norm) {
  if (weights == NULL || scratch == NULL || norm == NULL || !layer_fits(layer)) {
    return ZO_ERROR_ARGUMENT;
  }
  /* Weights next to each other that read the same input channel, and rows of all channels. */
  const uint32_t each = layer->depthwise != 0u ? reading_channels(layer) : 1u;
  const uint32_t rows = layer->k_h * layer->k_w * (reading_channels(layer) / each);
  memset(scratch, 0, layer->in_c * sizeof scratch[0]);
  for (uint32_t i = 0; i < rows; ++i) {
    for (uint32_t c = 0; c < layer->in_c; ++c) {
      for (uint32_t m = 0; m < each; ++m, ++weights) {
        /* Unsigned: the sum of as many squares as there may be is 2^31. */
        scratch[c] = (int32_t)((uint32_t)scratch[c] + (uint32_t)(*weights * *weights));
      }
    }
  }
  uint32_t largest = 0;
  for (uint32_t c = 0; c < layer->in_c; ++c) {
    if ((uint32_t)scratch[c] > largest) largest = (uint32_t)scratch[c];
  }
  *norm = (uint32_t)zo_root_up(largest);
  return ZO_OK;
}

/* The scales and the shift that turn errors into f. */
typedef struct factoring {
  const int16_t* scales;
  uint32_t shift; /* a */
} factoring;

/* e * scale. */
static inline int32_t product_of(factoring by, int32_t error, uint32_t channel) {
  return by.scales == NULL ? error * (INT32_C(1) << 15) : error * by.scales[channel];
}

/* f. */
static inline int32_t factor_of(factoring by, int32_t error, uint32_t channel) {
  return zo_half_up(product_of(by, error, channel), by.shift);
}

/* Output errors on their way through the layer. */
typedef struct passing {
  const zo_node_layer* layer;
  const int8_t* weights;
  const int16_t* errors;
  factoring by;
  zo_windows rows;
  zo_windows columns;
  uint32_t number; /* of products that are still to be added */
  zo_product products[TOGETHER];
} passing;

/* The largest |e scale|. */
static uint32_t largest_product(const passing* p) {
  const zo_node_layer* l = p->layer;
  const uint32_t positions = l->out_h * l->out_w;
  const int16_t* e = p->errors;
  uint32_t largest = 0;
  for (uint32_t i = 0; i < positions; ++i) {
    for (uint32_t c = 0; c < l->out_c; ++c) {
      const int32_t product = product_of(p->by, *e++, c);
      const uint32_t magnitude = (uint32_t)(product < 0 ? -product : product);
      if (magnitude > largest) largest = magnitude;
    }
  }
  return largest;
}

/* The largest F. */
static uint64_t largest_squares(const passing* p) {
  const zo_node_layer* l = p->layer;
  const uint32_t positions = l->out_h * l->out_w, together = reading_channels(l);
  const int16_t* e = p->errors;
  uint64_t largest = 0;
  for (uint32_t i = 0; i < positions; ++i) {
    for (uint32_t c = 0; c < l->out_c;) {
      uint64_t sum = 0;
      for (const uint32_t end = c + together; c < end; ++c) {
        const int32_t f = factor_of(p->by, *e++, c);
        sum += (uint32_t)(f * f);
      }
      if (sum > largest) largest = sum;
    }
  }
  return largest;
}

/* Finds a, and returns N. */
static uint64_t find_errors_shift(passing* p, uint32_t norm) {
  const uint64_t reads = (uint64_t)zo_most_windows(&p->rows) * zo_most_windows(&p->columns);
  p->by.shift = zo_error_shift(largest_product(p));
  for (;; ++p->by.shift) {
    const uint64_t bound = zo_root_up(reads * largest_squares(p)) * norm;
    if (bound <= ZO_ERROR_SUM_MAX) return bound;
  }
}

/* Adds the contribution of the output at `position` through the weights at `tap` of the window. */
static void pass_dense(passing* p, uint32_t tap, uint32_t position, int32_t* sums) {
  const zo_node_layer* l = p->layer;
  const size_t apart = (size_t)l->k_h * l->k_w * l->in_c;
  const int16_t* errors = p->errors + (size_t)position * l->out_c;
  const int8_t* row = p->weights + (size_t)tap * l->in_c;
  const factoring by = p->by; /* copied: the stores below cannot change it */
  uint32_t number = p->number;
  for (uint32_t c = 0; c < l->out_c; ++c, row += apart) {
    const int32_t f = factor_of(by, errors[c], c);
    if (f == 0) continue;
    p->products[number].row = row;
    p->products[number].factor = f;
    if (++number == TOGETHER) {
      zo_add_products(sums, l->in_c, p->products, number, 0, 0);
      number = 0;
    }
  }
  p->number = number;
}

static void pass_depthwise(const passing* p, uint32_t tap, uint32_t position, int32_t* sums) {
  const zo_node_layer* l = p->layer;
  const int16_t* errors = p->errors + (size_t)position * l->out_c;
  const int8_t* weights = p->weights + (size_t)tap * l->out_c;
  const uint32_t together = reading_channels(l);
  const factoring by = p->by;
  for (uint32_t c = 0; together == 1u && c < l->out_c; ++c) sums[c] += factor_of(by, errors[c], c) * weights[c];
  for (uint32_t c = 0; together > 1u && c < l->out_c; ++sums) {
    int32_t sum = *sums;
    for (const uint32_t end = c + together; c < end; ++c) {
      sum += factor_of(by, errors[c], c) * weights[c];
    }
    *sums = sum;
  }
}

/* S of the input position (row, column), of all channels. */
static void pass_to(passing* p, uint32_t row, uint32_t column, int32_t* sums) {
  const zo_node_layer* l = p->layer;
  memset(sums, 0, l->in_c * sizeof sums[0]);
  for (uint32_t i = 0; i < l->k_h; ++i) {
    uint32_t h, w;
    if (!zo_window_of(&p->rows, row, i, &h)) continue;
    for (uint32_t j = 0; j < l->k_w; ++j) {
      if (!zo_window_of(&p->columns, column, j, &w)) continue;
      if (l->depthwise != 0u) {
        pass_depthwise(p, i * l->k_w + j, h * l->out_w + w, sums);
      } else {
        pass_dense(p, i * l->k_w + j, h * l->out_w + w, sums);
      }
    }
  }
  if (p->number > 0u) zo_add_products(sums, l->in_c, p->products, p->number, 0, 0);
  p->number = 0;
}

zo_status zo_conv_backprop_s8(const zo_node_layer* layer, const int8_t* weights, uint32_t norm, const int16_t* scales,
                              const int16_t* output_errors, int8_t exponent, int16_t* input_errors,
                              int8_t* input_exponent, int32_t* scratch) {
  if (weights == NULL || output_errors == NULL || input_errors == NULL || input_exponent == NULL || scratch == NULL ||
      norm > NORM_MAX || !layer_fits(layer)) {
    return ZO_ERROR_ARGUMENT;
  }
  passing p;
  p.layer = layer;
  p.weights = weights;
  p.by.scales = scales;
  p.errors = output_errors;
  p.number = 0;
  const zo_windows rows = {layer->in_h, layer->out_h, layer->k_h, layer->stride_h, layer->dilation_h, layer->pad_top};
  const zo_windows columns = {layer->in_w,     layer->out_w,      layer->k_w,
                              layer->stride_w, layer->dilation_w, layer->pad_left};
  p.rows = rows;
  p.columns = columns;
  const uint32_t shift = zo_error_shift(find_errors_shift(&p, norm));
  for (uint32_t row = 0; row < layer->in_h; ++row) {
    for (uint32_t column = 0; column < layer->in_w; ++column) {
      pass_to(&p, row, column, scratch);
      for (uint32_t c = 0; c < layer->in_c; ++c) {
        *input_errors++ = (int16_t)zo_half_up(scratch[c], shift);
      }
    }
  }
  *input_exponent = zo_error_exponent(exponent + (int32_t)(p.by.shift + shift) - 15);
  return ZO_OK;
}
