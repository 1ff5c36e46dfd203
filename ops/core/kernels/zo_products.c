/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/kernels/zo_products.h"

uint32_t zo_products(const int8_t* weights, const int8_t* x, int32_t zero_point, int32_t count) {
  uint32_t sum = 0;
  for (int32_t i = 0; i < count; ++i) sum += (uint32_t)(weights[i] * (int16_t)(x[i] - zero_point));
  return sum;
}
