// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// A firmware that only infers with the original model: flash.py compares a training firmware with
// it. The resolver has the original model's operators alone.
#include "plain_model_data.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/schema/schema_generated.h"
#include "zo_op_resolver.h"

extern "C" volatile uint8_t sensor, actuator;
volatile uint8_t sensor, actuator;

namespace {
alignas(16) uint8_t arena[1 << 17];
}

int main() {
  const auto resolver = tflm_zo::get_resolver();
  tflite::MicroInterpreter interpreter(tflite::GetModel(kPlainModel), resolver, arena, sizeof arena);
  if (interpreter.AllocateTensors() != kTfLiteOk) return 1;
  TfLiteTensor* input = interpreter.input(0);
  for (size_t i = 0; i < input->bytes; ++i) input->data.uint8[i] = sensor;
  if (interpreter.Invoke() != kTfLiteOk) return 1;
  const TfLiteTensor* output = interpreter.output(0);
  for (size_t i = 0; i < output->bytes; ++i) actuator = output->data.uint8[i];
  return 0;
}
