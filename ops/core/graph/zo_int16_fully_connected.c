/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/graph/zo_int16_fully_connected.h"

#include "ops/core/math/zo_requantize.h"
#include "ops/core/zo_little_endian.h"

/* Sums of x w, x f, w and f: in one pass, in the form that compilers vectorize. */
typedef struct row_sums {
  int32_t products;
  int32_t fraction_products;
  int32_t weights;
  int32_t fractions;
} row_sums;

static row_sums sum_products(const int8_t* x, const int8_t* w, const int8_t* f, uint32_t depth) {
  row_sums s = {0, 0, 0, 0};
  for (uint32_t i = 0; i < depth; ++i) {
    s.products += x[i] * w[i];
    s.fraction_products += x[i] * f[i];
    s.weights += w[i];
    s.fractions += f[i];
  }
  return s;
}

static zo_multiplier multiplier_of(const zo_int16_fully_connected* layer, uint32_t unit) {
  const uint8_t* at =
      layer->multipliers + (layer->multiplier_count == 1u ? 0u : (size_t)unit * ZO_INT16_MULTIPLIER_BYTES);
  zo_multiplier multiplier;
  multiplier.value = (int32_t)zo_read_u32(at);
  multiplier.shift = (int8_t)at[4];
  return multiplier;
}

void zo_int16_fully_connected_s8(const zo_int16_fully_connected* layer, const int8_t* x, int8_t* y) {
  const uint32_t depth = layer->depth;
  for (uint32_t unit = 0; unit < layer->units; ++unit) {
    const size_t row = (size_t)unit * depth;
    const row_sums s = sum_products(x, layer->weights + row, layer->fraction + row, depth);
    const int32_t zero = layer->input_zero_point;
    int64_t whole = s.products - (int64_t)zero * s.weights;
    if (layer->bias != NULL) whole += layer->bias[unit];
    const int64_t parts = s.fraction_products - (int64_t)zero * s.fractions;
    whole += zo_floor_shift64(parts, 8);
    const uint32_t rest = (uint32_t)((uint64_t)parts & 0xFFu);
    const int32_t value = zo_requantize_16(whole, rest, multiplier_of(layer, unit));
    const int32_t offset = layer->output_zero_point;
    y[unit] = (int8_t)(zo_clamp(value, layer->output_min - offset, layer->output_max - offset) + offset);
  }
}
