/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/loss/zo_class_loss.h"
#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/math/zo_log2.h"

/* ln(2) in units of 2^-32. */
#define LN2 UINT64_C(2977044472)

/* Distances from the maximum beyond which 2^-x is below the resolution. */
static uint32_t reach_of_scale(zo_logit_scale scale) { return ((UINT32_C(31) << 24) - 1u) / scale.scale_log2e; }

/* ln(sum) + scale * distance in units of 2^-16, sum in units of 2^-30. */
static int32_t log_loss(uint64_t sum, uint32_t distance, zo_logit_scale scale) {
  const uint64_t log_sum = ((uint64_t)zo_log2(sum) * LN2) >> 34; /* 2^-24 */
  return (int32_t)((log_sum + (uint64_t)distance * scale.scale + 128u) >> 8);
}

/* 2^-30 times e^(s (z - z_max)). */
static uint32_t exponential_of_logit(int32_t logit, int32_t largest, zo_logit_scale scale, uint32_t limit) {
  const uint32_t distance = (uint32_t)(largest - logit);
  return distance > limit ? 0u : zo_exp2_negative(distance * scale.scale_log2e);
}

static uint64_t sum_of_exponentials(const int8_t* logits, uint32_t classes, int32_t largest, zo_logit_scale scale) {
  const uint32_t limit = reach_of_scale(scale);
  uint64_t sum = 0;
  for (uint32_t j = 0; j < classes; ++j) sum += exponential_of_logit(logits[j], largest, scale, limit);
  return sum;
}

zo_status zo_cross_entropy_s8(const int8_t* logits, uint32_t samples, uint32_t places, uint32_t classes,
                              zo_logit_scale scale, const int32_t* labels, int32_t* losses) {
  const zo_status status = zo_check_class_loss(logits, samples * places, classes, scale, labels, losses);
  if (status != ZO_OK) return status;
  for (uint32_t i = 0; i < samples; ++i) {
    int64_t loss = 0;
    for (uint32_t place = 0; place < places; ++place, logits += classes, ++labels) {
      if (*labels < 0) continue;
      const int32_t largest = zo_largest_logit(logits, classes);
      loss +=
          log_loss(sum_of_exponentials(logits, classes, largest, scale), (uint32_t)(largest - logits[*labels]), scale);
    }
    losses[i] = loss < INT32_MAX ? (int32_t)loss : INT32_MAX;
  }
  return ZO_OK;
}

zo_status zo_cross_entropy_error_s8(const int8_t* logits, uint32_t samples, uint32_t classes, zo_logit_scale scale,
                                    const int32_t* labels, int16_t* errors) {
  const zo_status status = zo_check_class_loss(logits, samples, classes, scale, labels, errors);
  if (status != ZO_OK) return status;
  const uint32_t limit = reach_of_scale(scale);
  for (uint32_t i = 0; i < samples; ++i, logits += classes, errors += classes) {
    const int32_t largest = zo_largest_logit(logits, classes);
    uint64_t sum = sum_of_exponentials(logits, classes, largest, scale);
    /* Brings the sum to 16 bits, so that each quotient is one 32-bit division. */
    uint32_t shift = 0;
    while ((sum >> shift) >= (UINT64_C(1) << 16)) ++shift;
    const uint32_t divisor = (uint32_t)(sum >> shift);
    for (uint32_t j = 0; j < classes; ++j) {
      const uint32_t term = exponential_of_logit(logits[j], largest, scale, limit);
      const uint32_t part = shift < 32u ? term >> shift : 0u;
      const int32_t probability = (int32_t)(((part << 15) + divisor / 2u) / divisor);
      const int32_t target = labels[i] == (int32_t)j ? 32768 : 0;
      errors[j] = labels[i] < 0 ? (int16_t)0 : (int16_t)zo_clamp(probability - target, -32767, 32767);
    }
  }
  return ZO_OK;
}

static zo_status check_binary(const int8_t* logits, uint32_t samples, uint32_t outputs, int32_t zero_point,
                              zo_logit_scale scale, const int32_t* labels, const void* result) {
  if (logits == NULL || labels == NULL || result == NULL || samples == 0 || outputs == 0 || zero_point < -128 ||
      zero_point > 127 || !zo_logit_scale_is_valid(scale)) {
    return ZO_ERROR_ARGUMENT;
  }
  for (uint64_t i = 0; i < (uint64_t)samples * outputs; ++i) {
    if (labels[i] < -1 || labels[i] > 1) return ZO_ERROR_LABEL;
  }
  return ZO_OK;
}

zo_status zo_binary_cross_entropy_s8(const int8_t* logits, uint32_t samples, uint32_t outputs, int32_t zero_point,
                                     zo_logit_scale scale, const int32_t* labels, int32_t* losses) {
  const zo_status status = check_binary(logits, samples, outputs, zero_point, scale, labels, losses);
  if (status != ZO_OK) return status;

  const uint32_t limit = reach_of_scale(scale);
  for (uint32_t i = 0; i < samples; ++i, logits += outputs, labels += outputs) {
    int64_t loss = 0;
    for (uint32_t j = 0; j < outputs; ++j) {
      if (labels[j] < 0) continue;
      const int32_t x = logits[j] - zero_point;
      const uint32_t distance = (uint32_t)(x < 0 ? -x : x);
      const uint32_t tail = exponential_of_logit(0, (int32_t)distance, scale, limit);
      const int wrong_side = (x < 0) == (labels[j] == 1);
      loss += log_loss((UINT64_C(1) << 30) + tail, wrong_side ? distance : 0u, scale);
    }
    losses[i] = loss < INT32_MAX ? (int32_t)loss : INT32_MAX;
  }
  return ZO_OK;
}

zo_status zo_binary_cross_entropy_error_s8(const int8_t* logits, uint32_t samples, uint32_t outputs, int32_t zero_point,
                                           zo_logit_scale scale, const int32_t* labels, int16_t* errors) {
  const zo_status status = check_binary(logits, samples, outputs, zero_point, scale, labels, errors);
  if (status != ZO_OK) return status;
  const uint32_t limit = reach_of_scale(scale);
  for (size_t i = 0; i < (size_t)samples * outputs; ++i) {
    const int32_t x = logits[i] - zero_point;
    const uint32_t part = exponential_of_logit(0, x < 0 ? -x : x, scale, limit) >> 15;
    const uint32_t divisor = (UINT32_C(1) << 15) + part;
    const int32_t far = (int32_t)(((part << 15) + divisor / 2u) / divisor);
    const int32_t probability = x < 0 ? far : 32768 - far;
    const int32_t error = probability - (labels[i] == 1 ? 32768 : 0);
    errors[i] = labels[i] < 0 ? (int16_t)0 : (int16_t)zo_clamp(error, -32767, 32767);
  }
  return ZO_OK;
}
