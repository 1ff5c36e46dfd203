// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// Costs of inference of the original model on an emulated core: instructions and arena. The
// resolver is that of the generated folder, which has all of its operators.
#include <stdio.h>

#include "counting.h"
#include "plain_model_data.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/schema/schema_generated.h"
#include "zo_op_resolver.h"

namespace {

alignas(16) uint8_t arena[1 << 20];

void Infer(void* interpreter) { static_cast<tflite::MicroInterpreter*>(interpreter)->Invoke(); }

}  // namespace

int main() {
  const auto resolver = tflm_zo::get_resolver();
  tflite::MicroInterpreter interpreter(tflite::GetModel(kPlainModel), resolver, arena, sizeof arena);
  if (interpreter.AllocateTensors() != kTfLiteOk) return 1;
  for (size_t i = 0; i < interpreter.inputs_size(); ++i) {
    const TfLiteTensor* input = interpreter.input(i);
    uint32_t state = 1;
    for (size_t j = 0; j < input->bytes; ++j) {
      state = state * 1664525u + 1013904223u;
      input->data.int8[j] = static_cast<int8_t>(state >> 24);
    }
  }
  if (interpreter.Invoke() != kTfLiteOk) return 1;
  printf("arena %lu\n", static_cast<unsigned long>(interpreter.arena_used_bytes()));
  printf("inference %lu\n", static_cast<unsigned long>(count_instructions(Infer, &interpreter, 1)));
  return 0;
}
