/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/loss/zo_calibration.h"

#include <stddef.h>

uint32_t zo_calibration_room(uint32_t samples, uint32_t percentile) {
  return (uint32_t)((uint64_t)samples * (ZO_PERCENTILE_MAX - percentile) / ZO_PERCENTILE_MAX) + 1u;
}

void zo_calibration_add(zo_calibration* calibration, int32_t loss) {
  int32_t* largest = calibration->largest;
  uint32_t at = calibration->samples < calibration->room ? calibration->samples : calibration->room;
  if (calibration->samples < UINT32_MAX) calibration->samples += 1;
  if (at == calibration->room) { /* the smallest one leaves, or this one does not come in */
    if (at == 0 || largest[at - 1] >= loss) return;
    --at;
  }
  for (; at > 0 && largest[at - 1] < loss; --at) largest[at] = largest[at - 1];
  largest[at] = loss;
}

zo_status zo_calibration_threshold(const zo_calibration* calibration, uint32_t percentile, int32_t* threshold) {
  if (calibration == NULL || threshold == NULL) return ZO_ERROR_ARGUMENT;
  const uint32_t samples = calibration->samples;
  if (samples == 0 || percentile == 0 || percentile > ZO_PERCENTILE_MAX) return ZO_ERROR_ARGUMENT;
  const uint32_t needed = zo_calibration_room(samples, percentile);
  if (needed > calibration->room) return ZO_ERROR_MEMORY;
  *threshold = calibration->largest[needed - 1];
  return ZO_OK;
}
