// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// A firmware that trains, and does the work of the generated example and of a product: steps with a
// log, predictions, an evaluation, and the export of the weights. flash.py measures it.
#include "zo_trainer.h"

extern "C" volatile uint8_t sensor, actuator;
volatile uint8_t sensor, actuator;

namespace {

alignas(16) uint8_t arena[ZO_ARENA_BYTES];
alignas(8) uint8_t workspace[ZO_WORKSPACE_BYTES];
int8_t sample[1 << 14];
tflm_zo::Trainer trainer;

bool Read(void*, uint32_t, int8_t* const* inputs, void* label) {
  if (inputs[0] != nullptr) inputs[0][0] = static_cast<int8_t>(sensor);
  if (label != nullptr) *static_cast<int32_t*>(label) = sensor;
  return true;
}

bool Write(void*, uint32_t, const uint8_t* bytes, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) actuator = bytes[i];
  return true;
}

int32_t ReadBack(void*, uint32_t, uint8_t*, uint32_t) { return 0; }

bool Send(void*, uint32_t, const int8_t* weights, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) actuator = static_cast<uint8_t>(weights[i]);
  return true;
}

constexpr tflm_zo::SampleSource kSource = {Read, nullptr};
constexpr tflm_zo::LogStore kLog = {Write, ReadBack, nullptr, nullptr, 1, UINT32_MAX};
constexpr tflm_zo::WeightSink kSink = {Send, nullptr};

}  // namespace

int main() {
  zo_status status = trainer.Init(arena, sizeof arena, workspace, sizeof workspace, kSource);
  trainer.SetLog(&kLog);
  while (status == ZO_OK && !trainer.done()) {
    zo_report report;
    status = trainer.TrainStep(&report);
  }
  tflm_zo::Evaluation found;
  if (status == ZO_OK) status = trainer.Evaluate(kSource, 0, 10, &found);
  const int8_t* inputs[] = {sample};
  if (status == ZO_OK) status = trainer.Predict(inputs, sample);
  if (status == ZO_OK) status = trainer.ExportLog(kLog);
  if (status == ZO_OK) status = trainer.ExportWeights(kSink);
  actuator = static_cast<uint8_t>(trainer.network().checksum() + found.correct);
#ifdef RESUMES
  if (status == ZO_OK) status = trainer.ImportLog(kLog);
#endif
  return status == ZO_OK ? 0 : 1;
}
