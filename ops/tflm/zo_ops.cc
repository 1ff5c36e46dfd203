/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Glue between TensorFlow Lite Micro and ops/core/graph/zo_op.h. Compiled against a TFLM checkout
 * for firmware, and against ops/abi/tflm for TFLM's Python package; TFLM is reached through its
 * kernel helpers alone, so that the layout of its structs does not matter here.
 */
#include "ops/tflm/zo_ops.h"

#include <cstddef>
#include <cstdint>

#include "ops/core/graph/zo_op.h"
#include "ops/core/graph/zo_recurrent_op.h"
#include "ops/core/zo_features.h"
#include "ops/core/zo_workers.h"
#include "tensorflow/lite/micro/kernels/kernel_util.h"
#include "tensorflow/lite/micro/micro_log.h"

namespace tflite {
namespace {

struct TensorSource {
  const TfLiteContext* context;
  const TfLiteNode* node;
};

// ZO_NO_SIZE for types that our ops' tensors do not have, and for dimensions whose product 32 bits
// do not hold: TFLM takes them as the model says, and a size that has wrapped may be a right one.
uint32_t TensorBytes(const TfLiteEvalTensor* tensor) {
#if !ZO_WITH_CHECKS
  uint32_t whole = tensor->type == kTfLiteInt8 ? 1 : tensor->type == kTfLiteInt16 ? 2 : 4;
  for (int i = 0; i < tensor->dims->size; ++i) {
    whole *= static_cast<uint32_t>(tensor->dims->data[i]);
  }
  return whole;
#else
  const bool is_16 = tensor->type == kTfLiteInt16;
  if (tensor->type != kTfLiteInt8 && !is_16 && tensor->type != kTfLiteInt32) return ZO_NO_SIZE;
  uint64_t bytes = tensor->type == kTfLiteInt8 ? 1 : is_16 ? 2 : 4;
  for (int i = 0; i < tensor->dims->size; ++i) {
    bytes *= static_cast<uint32_t>(tensor->dims->data[i]);
    if (bytes >= ZO_NO_SIZE) return ZO_NO_SIZE;
  }
  return static_cast<uint32_t>(bytes);
#endif
}

zo_buffer FindBuffer(void* context, int32_t index) {
  const TensorSource* source = static_cast<const TensorSource*>(context);
  const TfLiteNode* node = source->node;
  TfLiteEvalTensor* tensor = nullptr;
  if (index >= 0) {
    tensor = micro::GetMutableEvalInput(source->context, node, index);
  } else if (-1 - index < node->outputs->size) {
    tensor = micro::GetEvalOutput(source->context, node, -1 - index);
  }
  if (tensor == nullptr) return zo_buffer{nullptr, 0};
  return zo_buffer{micro::GetTensorData<void>(tensor), TensorBytes(tensor)};
}

const uint8_t* Options(const TfLiteNode* node) { return static_cast<const uint8_t*>(node->custom_initial_data); }

size_t OptionsLength(const TfLiteNode* node) { return static_cast<size_t>(node->custom_initial_data_size); }

TfLiteStatus Report(const char* op, zo_status status) {
  if (status == ZO_OK) return kTfLiteOk;
#ifdef TF_LITE_STRIP_ERROR_STRINGS
  (void)op;  // unused without messages, so that the linker drops them
#else
  MicroPrintf("TFLM_ZO_%s: %s", op, zo_status_text(status));
#endif
  return kTfLiteError;
}

// The op's user data is the directory of weights itself: the arena holds nothing of ours.
void* WeightInit(TfLiteContext* context, const char*, size_t) {
  zo_directory* directory = static_cast<zo_directory*>(GetMicroContext(context)->external_context());
  return directory != nullptr && directory->magic == ZO_DIRECTORY_MAGIC ? directory : nullptr;
}

TfLiteStatus WeightPrepare(TfLiteContext* context, TfLiteNode* node) {
  TensorSource source = {context, node};
  return Report("WEIGHTS", zo_weight_op_check(Options(node), OptionsLength(node), FindBuffer, &source));
}

template <zo_opcode opcode>
TfLiteStatus WeightInvoke(TfLiteContext* context, TfLiteNode* node) {
  constexpr const char* kName = opcode == ZO_OP_REPLAY ? "SEED_REPLAY" : opcode == ZO_OP_UPDATE ? "UPDATE" : "PERTURB";
  TensorSource source = {context, node};
  return Report(kName, zo_weight_op_run(opcode, Options(node), OptionsLength(node), FindBuffer, &source,
                                        static_cast<zo_directory*>(node->user_data)));
}

#if !ZO_KERNEL_SETS
TfLiteStatus WeightPublish(TfLiteContext* context, TfLiteNode* node) {
  TensorSource source = {context, node};
  return Report("WEIGHTS", zo_weight_op_publish(Options(node), OptionsLength(node), FindBuffer, &source,
                                                static_cast<zo_directory*>(node->user_data)));
}

#endif

TfLiteStatus LossPrepare(TfLiteContext* context, TfLiteNode* node) {
  TensorSource source = {context, node};
  return Report("LOSS", zo_loss_op_check(Options(node), OptionsLength(node), FindBuffer, &source));
}

TfLiteStatus LossInvoke(TfLiteContext* context, TfLiteNode* node) {
  TensorSource source = {context, node};
  return Report("LOSS", zo_loss_op_run(Options(node), OptionsLength(node), FindBuffer, &source));
}

TfLiteStatus StatePrepare(TfLiteContext* context, TfLiteNode* node) {
  TensorSource source = {context, node};
  return Report("STATE", zo_state_op_check(Options(node), OptionsLength(node), FindBuffer, &source));
}

TfLiteStatus StateInvoke(TfLiteContext* context, TfLiteNode* node) {
  TensorSource source = {context, node};
  return Report("STATE", zo_state_op_run(Options(node), OptionsLength(node), FindBuffer, &source));
}

// `runs`: in place of the check alone.
template <bool runs>
TfLiteStatus Svdf(TfLiteContext* context, TfLiteNode* node) {
  TensorSource source = {context, node};
  zo_svdf_op op;
  const zo_status status = zo_svdf_op_read(Options(node), OptionsLength(node), FindBuffer, &source, runs, &op);
  if (runs && status == ZO_OK) zo_svdf_run(&op.layer, &op.tensors, 0, op.samples);
  return Report("SVDF", status);
}

template <bool runs>
TfLiteStatus Lstm(TfLiteContext* context, TfLiteNode* node) {
  TensorSource source = {context, node};
  zo_lstm_op op;
  const zo_status status = zo_lstm_op_read(Options(node), OptionsLength(node), FindBuffer, &source, runs, &op);
  if (runs && status == ZO_OK) zo_lstm_run(&op.layer, &op.tensors, 0, op.layer.samples);
  return Report("LSTM", status);
}

}  // namespace

TFLMRegistration Register_ZO_SEED_REPLAY() {
  return micro::RegisterOp(WeightInit, WeightPrepare, WeightInvoke<ZO_OP_REPLAY>);
}

TFLMRegistration Register_ZO_UPDATE() {
  return micro::RegisterOp(WeightInit, WeightPrepare, WeightInvoke<ZO_OP_UPDATE>);
}

TFLMRegistration Register_ZO_PERTURB() {
  return micro::RegisterOp(WeightInit, WeightPrepare, WeightInvoke<ZO_OP_PERTURB>);
}

#if !ZO_KERNEL_SETS
TFLMRegistration Register_ZO_WEIGHTS() {
  return micro::RegisterOp(WeightInit, ZO_WITH_CHECKS ? WeightPrepare : nullptr, WeightPublish);
}

#endif

TFLMRegistration Register_ZO_LOSS() {
  return micro::RegisterOp(nullptr, ZO_WITH_CHECKS ? LossPrepare : nullptr, LossInvoke);
}

TFLMRegistration Register_ZO_STATE() { return micro::RegisterOp(nullptr, StatePrepare, StateInvoke); }

TFLMRegistration Register_ZO_SVDF() { return micro::RegisterOp(nullptr, Svdf<false>, Svdf<true>); }

TFLMRegistration Register_ZO_LSTM() { return micro::RegisterOp(nullptr, Lstm<false>, Lstm<true>); }

}  // namespace tflite
