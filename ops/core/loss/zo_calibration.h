/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The threshold above which the loss of a sample is an anomaly: an exact percentile of the losses of normal samples,
 * in memory of the caller.
 *
 * The percentile p of n losses is the k-th largest, k = floor((1 - p) n) + 1, so k values are enough. At most
 * the share 1 - p of the losses exceeds it.
 */
#ifndef TFLM_ZO_OPS_CORE_LOSS_ZO_CALIBRATION_H_
#define TFLM_ZO_OPS_CORE_LOSS_ZO_CALIBRATION_H_

#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZO_PERCENTILE_MAX UINT32_C(10000) /* the percentile 100; the unit is 0.01 */

typedef struct zo_calibration {
  int32_t* largest; /* [room], of the losses so far, the largest first */
  uint32_t room;
  uint32_t samples; /* so far; to begin with 0 */
} zo_calibration;

/* k, the room that a percentile, 1 to ZO_PERCENTILE_MAX, of so many samples needs. */
uint32_t zo_calibration_room(uint32_t samples, uint32_t percentile);

/* Adds the loss of a normal sample. */
void zo_calibration_add(zo_calibration* calibration, int32_t loss);

/* threshold: a sample with a larger loss is an anomaly
 * Errors: ZO_ERROR_ARGUMENT: no samples, or no such percentile; ZO_ERROR_MEMORY: too little room. */
zo_status zo_calibration_threshold(const zo_calibration* calibration, uint32_t percentile, int32_t* threshold);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_LOSS_ZO_CALIBRATION_H_ */
