/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/backward/zo_errors.h"

#include "ops/core/backward/zo_error_range.h"

/* Difference of exponents from which on the smaller errors count as 0. */
#define DISTANCE_MAX 15

/* Keeps exponents, and what is added to them, far within 32 bits. */
#define FACTOR_EXPONENT_MAX 255

/* A factor of one: 2^14 * 2^(1 - 15). */
static const int16_t kHalf[1] = {1 << 14};

static int factors_fit(const zo_error_factors* factors, uint32_t count) {
  return factors->mantissas != NULL && factors->channels > 0u && count % factors->channels == 0u &&
         factors->exponent >= -FACTOR_EXPONENT_MAX && factors->exponent <= FACTOR_EXPONENT_MAX;
}

zo_status zo_mask_errors(uint32_t count, const int8_t* outputs, int32_t low, int32_t high,
                         int16_t* errors) {
  if (count == 0u || outputs == NULL || errors == NULL) return ZO_ERROR_ARGUMENT;
  for (uint32_t i = 0; i < count; ++i) {
    if (outputs[i] <= low || outputs[i] >= high) errors[i] = 0;
  }
  return ZO_OK;
}

/* How far products of errors and factors are shifted, and the exponent that this gives them. */
typedef struct scaling {
  const int16_t* mantissas;
  uint32_t channels;
  uint32_t largest; /* |product| */
  uint32_t shift;
  int32_t exponent;
} scaling;

static scaling make_scaling(const zo_error_factors* factors, uint32_t count, const int16_t* errors,
                            int32_t exponent) {
  scaling s = {factors->mantissas, factors->channels, 0, 0, 0};
  for (uint32_t i = 0, c = 0; i < count; ++i) {
    const int32_t product = errors[i] * s.mantissas[c];
    const uint32_t magnitude = (uint32_t)(product < 0 ? -product : product);
    if (magnitude > s.largest) s.largest = magnitude;
    if (++c == s.channels) c = 0;
  }
  s.shift = zo_error_shift(s.largest);
  s.exponent = zo_error_exponent(exponent + (int32_t)s.shift - 15 + factors->exponent);
  return s;
}

static inline int32_t scaled_error(const scaling* s, int32_t error, uint32_t channel) {
  return zo_half_up(error * s->mantissas[channel], s->shift);
}

zo_status zo_scale_errors(const zo_error_factors* factors, uint32_t count, const int16_t* errors,
                          int8_t exponent, int16_t* scaled, int8_t* scaled_exponent) {
  const zo_error_factors one = {kHalf, 1, 1};
  if (factors == NULL) factors = &one;
  if (count == 0u || errors == NULL || scaled == NULL || scaled_exponent == NULL ||
      !factors_fit(factors, count)) {
    return ZO_ERROR_ARGUMENT;
  }
  const scaling s = make_scaling(factors, count, errors, exponent);
  for (uint32_t i = 0, c = 0; i < count; ++i) {
    scaled[i] = (int16_t)scaled_error(&s, errors[i], c);
    if (++c == s.channels) c = 0;
  }
  *scaled_exponent = (int8_t)s.exponent;
  return ZO_OK;
}

/* Two errors brought together, before o: both exponents' distance, and which one is the larger. */
static inline int32_t joined(int32_t sum, int32_t added, int32_t distance) {
  if (distance > DISTANCE_MAX) return sum;
  if (distance < -DISTANCE_MAX) return added;
  return distance >= 0 ? sum * (INT32_C(1) << distance) + added
                       : added * (INT32_C(1) << -distance) + sum;
}

zo_status zo_add_errors(const zo_error_factors* factors, uint32_t count, const int16_t* errors,
                        int8_t exponent, int16_t* sum, int8_t* sum_exponent) {
  const zo_error_factors one = {kHalf, 1, 1};
  if (factors == NULL) factors = &one;
  if (count == 0u || errors == NULL || sum == NULL || sum_exponent == NULL ||
      !factors_fit(factors, count)) {
    return ZO_ERROR_ARGUMENT;
  }
  const scaling s = make_scaling(factors, count, errors, exponent);
  if (s.largest == 0u) return ZO_OK;
  if (zo_largest_magnitude(sum, count) == 0) {
    return zo_scale_errors(factors, count, errors, exponent, sum, sum_exponent);
  }
  const int32_t distance = *sum_exponent - s.exponent;
  const int32_t apart = distance < 0 ? -distance : distance;
  uint32_t shift = apart > DISTANCE_MAX ? 0u : (uint32_t)apart;
  int32_t result = distance >= 0 ? *sum_exponent : s.exponent;
  int32_t largest = 0;
  for (uint32_t i = 0, c = 0; i < count; ++i) {
    const int32_t e = zo_half_up(joined(sum[i], scaled_error(&s, errors[i], c), distance), shift);
    if (e > largest || -e > largest) largest = e < 0 ? -e : e;
    if (++c == s.channels) c = 0;
  }
  if (largest > ZO_ERROR_MAX) {
    ++shift;
    ++result;
  }
  for (uint32_t i = 0, c = 0; i < count; ++i) {
    const int32_t both = joined(sum[i], scaled_error(&s, errors[i], c), distance);
    sum[i] = (int16_t)zo_half_up(both, shift);
    if (++c == s.channels) c = 0;
  }
  *sum_exponent = zo_error_exponent(result);
  return ZO_OK;
}

zo_status zo_slice_errors(uint32_t blocks, uint32_t pitch, uint32_t offset, uint32_t length,
                          const int16_t* errors, int16_t* slice) {
  if (blocks == 0u || length == 0u || pitch < length || errors == NULL || slice == NULL) {
    return ZO_ERROR_ARGUMENT;
  }
  for (uint32_t i = 0; i < blocks; ++i) {
    const int16_t* from = errors + offset + (size_t)i * pitch;
    for (uint32_t j = 0; j < length; ++j) *slice++ = from[j];
  }
  return ZO_OK;
}
