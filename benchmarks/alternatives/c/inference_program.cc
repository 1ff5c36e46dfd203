// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// Costs of inference alone on an emulated core: instructions, arena, stack.
#include "counting.h"
#include "int8_network.h"
#include "measured.h"
#include "samples.h"

static void Infer(void*) { Embedding(kSamples[0]); }

int main() {
  Resolver resolver;
  AddOperators(resolver);
  print_number("spare", AllocateInLeast(resolver));
  paint_stack();
  Infer(nullptr);
  print_number("stack", painted_stack());
  print_number("predict", count_instructions(Infer, nullptr, 1));
  return 0;
}
