/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/nodes/zo_fc_backprop.h"

#include <string.h>

#include "ops/core/kernels/zo_add_products.h"
#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/nodes/zo_node_layer.h"

/* Outputs whose products with int16 errors an int32 sum holds. */
#define OUTPUTS_MAX UINT32_C(512)

#define FC_ERROR_MAX INT64_C(32767)

/* Outputs that are added in one pass over the sums. */
#define FC_TOGETHER 32u

zo_status zo_fc_backprop_s8(uint32_t samples, uint32_t inputs, uint32_t outputs, const int8_t* weights,
                            const int16_t* scales, const int16_t* output_errors, const uint8_t* routes,
                            int16_t* input_errors, int32_t* scratch) {
  if (samples == 0u || inputs == 0u || outputs == 0u || outputs > UINT32_C(65536) || weights == NULL ||
      output_errors == NULL || input_errors == NULL || scratch == NULL) {
    return ZO_ERROR_ARGUMENT;
  }
  uint32_t spare = 0;
  while (outputs > OUTPUTS_MAX << spare) ++spare;
  for (uint32_t b = 0; b < samples; ++b) {
    const int16_t* from = output_errors + (size_t)b * outputs;
    int16_t* to = input_errors + (size_t)b * inputs;
    zo_product products[FC_TOGETHER];
    uint32_t number = 0;
    memset(scratch, 0, inputs * sizeof scratch[0]);
    for (uint32_t i = 0; i < outputs; ++i) {
      int32_t error = from[i];
      if (scales != NULL) error = zo_half_up(error * scales[i], 15);
      error = zo_floor_shift(error, spare);
      if (error != 0) {
        products[number].row = weights + (size_t)i * inputs;
        products[number].factor = error;
        ++number;
      }
      if (number == FC_TOGETHER || i + 1u == outputs) {
        zo_add_products(scratch, inputs, products, number, 0, 0);
        number = 0;
      }
    }
    for (uint32_t j = 0; j < inputs; ++j) {
      const int64_t sum = (int64_t)scratch[j] * (INT64_C(1) << spare);
      const int64_t error = zo_floor_shift64(sum + (INT64_C(1) << (ZO_FC_BACKPROP_BITS - 1)), ZO_FC_BACKPROP_BITS);
      const int clamped = routes != NULL && routes[(size_t)b * inputs + j] == ZO_ROUTE_CLAMPED;
      to[j] = clamped ? 0 : (int16_t)zo_clamp64(error, FC_ERROR_MAX);
    }
  }
  return ZO_OK;
}
