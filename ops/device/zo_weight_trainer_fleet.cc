/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Weight perturbation on a device of a fleet: its steps are decided elsewhere.
 */
#include <string.h>

#include "ops/core/zo_little_endian.h"
#include "ops/device/zo_weight_trainer.h"

namespace tflm_zo {

void WeightTrainer::JoinFleet(zo_fleet* fleet) {
  static const zo_fleet_trainer does = {
      [](void* trainer, zo_fleet_state* state) { *state = static_cast<WeightTrainer*>(trainer)->FleetState(); },
      [](void* trainer, uint32_t* checksum) {
        WeightTrainer* self = static_cast<WeightTrainer*>(trainer);
        const zo_status status = self->Settle();
        if (status == ZO_OK) *checksum = self->network_->checksum();
        return status;
      },
      [](void* trainer, zo_fleet_answer* answer) { return static_cast<WeightTrainer*>(trainer)->AnswerSlice(answer); },
      [](void* trainer, const uint8_t* record, uint32_t bytes) {
        return static_cast<WeightTrainer*>(trainer)->TakeRecord(record, bytes);
      },
  };
  *fleet = {};
  fleet->does = &does;
  fleet->trainer = this;
  fleet->record_bytes = zo_log_record_bytes(Settings()->queries);
}

zo_fleet_state WeightTrainer::FleetState() const {
  if (network_ == nullptr) return {};
  return {control_.step, NextChecksum()};
}

zo_status WeightTrainer::AnswerSlice(zo_fleet_answer* answer) {
  answer->samples = 0;
  if (done() || measuring_ != nullptr) return ZO_ERROR_ORDER;
  // A step as any other, of which the log hears nothing.
  zo_status status = BeginStep();
  const int64_t mean_square = control_.mean_square;
  int64_t loss = control_.total;
  zo_report report = {};
  if (status == ZO_OK) status = Invoke(&report);
  if (status != ZO_OK || report.step_done == 0) return status;
  zo_moves moves;
  status = zo_control_withdraw_moves(&control_, mean_square, &moves);
  if (status == ZO_OK) status = Move(moves);
  if (status != ZO_OK) return status;
  const zo_control_settings& settings = *Settings();
  for (uint32_t i = 0; i < network_->info().batch; ++i) loss += network_->losses()[i];
  answer->at = FleetState();
  answer->loss = loss;
  answer->queries = zo_queries_of(&settings);
  answer->samples = settings.batch * settings.parts;
  memcpy(answer->difference, control_.difference, sizeof answer->difference);
  return ZO_OK;
}

// Weights and state become those of the last complete step.
zo_status WeightTrainer::GiveUp() {
  const zo_status status = Settle();
  if (status != ZO_OK || zo_control_is_in_step(&control_) == 0) return status;
  zo_moves done;  // by Settle
  zo_control_abandon_moves(&control_, 0, &done);
  is_suspended_ = false;
  return ZO_OK;
}

// A record of a step that is over: the one that the log has, if there is a log.
zo_status WeightTrainer::TakeKnown(const uint8_t* record, uint32_t count) const {
  if (log_ == nullptr) return ZO_OK;
  uint8_t known[20 + 4 * ZO_MAX_QUERIES];
  const zo_status status = zo_store_read(log_, RecordAt(*log_, zo_read_u32(record)), known, count);
  if (status != ZO_OK) return status;
  return memcmp(known, record, count) == 0 ? ZO_OK : ZO_ERROR_LOG;
}

zo_status WeightTrainer::TakeRecord(const uint8_t* record, uint32_t count) {
  if (count != zo_log_record_bytes(Settings()->queries)) return ZO_ERROR_ARGUMENT;
  if (!is_ready_ || measuring_ != nullptr) return ZO_ERROR_ORDER;
  const uint32_t step = zo_read_u32(record);
  if (step < control_.step) return TakeKnown(record, count);
  const uint32_t before = FleetState().checksum;
  zo_log_record found;
  if (step > control_.step) return ZO_ERROR_ORDER;
  if (zo_log_read_record(record, Settings(), before, &found) != ZO_OK) return ZO_ERROR_LOG;
  zo_status status = GiveUp();
  if (status == ZO_OK) status = CatchUp();
  // Logged first: a device that loses its power now replays it.
  if (status == ZO_OK && log_ != nullptr) status = WriteRecord(record, step);
  if (status == ZO_OK) status = Replay(found);
  if (status != ZO_OK) return status;
  if (log_ == nullptr) at_ = {};
  after_ = zo_log_checksum(record, count);
  return zo_control_resume(&control_, step + 1, found.mean_square);
}

}  // namespace tflm_zo
