// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// What training takes on an emulated core: instructions of steps, arena, workspace, and RAM
// besides.
#include <stdio.h>

#include "counting.h"
#include "zo_trainer.h"

namespace {

alignas(16) uint8_t arena[ZO_ARENA_BYTES];
alignas(8) uint8_t workspace[ZO_WORKSPACE_BYTES];
tflm_zo::Trainer trainer;
zo_status status = ZO_OK;

void Step(void*) {
  zo_report report;
  if (status == ZO_OK) status = trainer.TrainStep(&report);
}

}  // namespace

int main() {
  status = trainer.Init(arena, sizeof arena, workspace, sizeof workspace, tflm_zo::kSamples);
  printf("arena %lu\n", static_cast<unsigned long>(trainer.network().arena_used_bytes()));
  constexpr size_t kInterpreters = ZO_SEGMENTS * sizeof(tflite::MicroInterpreter);
  printf("state %lu\n", static_cast<unsigned long>(sizeof trainer - kInterpreters));
  printf("workspace %lu\n", static_cast<unsigned long>(ZO_WORKSPACE_BYTES));
  Step(nullptr);  // the first has no update of a step before it
  while (status == ZO_OK && !trainer.done()) {
    printf("step %lu\n", static_cast<unsigned long>(count_instructions(Step, nullptr, 1)));
  }
  if (status != ZO_OK) printf("%s\n", zo_status_text(status));
  return status == ZO_OK ? 0 : 1;
}
