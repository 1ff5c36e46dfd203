/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Stand-in for TensorFlow Lite Micro's header of the same path; see ../micro_common.h.
 */
#ifndef TFLM_ZO_OPS_ABI_TFLM_KERNEL_UTIL_H_
#define TFLM_ZO_OPS_ABI_TFLM_KERNEL_UTIL_H_

#include "tensorflow/lite/micro/micro_common.h"

// The directory that interpreters created by this thread publish their weights in. TFLM's Python
// package has no call for SetMicroExternalContext, which is where firmware hands it over.
extern "C" void* zo_tflm_external_context(void);

namespace tflite {

class MicroContext {
 public:
  void* external_context() { return zo_tflm_external_context(); }
};

// No member of the real MicroContext is reached, so any object will do.
inline MicroContext* GetMicroContext(const TfLiteContext*) {
  static MicroContext context;
  return &context;
}

namespace micro {

inline TfLiteEvalTensor* GetMutableEvalInput(const TfLiteContext* context, const TfLiteNode* node, int index) {
  if (index < 0 || index >= node->inputs->size) return nullptr;
  const int tensor = node->inputs->data[index];
  return tensor == kTfLiteOptionalTensor ? nullptr : context->GetEvalTensor(context, tensor);
}

inline TfLiteEvalTensor* GetEvalOutput(const TfLiteContext* context, const TfLiteNode* node, int index) {
  return context->GetEvalTensor(context, node->outputs->data[index]);
}

template <typename T>
T* GetTensorData(TfLiteEvalTensor* tensor) {
  return reinterpret_cast<T*>(tensor->data.raw);
}

inline TFLMRegistration RegisterOp(void* (*init)(TfLiteContext* context, const char* buffer, size_t length),
                                   TfLiteStatus (*prepare)(TfLiteContext* context, TfLiteNode* node),
                                   TfLiteStatus (*invoke)(TfLiteContext* context, TfLiteNode* node)) {
  return {init, nullptr, prepare, invoke, nullptr, 0, nullptr};
}

}  // namespace micro
}  // namespace tflite

#endif  // TFLM_ZO_OPS_ABI_TFLM_KERNEL_UTIL_H_
