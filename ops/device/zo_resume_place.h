/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Resumes the run of the active place (zo_places.h).
 */
#ifndef TFLM_ZO_OPS_DEVICE_ZO_RESUME_PLACE_H_
#define TFLM_ZO_OPS_DEVICE_ZO_RESUME_PLACE_H_

#include "ops/core/link/zo_places.h"

namespace tflm_zo {

// Sets a trainer to the state of the active place's run: imports its weights, then its log, which then takes further
// steps. Call it after Init, and after KeepBest if the run measures. A place without a log of this run begins one.
//
//   places  the caller keeps it where it is
//
// Errors: those of ImportWeights and ImportLog. ZO_ERROR_LOG only while a place with a log is made
// active: the log is of other settings or samples than the trainer's run. The trainer is reset
// then, and does no step until Init and this succeed.
template <typename Trainer>
zo_status ResumePlace(Trainer* trainer, const zo_places& places) {
  zo_status status = ZO_OK;
  if (places.place[places.active - 1].kind == ZO_PLACE_WEIGHTS) {
    status = trainer->ImportWeights(places.weights);
  }
  if (status == ZO_OK) status = trainer->ImportLog(places.log);
  if (status == ZO_ERROR_LOG && !places.needs_log) status = ZO_OK;
  if (status == ZO_OK) status = trainer->SetLog(&places.log);
  if (status != ZO_OK) trainer->Reset();
  return status;
}

}  // namespace tflm_zo

#endif  // TFLM_ZO_OPS_DEVICE_ZO_RESUME_PLACE_H_
