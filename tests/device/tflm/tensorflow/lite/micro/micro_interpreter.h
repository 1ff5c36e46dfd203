/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for the part of TFLM that ops/device uses, for tests without a checkout. tflite::host
 * runs the segments. It has TFLM's pitfalls, too: all interpreters of an allocator have their
 * inputs and outputs in the same memory of the arena, and after an invoke only the tensors that
 * TFLM's planner keeps are there: the outputs of the segment, and the inputs that its last operator
 * reads. All other activations of the segment are overwritten.
 */
#ifndef TFLM_ZO_TESTS_DEVICE_MICRO_INTERPRETER_H_
#define TFLM_ZO_TESTS_DEVICE_MICRO_INTERPRETER_H_

#include <stddef.h>
#include <stdint.h>

#include "tensorflow/lite/micro/micro_allocator.h"
#include "tensorflow/lite/micro/micro_common.h"
#include "tensorflow/lite/micro/micro_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"

struct TfLiteTensor {
  union {
    void* raw;
    int8_t* int8;
    uint8_t* uint8;
    int32_t* i32;
  } data;
  size_t bytes;
};

namespace tflite {

constexpr uint32_t kMaxTensors = 16;  // inputs of a segment, and outputs

// Bytes of the inputs and outputs of a segment.
struct HostSegment {
  uint32_t inputs;
  uint32_t outputs;
  uint32_t input_bytes[kMaxTensors];
  uint32_t output_bytes[kMaxTensors];
  uint32_t is_read_last[kMaxTensors];  // whether its last operator reads the input
  uint32_t activations;                // bytes of the arena's beginning that its activations take
};

// The runner of the segments. Both functions return 0 if they fail.
struct Host {
  // A model is allocated, its variables are zero. `directory` is the external context.
  int (*open)(const void* model, void* directory, HostSegment* segment);
  // `outputs` are the host's to write.
  int (*invoke)(const void* model, void* const* inputs, void* const* outputs);
};
extern Host host;

class MicroInterpreter {
 public:
  MicroInterpreter(const Model* model, const MicroOpResolver&, MicroAllocator* allocator)
      : model_(model), allocator_(allocator) {}

  TfLiteStatus SetMicroExternalContext(void* context) {
    context_ = context;
    return kTfLiteOk;
  }
  TfLiteStatus AllocateTensors();
  TfLiteStatus Invoke();
  TfLiteTensor* input(size_t index) { return &inputs_[index]; }
  TfLiteTensor* output(size_t index) { return &outputs_[index]; }
  size_t arena_used_bytes() const { return allocator_->used_bytes(); }

 private:
  const Model* model_;
  MicroAllocator* allocator_;
  void* context_ = nullptr;
  HostSegment segment_ = {};
  size_t activation_bytes_ = 0;
  TfLiteTensor inputs_[kMaxTensors] = {};
  TfLiteTensor outputs_[kMaxTensors] = {};
};

}  // namespace tflite

#endif  // TFLM_ZO_TESTS_DEVICE_MICRO_INTERPRETER_H_
