// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// An int8 network in TFLM, in the least arena. int8_model.h has the model and its resolver.
#ifndef TFLM_ZO_BENCHMARKS_ALTERNATIVES_INT8_NETWORK_H_
#define TFLM_ZO_BENCHMARKS_ALTERNATIVES_INT8_NETWORK_H_

#include <stdint.h>
#include <string.h>

#include <new>

#include "int8_model.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/schema/schema_generated.h"

// The whole array is reserved; programs print how much of it is spare.
alignas(16) static uint8_t arena[1 << 20];
alignas(8) static uint8_t interpreter_place[sizeof(tflite::MicroInterpreter)];
static tflite::MicroInterpreter* interpreter;

static bool AllocateIn(const Resolver& resolver, uint32_t bytes) {
  interpreter = new (interpreter_place) tflite::MicroInterpreter(tflite::GetModel(kModel), resolver, arena, bytes);
  return interpreter->AllocateTensors() == kTfLiteOk;
}

// Allocates the network in the least arena. Returns the rest of the array.
static uint32_t AllocateInLeast(const Resolver& resolver) {
  uint32_t fails = kTooSmall, works = sizeof arena;  // TFLM does not check that its own objects fit
  while (works - fails > 16) {
    const uint32_t tried = (fails + works) / 32 * 16;
    (AllocateIn(resolver, tried) ? works : fails) = tried;
    interpreter->~MicroInterpreter();
  }
  AllocateIn(resolver, works);
  return static_cast<uint32_t>(sizeof arena) - works;
}

static const int8_t* Embedding(const int8_t* sample) {
  memcpy(interpreter->input(0)->data.int8, sample, interpreter->input(0)->bytes);
  interpreter->Invoke();
  return interpreter->output(0)->data.int8;
}

#endif  // TFLM_ZO_BENCHMARKS_ALTERNATIVES_INT8_NETWORK_H_
