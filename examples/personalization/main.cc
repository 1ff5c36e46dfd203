// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// Learns new classes from a stream of samples, on the device, with forward passes only. It keeps a
// few of the samples in RAM and trains a little after every ten of them, together with samples of
// the old classes in flash. See README.md.
#include <stdio.h>
#include <string.h>

#include "digits_zo_samples.h"
#include "digits_zo_trainer.h"
#include "reservoir.h"

namespace {

constexpr uint32_t kSamplesPerRound = 10;
constexpr uint32_t kStepsPerRound = 30;
constexpr uint32_t kSamplesPerReport = 60;

// The run has a fixed number of samples: those in flash, and the slots of the reservoir.
static_assert(DIGITS_ZO_SAMPLES > kRehearsalCount, "generate with more samples than are rehearsed");
constexpr uint32_t kSlots = DIGITS_ZO_SAMPLES - kRehearsalCount;

alignas(16) uint8_t arena[DIGITS_ZO_ARENA_BYTES];
alignas(8) uint8_t workspace[DIGITS_ZO_WORKSPACE_BYTES];
digits_zo::Trainer trainer;
Reservoir<kSlots, kInputBytes, kClasses> reservoir;

void Copy(const int8_t* values, int32_t value, int8_t* const* inputs, void* label) {
  if (inputs[0] != nullptr) memcpy(inputs[0], values, kInputBytes);
  if (label != nullptr) memcpy(label, &value, sizeof value);
}

// The samples that a step may draw. A slot that is still empty stands for one more sample in flash,
// so there are labelled samples under all numbers from the beginning. A step reads a sample several
// times: the reservoir changes between steps only.
bool ReadTraining(void*, uint32_t sample, int8_t* const* inputs, void* label) {
  if (sample >= DIGITS_ZO_SAMPLES) return false;
  const uint32_t slot = sample - kRehearsalCount;
  if (sample >= kRehearsalCount && slot < reservoir.used()) {
    Copy(reservoir.input(slot), reservoir.label(slot), inputs, label);
  } else {
    const Sample& known = kRehearsal[sample % kRehearsalCount];
    Copy(known.input, known.label, inputs, label);
  }
  return true;
}

bool ReadHeldOut(void*, uint32_t sample, int8_t* const* inputs, void* label) {
  if (sample >= kHeldOutCount) return false;
  Copy(kHeldOut[sample].input, kHeldOut[sample].label, inputs, label);
  return true;
}

constexpr digits_zo::SampleSource kTraining = {ReadTraining, nullptr};
constexpr digits_zo::SampleSource kJudging = {ReadHeldOut, nullptr};

// Accuracy of the old classes together, then of each new one.
digits_zo_status Report(uint32_t met) {
  printf("met %lu:", static_cast<unsigned long>(met));
  uint32_t first = 0;
  for (uint32_t c = kOldClasses; c <= kClasses; ++c) {
    uint32_t end = first;
    while (end < kHeldOutCount && kHeldOut[end].label < static_cast<int32_t>(c)) ++end;
    digits_zo::Evaluation found;
    const digits_zo_status status = trainer.Evaluate(kJudging, first, end - first, &found);
    if (status != DIGITS_ZO_OK) return status;
    if (c == kOldClasses) {
      printf(" old");
    } else {
      printf(" class %lu", static_cast<unsigned long>(c - 1));
    }
    printf(" %lu of %lu", static_cast<unsigned long>(found.correct), static_cast<unsigned long>(found.samples));
    first = end;
  }
  printf("\n");
  return DIGITS_ZO_OK;
}

digits_zo_status Learn() {
  digits_zo_status status = Report(0);
  for (uint32_t met = 0; status == DIGITS_ZO_OK && met < kStreamCount;) {
    // Here a device waits for its sensor, and for a label from its user. Samples whose label is no
    // class are skipped.
    const Sample& next = kStream[met++];
    reservoir.Add(next.input, next.label);
    if (met % kSamplesPerRound != 0) continue;
    for (uint32_t i = 0; status == DIGITS_ZO_OK && i < kStepsPerRound; ++i) {
      digits_zo_report report;
      status = trainer.TrainStep(&report);
    }
    if (status == DIGITS_ZO_OK && met % kSamplesPerReport == 0) status = Report(met);
  }
  return status;
}

}  // namespace

int main() {
  digits_zo_status status = trainer.Init(arena, sizeof arena, workspace, sizeof workspace, kTraining);
  if (status == DIGITS_ZO_OK) {
    printf("%s: %lu bytes of arena, %lu of workspace, %lu of reservoir\n", DIGITS_ZO_MODEL_NAME,
           static_cast<unsigned long>(trainer.network().arena_used_bytes()),
           static_cast<unsigned long>(sizeof workspace), static_cast<unsigned long>(sizeof reservoir));
    // A kernel that computes other bytes than the desktop is told before the device learns.
    digits_zo_self_test found;
    status = trainer.SelfTest(&found);
    if (status == DIGITS_ZO_ERROR_KERNEL) printf("self-test: %s differs\n", found.layer);
  }
  if (status == DIGITS_ZO_OK) status = Learn();
  if (status != DIGITS_ZO_OK) {
    printf("failed: %s\n", digits_zo_status_text(status));
    return 1;
  }
  printf("steps %lu checksum %08lx\n", static_cast<unsigned long>(trainer.step()),
         static_cast<unsigned long>(trainer.network().checksum()));
  return 0;
}
