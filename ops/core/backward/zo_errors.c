/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/backward/zo_errors.h"

#include <string.h>

#include "ops/core/backward/zo_error_range.h"

/* Difference of exponents from which on the smaller errors count as 0. */
#define DISTANCE_MAX 15

/* Errors times 2^FILLING are shifted to the right to fill 16 bits. */
#define FILLING 14

/* Keeps exponents, and their sums with others, far within 32 bits. */
#define FACTOR_EXPONENT_MAX 255

static int factors_fit(const zo_error_factors* factors, uint32_t count) {
  return factors != NULL && factors->mantissas != NULL && factors->channels > 0u && count % factors->channels == 0u &&
         factors->exponent >= -FACTOR_EXPONENT_MAX && factors->exponent <= FACTOR_EXPONENT_MAX;
}

zo_status zo_mask_errors(uint32_t count, const int8_t* outputs, int32_t low, int32_t high, int16_t* errors) {
  if (count == 0u || outputs == NULL || errors == NULL) return ZO_ERROR_ARGUMENT;
  /* Without a branch, and with 16 bits, it vectorizes. */
  const int16_t above = (int16_t)low, below = (int16_t)high;
  for (uint32_t i = 0; i < count; ++i) {
    const int16_t y = outputs[i];
    errors[i] = ((y > above) & (y < below)) ? errors[i] : 0;
  }
  return ZO_OK;
}

void zo_mask_bits(uint32_t count, const int8_t* outputs, int32_t low, int32_t high, uint8_t* bits) {
  for (uint32_t i = 0; i < count; i += 8u) {
    uint32_t byte = 0;
    for (uint32_t j = i; j < i + 8u && j < count; ++j) {
      byte |= (uint32_t)((outputs[j] > low) & (outputs[j] < high)) << (j - i);
    }
    *bits++ = (uint8_t)byte;
  }
}

void zo_mask_errors_by_bits(uint32_t count, const uint8_t* bits, int16_t* errors) {
  for (uint32_t i = 0; i < count; ++i) {
    if (((uint32_t)bits[i / 8u] >> i % 8u & 1u) == 0u) errors[i] = 0;
  }
}

/* How far products of errors and factors are shifted, and the exponent that this gives them. */
typedef struct scaling {
  const int16_t* mantissas;
  uint32_t channels;
  uint32_t largest; /* |product| */
  uint32_t shift;
  int32_t exponent;
} scaling;

static scaling make_scaling(const zo_error_factors* factors, uint32_t count, const int16_t* errors, int32_t exponent) {
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

zo_status zo_scale_errors(const zo_error_factors* factors, uint32_t count, const int16_t* errors, int8_t exponent,
                          int16_t* scaled, int8_t* scaled_exponent) {
  if (count == 0u || errors == NULL || scaled == NULL || scaled_exponent == NULL || !factors_fit(factors, count)) {
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

/* What two errors are multiplied with before their sum is shifted. */
typedef struct joining {
  int32_t of_sum, of_added;
  uint32_t filling, shift; /* of the added errors alone, which fill 16 bits, and of the sum */
} joining;

/* Writes the sums, unless the result is null; returns the largest. */
static inline int32_t join_errors(joining j, uint32_t count, const int16_t* errors, const int16_t* sum,
                                  int16_t* result) {
  int32_t largest = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t added = zo_half_up(errors[i] * (INT32_C(1) << FILLING), j.filling);
    const int32_t e = zo_half_up(sum[i] * j.of_sum + added * j.of_added, j.shift), magnitude = e < 0 ? -e : e;
    largest = magnitude > largest ? magnitude : largest;
    if (result != NULL) result[i] = (int16_t)e;
  }
  return largest;
}

zo_status zo_add_errors(uint32_t count, const int16_t* errors, int8_t exponent, int16_t* sum, int8_t* sum_exponent) {
  if (count == 0u || errors == NULL || sum == NULL || sum_exponent == NULL) return ZO_ERROR_ARGUMENT;
  const uint32_t added = (uint32_t)zo_largest_magnitude(errors, count);
  if (added == 0u) return ZO_OK;
  joining j = {1, 1, zo_error_shift(added << FILLING), 0};
  const int32_t own = zo_error_exponent(exponent + (int32_t)j.filling - FILLING);
  const int32_t distance = zo_largest_magnitude(sum, count) == 0 ? -DISTANCE_MAX - 1 : *sum_exponent - own;
  int32_t result = distance >= 0 ? *sum_exponent : own;
  if (distance > DISTANCE_MAX) {
    j.of_added = 0;
  } else if (distance < -DISTANCE_MAX) {
    j.of_sum = 0;
  } else {
    j.shift = (uint32_t)(distance >= 0 ? distance : -distance);
    *(distance >= 0 ? &j.of_sum : &j.of_added) = INT32_C(1) << j.shift;
  }
  if (join_errors(j, count, errors, sum, NULL) > ZO_ERROR_MAX) {
    ++j.shift;
    ++result;
  }
  (void)join_errors(j, count, errors, sum, sum);
  *sum_exponent = zo_error_exponent(result);
  return ZO_OK;
}

zo_status zo_slice_errors(uint32_t blocks, uint32_t pitch, uint32_t offset, uint32_t length, const int16_t* errors,
                          int16_t* slice) {
  if (blocks == 0u || length == 0u || pitch < length || errors == NULL || slice == NULL) {
    return ZO_ERROR_ARGUMENT;
  }
  for (uint32_t i = 0; i < blocks; ++i) {
    const int16_t* from = errors + offset + (size_t)i * pitch;
    for (uint32_t j = 0; j < length; ++j) *slice++ = from[j];
  }
  return ZO_OK;
}

zo_status zo_place_errors(uint32_t blocks, uint32_t pitch, uint32_t offset, uint32_t length, const int16_t* errors,
                          uint32_t count, int16_t* placed) {
  if (blocks == 0u || length == 0u || pitch < length || errors == NULL || placed == NULL) {
    return ZO_ERROR_ARGUMENT;
  }
  memset(placed, 0, count * sizeof placed[0]);
  for (uint32_t i = 0; i < blocks; ++i) {
    memcpy(placed + offset + (size_t)i * pitch, errors + (size_t)i * length, length * sizeof placed[0]);
  }
  return ZO_OK;
}

zo_status zo_level_errors(const int16_t* mantissas, int32_t factor_exponent, uint32_t count, const int8_t* levels,
                          const int16_t* errors, int8_t exponent, int16_t* scaled, int8_t* scaled_exponent) {
  const zo_error_factors factors = {mantissas, 1, factor_exponent};
  if (count == 0u || levels == NULL || errors == NULL || scaled == NULL || scaled_exponent == NULL ||
      !factors_fit(&factors, count)) {
    return ZO_ERROR_ARGUMENT;
  }
  uint32_t largest = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t product = errors[i] * mantissas[levels[i] + 128];
    const uint32_t magnitude = (uint32_t)(product < 0 ? -product : product);
    if (magnitude > largest) largest = magnitude;
  }
  const uint32_t shift = zo_error_shift(largest);
  for (uint32_t i = 0; i < count; ++i) {
    scaled[i] = (int16_t)zo_half_up(errors[i] * mantissas[levels[i] + 128], shift);
  }
  *scaled_exponent = zo_error_exponent(exponent + (int32_t)shift - 15 + factor_exponent);
  return ZO_OK;
}

/* Values whose sum of products, of 15, 15 and 8 bits, is far within 64 bits. */
#define SUMMED_MAX (UINT32_C(1) << 20)

int zo_product_fits(const zo_error_product* p, uint32_t count) {
  if (p == NULL || p->repeat == 0u || p->length == 0u || p->other_repeat == 0u || p->other_length == 0u ||
      p->zero_point < -128 || p->zero_point > 127 || count == 0u) {
    return 0;
  }
  const uint64_t own = (uint64_t)p->repeat * p->length;
  const uint64_t others = (uint64_t)p->other_repeat * p->other_length;
  return own <= count && others <= count && count % own == 0u && count % others == 0u &&
         count / p->length <= SUMMED_MAX;
}

/* Sum of the products of value j. */
static int64_t product_sum(const zo_error_product* p, uint32_t count, const int8_t* other, const int16_t* errors,
                           int32_t mantissa, uint32_t j) {
  const uint32_t period = p->repeat * p->length;
  int64_t sum = 0;
  for (uint32_t first = j * p->repeat; first < count; first += period) {
    for (uint32_t i = first; i < first + p->repeat; ++i) {
      const int32_t value = other != NULL ? other[i / p->other_repeat % p->other_length] - p->zero_point : 1;
      sum += errors[i] * value;
    }
  }
  return sum * mantissa;
}

zo_status zo_product_errors(const zo_error_product* product, const zo_error_factors* factor, uint32_t count,
                            const int8_t* other, const int16_t* errors, int8_t exponent, int16_t* result,
                            int8_t* result_exponent) {
  if (errors == NULL || result == NULL || result_exponent == NULL || factor == NULL || !factors_fit(factor, 1) ||
      !zo_product_fits(product, count)) {
    return ZO_ERROR_ARGUMENT;
  }
  const int32_t mantissa = factor->mantissas[0];
  uint64_t largest = 0;
  for (uint32_t j = 0; j < product->length; ++j) {
    const int64_t sum = product_sum(product, count, other, errors, mantissa, j);
    const uint64_t magnitude = (uint64_t)(sum < 0 ? -sum : sum);
    if (magnitude > largest) largest = magnitude;
  }
  const uint32_t shift = zo_error_shift(largest);
  for (uint32_t j = 0; j < product->length; ++j) {
    const int64_t sum = product_sum(product, count, other, errors, mantissa, j);
    result[j] = (int16_t)zo_floor_shift64(sum + (int64_t)(UINT64_C(1) << shift >> 1), shift);
  }
  *result_exponent = zo_error_exponent(exponent + (int32_t)shift - 15 + factor->exponent);
  return ZO_OK;
}
