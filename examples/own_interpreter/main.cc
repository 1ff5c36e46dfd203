// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// Trains under a resolver and an interpreter of the program's own, by the control unit's loop. For
// a model that perturbs weights, the program uses only operators, settings and sizes of a folder of
// `tflm-zo firmware`. See README.md.
#include <stdio.h>

#include "model_zo_trainer.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"

alignas(16) uint8_t arena[MODEL_ZO_ARENA_BYTES];

int main() {
  tflite::MicroMutableOpResolver<8> resolver;  // the program's own, and the op pack's four
  resolver.AddConv2D();
  resolver.AddMaxPool2D();
  resolver.AddReshape();
  resolver.AddFullyConnected();
  if (tflite::Add_model_zo_Ops(&resolver) != kTfLiteOk) return 1;
  const tflite::Model* model = tflite::GetModel(g_model_model_data);
  tflite::MicroInterpreter interpreter(model, resolver, arena, sizeof arena);
  if (interpreter.AllocateTensors() != kTfLiteOk) return 2;

  const model_zo::Segment& io = model_zo::kInfo.segments[0];  // numbers of inputs and outputs
  TfLiteTensor* const command = interpreter.input(io.command);
  int32_t* const words = command->data.i32;
  const uint32_t capacity = static_cast<uint32_t>(command->bytes / sizeof(int32_t));
  int8_t* const inputs[model_zo::kMaxInputs] = {interpreter.input(0)->data.int8};
  void* const label = interpreter.input(io.label)->data.data;
  const int32_t* const loss = interpreter.output(io.loss)->data.i32;
  const int32_t* const status = interpreter.output(io.status)->data.i32;

  words[0] = 0;  // no command: a plain inference, here by the model's own weights
  if (interpreter.Invoke() != kTfLiteOk) return 9;

  model_zo_control control;
  model_zo_request request;
  model_zo_report report;
  if (model_zo_control_init(&control, &model_zo::kSettings, nullptr) != MODEL_ZO_OK) return 3;
  while (model_zo_control_next(&control, words, capacity, &request) == MODEL_ZO_OK &&
         request.action == MODEL_ZO_ACTION_INVOKE) {
    const uint32_t sample = model_zo_sample_at(&model_zo::kSettings, request.first_sample);
    if (!model_zo::kSamples.read(model_zo::kSamples.context, sample, inputs, label)) return 4;
    if (interpreter.Invoke() != kTfLiteOk) return 5;
    if (model_zo_control_report(&control, loss, 1, &report) != MODEL_ZO_OK) return 6;
    if (report.step_done) printf("step %lu loss %ld\n", (unsigned long)report.step, (long)report.mean_loss);
  }
  uint32_t pending;  // the last update rides on one more invoke, which adds up a checksum
  if (model_zo_control_settle(&control, words, capacity, &pending) != MODEL_ZO_OK) return 7;
  if (interpreter.Invoke() != kTfLiteOk) return 8;
  printf("checksum %08lx\n", (unsigned long)status[3]);
  return 0;
}
