// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs a ZO model under TensorFlow Lite Micro, built from a checkout, on the host or on an
// emulated Cortex-M: feeds a recorded run (inputs, labels, commands; case_data.h) and prints, for
// each invoke, the losses and the status. The test compares them with the desktop's.

#include <cstdio>
#include <cstring>

#include "case_data.h"
#include "ops/core/graph/zo_op.h"
#include "ops/tflm/zo_ops.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"

namespace {

alignas(16) uint8_t arena[kArenaBytes];
zo_directory_entry entries[8];

int Run() {
  tflite::MicroMutableOpResolver<16> resolver;
  resolver.AddConv2D();
  resolver.AddDepthwiseConv2D();
  resolver.AddFullyConnected();
  resolver.AddMaxPool2D();
  resolver.AddAveragePool2D();
  resolver.AddReshape();
  resolver.AddAdd();
  resolver.AddSoftmax();
  if (tflite::AddZoOps(&resolver) != kTfLiteOk) return 1;

  tflite::MicroInterpreter interpreter(tflite::GetModel(kModel), resolver, arena, sizeof arena);
  zo_directory directory = {ZO_DIRECTORY_MAGIC, sizeof entries / sizeof entries[0], 0, entries, nullptr};
  if (interpreter.SetMicroExternalContext(&directory) != kTfLiteOk) return 2;
  if (interpreter.AllocateTensors() != kTfLiteOk) return 3;
  std::printf("arena %u\n", static_cast<unsigned>(interpreter.arena_used_bytes()));

  for (int i = 0; i < kInvokes; ++i) {
    // TFLM reuses the memory of inputs, so each of them is set before each invoke.
    std::memcpy(interpreter.input(0)->data.int8, kInput, sizeof kInput);
    std::memcpy(interpreter.input(1)->data.i32, kLabels, sizeof kLabels);
    std::memcpy(interpreter.input(2)->data.i32, kCommands[i], sizeof kCommands[i]);
    if (interpreter.Invoke() != kTfLiteOk) return 4;
    std::printf("invoke");
    for (int b = 0; b < kBatch; ++b) {
      std::printf(" %ld", static_cast<long>(interpreter.output(1)->data.i32[b]));
    }
    const int32_t* status = interpreter.output(2)->data.i32;
    std::printf(" | %ld %ld %lu\n", static_cast<long>(status[1]), static_cast<long>(status[2]),
                static_cast<unsigned long>(static_cast<uint32_t>(status[3])));
  }
  std::printf("directory %u\n", static_cast<unsigned>(directory.count));

  // A command that the model does not allow: an error, and not one weight changes.
  const uint32_t before = entries[0].size > 0 ? static_cast<uint8_t>(entries[0].weights[0]) : 0;
  int32_t* command = interpreter.input(2)->data.i32;
  std::memcpy(interpreter.input(0)->data.int8, kInput, sizeof kInput);
  std::memcpy(command, kCommands[0], sizeof kCommands[0]);
  command[2] = 0x7F000000;
  const bool refused = interpreter.Invoke() != kTfLiteOk;
  const bool untouched = static_cast<uint8_t>(entries[0].weights[0]) == before;
  std::printf("refused %d untouched %d\n", refused, untouched);
  return 0;
}

}  // namespace

int main() {
  const int status = Run();
  std::printf("exit %d\n", status);
  return status;
}
