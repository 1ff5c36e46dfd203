/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/loss/zo_loss.h"

#define ELEMENTS_MAX (UINT32_C(1) << 20)

static uint64_t sum_of_squares(const int8_t* outputs, const int8_t* targets, uint32_t elements) {
  uint64_t sum = 0;
  for (uint32_t j = 0; j < elements; ++j) {
    const int32_t difference = outputs[j] - targets[j];
    sum += (uint32_t)(difference * difference);
  }
  return sum;
}

/* round(sum * multiplier / 2^shift), saturated. sum < 2^36. */
static int32_t scale_sum(uint64_t sum, int32_t multiplier, int32_t shift) {
  while (sum >= (UINT64_C(1) << 32) && shift > 0) { /* keeps the product below 2^63 */
    sum >>= 1;
    --shift;
  }
  if (sum >= (UINT64_C(1) << 32)) return INT32_MAX;
  const uint64_t product = sum * (uint64_t)(uint32_t)multiplier;
  const uint64_t half = shift > 0 ? UINT64_C(1) << (shift - 1) : 0u;
  const uint64_t loss = (product + half) >> shift;
  return loss < (uint64_t)INT32_MAX ? (int32_t)loss : INT32_MAX;
}

zo_status zo_mean_squared_error_s8(const int8_t* outputs, const int8_t* targets, uint32_t samples, uint32_t elements,
                                   int32_t multiplier, int32_t shift, int32_t* losses) {
  if (outputs == NULL || targets == NULL || losses == NULL || samples == 0 || elements == 0 ||
      elements > ELEMENTS_MAX || multiplier < (INT32_C(1) << 30) || shift < 0 || shift > 62) {
    return ZO_ERROR_ARGUMENT;
  }
  for (uint32_t i = 0; i < samples; ++i) {
    const size_t at = (size_t)i * elements;
    losses[i] = scale_sum(sum_of_squares(outputs + at, targets + at, elements), multiplier, shift);
  }
  return ZO_OK;
}

zo_status zo_mean_squared_error_error_s8(const int8_t* outputs, const int8_t* targets, uint32_t samples,
                                         uint32_t elements, int16_t* errors) {
  if (outputs == NULL || targets == NULL || errors == NULL || samples == 0 || elements == 0 ||
      elements > ELEMENTS_MAX) {
    return ZO_ERROR_ARGUMENT;
  }
  for (size_t i = 0; i < (size_t)samples * elements; ++i) {
    errors[i] = (int16_t)(128 * (outputs[i] - targets[i]));
  }
  return ZO_OK;
}
