// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// Instructions of models of one operator each.
#include <stdio.h>

#include <new>

#include "counting.h"
#include "operator_models.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/schema/schema_generated.h"
#include "zo_op_resolver.h"

namespace {

alignas(16) uint8_t arena[1 << 20];
alignas(8) uint8_t place[sizeof(tflite::MicroInterpreter)];

void Infer(void* interpreter) { static_cast<tflite::MicroInterpreter*>(interpreter)->Invoke(); }

}  // namespace

int main() {
  const auto resolver = tflm_zo::get_resolver();
  for (const unsigned char* model : kOperatorModels) {
    auto* interpreter = new (place) tflite::MicroInterpreter(tflite::GetModel(model), resolver, arena, sizeof arena);
    if (interpreter->AllocateTensors() != kTfLiteOk) return 1;
    for (size_t i = 0; i < interpreter->inputs_size(); ++i) {
      const TfLiteTensor* input = interpreter->input(i);
      uint32_t state = 1;
      for (size_t j = 0; j < input->bytes; ++j) {
        state = state * 1664525u + 1013904223u;
        input->data.int8[j] = static_cast<int8_t>(state >> 24);
      }
    }
    if (interpreter->Invoke() != kTfLiteOk) return 1;
    printf("operator %lu\n", static_cast<unsigned long>(count_instructions(Infer, interpreter, 2)));
    interpreter->~MicroInterpreter();
  }
  return 0;
}
