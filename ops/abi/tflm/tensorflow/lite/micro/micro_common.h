/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Stand-in for TensorFlow Lite Micro's header of the same path, for building the adapter against
 * TFLM's Python package (`tflite-micro`), which ships no headers. Firmware never sees it: it puts
 * a TFLM checkout on the include path instead.
 *
 * The declarations repeat, for binary compatibility, the layout that the pinned package was built
 * with (TF_LITE_STATIC_MEMORY; TFLM sources of August 2026, Apache-2.0, The TensorFlow Authors).
 */
#ifndef TFLM_ZO_OPS_ABI_TFLM_MICRO_COMMON_H_
#define TFLM_ZO_OPS_ABI_TFLM_MICRO_COMMON_H_

#include <cstddef>
#include <cstdint>

enum TfLiteStatus { kTfLiteOk = 0, kTfLiteError = 1 };
enum TfLiteType { kTfLiteNoType = 0, kTfLiteInt32 = 2, kTfLiteInt16 = 7, kTfLiteInt8 = 9 };
enum { kTfLiteOptionalTensor = -1 };

struct TfLiteIntArray {
  int size;
  int data[1];
};

union TfLitePtrUnion {
  char* raw;
  void* data;
};

struct TfLiteEvalTensor {
  TfLitePtrUnion data;
  TfLiteIntArray* dims;
  TfLiteType type;
};

struct TfLiteNode {
  TfLiteIntArray* inputs;
  TfLiteIntArray* outputs;
  TfLiteIntArray* intermediates;
  void* user_data;
  void* builtin_data;
  const void* custom_initial_data;
  int custom_initial_data_size;
};

struct TfLiteContext {
  size_t tensors_size;
  void* GetExecutionPlan;
  void* tensors;
  void* impl_;
  void* ResizeTensor;
  void* ReportError;
  void* AddTensors;
  void* GetNodeAndRegistration;
  void* ReplaceNodeSubsetsWithDelegateKernels;
  int recommended_num_threads;
  void* GetExternalContext;
  void* SetExternalContext;
  bool allow_fp32_relax_to_fp16;
  void* profiler;
  void* AllocatePersistentBuffer;
  void* AllocateBufferForEval;
  void* RequestScratchBufferInArena;
  void* GetScratchBuffer;
  void* ResizeTensorExplicit;
  void* PreviewDelegatePartitioning;
  void* GetTensor;
  TfLiteEvalTensor* (*GetEvalTensor)(const TfLiteContext* context, int tensor_index);
};

struct TFLMRegistration {
  void* (*init)(TfLiteContext* context, const char* buffer, size_t length);
  void (*free)(TfLiteContext* context, void* buffer);
  TfLiteStatus (*prepare)(TfLiteContext* context, TfLiteNode* node);
  TfLiteStatus (*invoke)(TfLiteContext* context, TfLiteNode* node);
  void (*reset)(TfLiteContext* context, void* buffer);
  int32_t builtin_code;
  const char* custom_name;
};

#endif  // TFLM_ZO_OPS_ABI_TFLM_MICRO_COMMON_H_
