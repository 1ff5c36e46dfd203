// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// Costs of training on an emulated core: instructions of steps, arena, workspace, stack, and
// further RAM.
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

// The stack that steps take: as far down as they have written over a pattern.
constexpr uint32_t kPainted = 16384;

volatile uint8_t* Below() { return static_cast<volatile uint8_t*>(__builtin_frame_address(0)) - kPainted; }

__attribute__((noinline)) void Paint() {
  constexpr uint32_t kOwn = 128;  // of this function
  for (uint32_t i = 0; i < kPainted - kOwn; ++i) Below()[i] = 0xA5;
}

__attribute__((noinline)) uint32_t Painted() {
  uint32_t left = 0;
  while (left < kPainted && Below()[left] == 0xA5) ++left;
  return kPainted - left;
}

}  // namespace

int main() {
  status = trainer.Init(arena, sizeof arena, workspace, sizeof workspace, tflm_zo::kSamples);
  printf("arena %lu\n", static_cast<unsigned long>(trainer.network().arena_used_bytes()));
  constexpr size_t kInterpreters = ZO_SEGMENTS * sizeof(tflite::MicroInterpreter);
  printf("state %lu\n", static_cast<unsigned long>(sizeof trainer - kInterpreters));
  printf("workspace %lu\n", static_cast<unsigned long>(ZO_WORKSPACE_BYTES));
  // The first step has no update of a step before it.
  Paint();
  Step(nullptr);
  Step(nullptr);
  printf("stack %lu\n", static_cast<unsigned long>(Painted()));
  while (status == ZO_OK && !trainer.done()) {
    printf("step %lu\n", static_cast<unsigned long>(count_instructions(Step, nullptr, 1)));
  }
  if (status != ZO_OK) printf("%s\n", zo_status_text(status));
  return status == ZO_OK ? 0 : 1;
}
