/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/device/zo_self_test.h"

#include <string.h>

#include "ops/core/log/zo_crc32.h"
#include "ops/device/zo_network.h"
#include "tensorflow/lite/micro/memory_helpers.h"
#include "tensorflow/lite/micro/micro_op_resolver.h"

namespace tflm_zo {
namespace {

// Resolves operators to their own registrations with another `invoke`, which looks at the outputs
// while they are there: TFLM writes over them later.
class OperatorWatch : public tflite::MicroOpResolver {
  static const tflite::MicroOpResolver& Any();  // for its type

 public:
  OperatorWatch(const tflite::MicroOpResolver& own, zo_self_test* found) : own_(own), found_(found) {}

  const TFLMRegistration* FindOp(tflite::BuiltinOperator op) const override {
    return Watched(op, nullptr, own_.FindOp(op));
  }
  const TFLMRegistration* FindOp(const char* op) const override {
    return Watched(tflite::BuiltinOperator_CUSTOM, op, own_.FindOp(op));
  }
  // The result's type has had several names in TFLM's history.
  decltype(Any().GetOpDataParser(tflite::BuiltinOperator_ADD)) GetOpDataParser(
      tflite::BuiltinOperator op) const override {
    return own_.GetOpDataParser(op);
  }

  // From now on outputs are compared.
  void Compare() { compares_ = true; }

  // Runs the network's next operator.
  TfLiteStatus Run(TfLiteContext* context, TfLiteNode* node) {
    const OperatorInfo& next = kSelfTest.operators[next_];
    const TfLiteStatus status = own_invoke_[next.kind](context, node);
    if (compares_ && found_->layer == nullptr &&
        (status != kTfLiteOk || (next.layer != nullptr && Checksum(context, node) != next.checksum))) {
      uint32_t first = next_;
      while (first > 0 && kSelfTest.operators[first - 1].segment == next.segment) --first;
      *found_ = {next.layer, next.segment, next_ - first};
    }
    next_ = next_ + 1 == kSelfTest.count ? 0 : next_ + 1;
    return status;
  }

 private:
  // The base class has a virtual destructor, which firmware without a heap could not link.
  void operator delete(void*) {}

  static uint32_t Checksum(TfLiteContext* context, TfLiteNode* node) {
    uint32_t sum = 0;
    for (int i = 0; i < node->outputs->size; ++i) {
      // Not GetEvalOutput, whose assertions would ask for the C library's.
      const TfLiteEvalTensor* output = context->GetEvalTensor(context, node->outputs->data[i]);
      size_t bytes = 0;
      if (output == nullptr || tflite::TfLiteEvalTensorByteLength(output, &bytes) != kTfLiteOk) {
        continue;
      }
      sum = zo_crc32(sum, output->data.data, static_cast<uint32_t>(bytes));
    }
    return sum;
  }

  const TFLMRegistration* Watched(int32_t builtin, const char* custom, const TFLMRegistration* own) const;

  const tflite::MicroOpResolver& own_;
  zo_self_test* found_;
  bool compares_ = false;
  uint32_t next_ = 0;  // operator that runs next
  // Of each kind. TFLM keeps pointers to registrations.
  mutable TFLMRegistration watched_[ZO_OPERATORS] = {};
  mutable TfLiteStatus (*own_invoke_[ZO_OPERATORS])(TfLiteContext*, TfLiteNode*) = {};
};

// TFLM calls operators without saying for whom.
OperatorWatch* watch = nullptr;

const TFLMRegistration* OperatorWatch::Watched(int32_t builtin, const char* custom, const TFLMRegistration* own) const {
  if (own == nullptr) return nullptr;
  uint32_t i = 0;
  while (kSelfTest.kinds[i].builtin != builtin ||
         (custom != nullptr && strcmp(kSelfTest.kinds[i].custom, custom) != 0)) {
    if (++i == ZO_OPERATORS) return nullptr;
  }
  own_invoke_[i] = own->invoke;
  watched_[i] = *own;
  watched_[i].invoke = [](TfLiteContext* context, TfLiteNode* node) { return watch->Run(context, node); };
  return &watched_[i];
}

// Byte `at` of the noise that is input `input` of a sample.
int8_t Noise(uint32_t sample, uint32_t input, uint32_t at) {
  uint32_t x = at + 0x10001u * (sample * kMaxInputs + input);
  x = (x ^ (x >> 15)) * 0x2C1B3C6Du;
  x = (x ^ (x >> 12)) * 0x297A2D39u;
  x ^= x >> 15;
  return static_cast<int8_t>(static_cast<int32_t>(x % 256u) - 128);
}

bool ReadNoise(void* context, uint32_t sample, int8_t* const* inputs, void* label) {
  const ModelInfo& info = static_cast<const Network*>(context)->info();
  for (uint32_t i = 0; i < kMaxInputs; ++i) {
    if (inputs[i] == nullptr) continue;
    for (uint32_t j = 0; j < info.inputs[i].bytes; ++j) inputs[i][j] = Noise(sample, i, j);
  }
  if (label != nullptr) memset(label, 0, info.label_bytes);
  return true;
}

}  // namespace

zo_status Network::SelfTest(zo_self_test* found) {
  if (!is_ready_) return ZO_ERROR_ORDER;
  if (kSelfTest.count == 0) return ZO_ERROR_OPTIONS;
  const tflite::MicroOpResolver& own = *resolver_;
  const LogStore base = base_;
  const uint32_t checksum = base_checksum_;
  const uint32_t mark = base_mark_;
  OperatorWatch made(own, found);
  watch = &made;
  zo_status status = Init(made, arena_, arena_bytes_, interpreters_, directories_, boundaries_);
  if (status == ZO_OK) {
    made.Compare();
    const SampleSource source = {ReadNoise, this};
    Feed feed = {&source, nullptr, 0, ZO_BATCH - 1};
#ifdef ZO_SEQUENCE
    feed.steps = 1;
#endif
    status = Run(&feed, true, 0, false);
  }
  watch = nullptr;
  // As before, with the weights that the run begins with.
  zo_status back = Init(own, arena_, arena_bytes_, interpreters_, directories_, boundaries_);
  if (back == ZO_OK && base.read != nullptr) {
    base_ = base;
    base_checksum_ = checksum;
    base_mark_ = mark;
    back = Restore();
  }
  if (back != ZO_OK) return back;
  return status != ZO_OK || found->layer == nullptr ? status : ZO_ERROR_KERNEL;
}

}  // namespace tflm_zo
