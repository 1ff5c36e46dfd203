/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/loss/zo_class_loss.h"

#include "ops/core/zo_features.h"

zo_status zo_check_class_loss(const int8_t* logits, uint32_t samples, uint32_t classes, zo_logit_scale scale,
                              const int32_t* labels, const void* result) {
  if (ZO_WITH_CHECKS && (logits == NULL || labels == NULL || result == NULL || samples == 0 || classes < 2 ||
                         !zo_logit_scale_is_valid(scale))) {
    return ZO_ERROR_ARGUMENT;
  }
  for (uint32_t i = 0; i < samples; ++i) {
    if (labels[i] < -1 || (labels[i] >= 0 && (uint32_t)labels[i] >= classes)) return ZO_ERROR_LABEL;
  }
  return ZO_OK;
}

int32_t zo_largest_logit(const int8_t* logits, uint32_t classes) {
  int32_t largest = logits[0];
  for (uint32_t j = 1; j < classes; ++j) largest = logits[j] > largest ? logits[j] : largest;
  return largest;
}
