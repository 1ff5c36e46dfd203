/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/papers/zo_floor_log2_loss.h"

#include "ops/core/loss/zo_class_loss.h"
#include "ops/core/math/zo_fixed_point.h"

/* Fraction bits of scale_log2e. */
#define SCALE_BITS 24
/* Powers of two that are told apart below the largest one. */
#define SPAN 10

/* floor(log2(e^(s * difference))). */
static int32_t exponent_of_difference(int32_t difference, zo_logit_scale scale) {
  return (int32_t)zo_floor_shift64((int64_t)difference * (int64_t)scale.scale_log2e, SCALE_BITS);
}

/* floor(log2(x)), x > 0. */
static int32_t floor_log2(uint64_t x) {
  int32_t result = 0;
  while ((x >>= 1) != 0u) ++result;
  return result;
}

static int32_t floor_log2_loss(const int8_t* logits, uint32_t classes, int32_t label, zo_logit_scale scale) {
  const int32_t own = logits[label];
  const int32_t p = exponent_of_difference(zo_largest_logit(logits, classes) - own, scale) - SPAN;
  uint64_t sum = 0;
  for (uint32_t j = 0; j < classes; ++j) {
    const int32_t above = exponent_of_difference(logits[j] - own, scale) - p; /* at most SPAN */
    sum += UINT32_C(1) << (above > 0 ? above : 0);
  }
  return floor_log2(sum) + p;
}

zo_status zo_floor_log2_loss_s8(const int8_t* logits, uint32_t samples, uint32_t classes, zo_logit_scale scale,
                                const int32_t* labels, int32_t* losses) {
  const zo_status status = zo_check_class_loss(logits, samples, classes, scale, labels, losses);
  if (status != ZO_OK) return status;
  for (uint32_t i = 0; i < samples; ++i, logits += classes) {
    losses[i] = labels[i] < 0 ? 0 : floor_log2_loss(logits, classes, labels[i], scale) * ZO_FLOOR_LOG2_UNIT;
  }
  return ZO_OK;
}
