// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// The least arena of a build, and the arena that its folder gives. The arena here is larger, so
// that a folder that gives too little is detected as well.
#include <stdio.h>

#include "zo_trainer.h"

namespace {

constexpr size_t kMore = 65536;
alignas(16) uint8_t arena[ZO_ARENA_BYTES + kMore];
alignas(8) uint8_t workspace[ZO_WORKSPACE_BYTES];
tflm_zo::Trainer trainer;

}  // namespace

int main() {
  const size_t least = trainer.LeastArenaBytes(arena, sizeof arena, workspace, sizeof workspace, tflm_zo::kSamples);
  printf("least %lu\n", static_cast<unsigned long>(least));
  printf("given %lu\n", static_cast<unsigned long>(ZO_ARENA_BYTES));
  return least == 0 ? 1 : 0;
}
