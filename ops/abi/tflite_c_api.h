/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The part of TensorFlow Lite's C interface that an external delegate meets.
 *
 * The LiteRT and tflite-runtime packages ship no headers. These declarations repeat, for binary
 * compatibility, the layout of the structs of the same names in tensorflow/lite/core/c/common.h
 * and external_delegate_interface.h (Apache-2.0, The TensorFlow Authors), which has been stable
 * from tflite-runtime 2.14 to LiteRT 2.3. Only members up to the last one we use are declared,
 * except for TfLiteTensor, whose size matters because the context holds an array of them.
 */
#ifndef TFLM_ZO_OPS_ABI_TFLITE_C_API_H_
#define TFLM_ZO_OPS_ABI_TFLITE_C_API_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum TfLiteStatus { kTfLiteOk = 0, kTfLiteError = 1 } TfLiteStatus;

enum { kTfLiteOptionalTensor = -1 };

typedef struct TfLiteIntArray {
  int size;
  int data[];
} TfLiteIntArray;

typedef struct TfLiteFloatArray {
  int size;
  float data[];
} TfLiteFloatArray;

typedef enum TfLiteType { kTfLiteInt32 = 2, kTfLiteInt64 = 4, kTfLiteInt16 = 7, kTfLiteInt8 = 9 } TfLiteType;

enum {
  kTfLiteBuiltinAdd = 0,
  kTfLiteBuiltinAveragePool2d = 1,
  kTfLiteBuiltinConv2d = 3,
  kTfLiteBuiltinDepthwiseConv2d = 4,
  kTfLiteBuiltinFullyConnected = 9,
  kTfLiteBuiltinMaxPool2d = 17,
  kTfLiteBuiltinSoftmax = 25,
  kTfLiteBuiltinSvdf = 27,
  kTfLiteBuiltinMean = 40,
  kTfLiteBuiltinUnidirectionalSequenceLstm = 44,
  kTfLiteBuiltinSum = 74,
};

enum { kTfLiteMmapRo = 1 }; /* TfLiteTensor.allocation_type of a constant */

typedef struct TfLiteQuantizationParams {
  float scale;
  int32_t zero_point;
} TfLiteQuantizationParams;

typedef struct TfLiteQuantization {
  int type;
  void* params;
} TfLiteQuantization;

enum { kTfLiteAffineQuantization = 1 };

/* TfLiteQuantization.params if its type is kTfLiteAffineQuantization. */
typedef struct TfLiteAffineQuantization {
  TfLiteFloatArray* scale;
  TfLiteIntArray* zero_point;
  int32_t quantized_dimension;
} TfLiteAffineQuantization;

typedef enum TfLiteFusedActivation {
  kTfLiteActNone = 0,
  kTfLiteActRelu = 1,
  kTfLiteActReluN1To1 = 2,
  kTfLiteActRelu6 = 3,
  kTfLiteActTanh = 4,
} TfLiteFusedActivation;

typedef struct TfLiteFullyConnectedParams {
  TfLiteFusedActivation activation;
  int weights_format;
} TfLiteFullyConnectedParams;

enum { kTfLitePaddingSame = 1, kTfLitePaddingValid = 2 };

typedef struct TfLiteConvParams {
  int padding;
  int stride_width, stride_height;
  TfLiteFusedActivation activation;
  int dilation_width_factor, dilation_height_factor;
} TfLiteConvParams;

typedef struct TfLiteDepthwiseConvParams {
  int padding;
  int stride_width, stride_height;
  int depth_multiplier;
  TfLiteFusedActivation activation;
  int dilation_width_factor, dilation_height_factor;
} TfLiteDepthwiseConvParams;

typedef struct TfLitePoolParams {
  int padding;
  int stride_width, stride_height;
  int filter_width, filter_height;
  TfLiteFusedActivation activation;
} TfLitePoolParams;

typedef struct TfLiteAddParams {
  TfLiteFusedActivation activation;
} TfLiteAddParams;

typedef struct TfLiteSoftmaxParams {
  float beta;
} TfLiteSoftmaxParams;

typedef struct TfLiteSVDFParams {
  int rank;
} TfLiteSVDFParams;

/* TfLiteUnidirectionalSequenceLSTMParams. */
typedef struct TfLiteLSTMParams {
  TfLiteFusedActivation activation;
  float cell_clip, proj_clip;
  bool time_major;
} TfLiteLSTMParams;

typedef struct TfLiteTensor {
  int type;
  void* data;
  TfLiteIntArray* dims;
  TfLiteQuantizationParams params;
  int allocation_type;
  size_t bytes;
  const void* allocation;
  const char* name;
  struct TfLiteDelegate* delegate;
  int buffer_handle;
  bool data_is_stale;
  bool is_variable;
  TfLiteQuantization quantization;
  void* sparsity;
  const TfLiteIntArray* dims_signature;
} TfLiteTensor;

typedef struct TfLiteNode {
  TfLiteIntArray* inputs;
  TfLiteIntArray* outputs;
  TfLiteIntArray* intermediates;
  TfLiteIntArray* temporaries;
  void* user_data;
  void* builtin_data;
  const void* custom_initial_data;
  int custom_initial_data_size;
} TfLiteNode;

struct TfLiteContext;

typedef struct TfLiteRegistration {
  void* (*init)(struct TfLiteContext* context, const char* buffer, size_t length);
  void (*free)(struct TfLiteContext* context, void* buffer);
  TfLiteStatus (*prepare)(struct TfLiteContext* context, TfLiteNode* node);
  TfLiteStatus (*invoke)(struct TfLiteContext* context, TfLiteNode* node);
  const char* (*profiling_string)(const struct TfLiteContext* context, const TfLiteNode* node);
  int32_t builtin_code;
  const char* custom_name;
  int version;
  void* registration_external;
  void* async_kernel;
  uint64_t inplace_operator;
} TfLiteRegistration;

typedef struct TfLiteDelegateParams {
  struct TfLiteDelegate* delegate;
  TfLiteIntArray* nodes_to_replace;
  TfLiteIntArray* input_tensors;
  TfLiteIntArray* output_tensors;
} TfLiteDelegateParams;

typedef struct TfLiteContext {
  size_t tensors_size;
  TfLiteStatus (*GetExecutionPlan)(struct TfLiteContext* context, TfLiteIntArray** execution_plan);
  TfLiteTensor* tensors;
  void* impl_;
  TfLiteStatus (*ResizeTensor)(struct TfLiteContext* context, TfLiteTensor* tensor, TfLiteIntArray* new_size);
  void (*ReportError)(struct TfLiteContext* context, const char* message, ...);
  TfLiteStatus (*AddTensors)(struct TfLiteContext* context, int tensors_to_add, int* first_new_tensor_index);
  TfLiteStatus (*GetNodeAndRegistration)(struct TfLiteContext* context, int node_index, TfLiteNode** node,
                                         TfLiteRegistration** registration);
  TfLiteStatus (*ReplaceNodeSubsetsWithDelegateKernels)(struct TfLiteContext* context, TfLiteRegistration registration,
                                                        const TfLiteIntArray* nodes_to_replace,
                                                        struct TfLiteDelegate* delegate);
  int recommended_num_threads; /* number that the interpreter's owner set; below 1: the
                                  interpreter's choice */
} TfLiteContext;

typedef enum TfLiteDelegateFlags {
  kTfLiteDelegateFlagsAllowDynamicTensors = 1,
} TfLiteDelegateFlags;

typedef struct TfLiteDelegate {
  void* data_;
  TfLiteStatus (*Prepare)(TfLiteContext* context, struct TfLiteDelegate* delegate);
  void* CopyFromBufferHandle;
  void* CopyToBufferHandle;
  void* FreeBufferHandle;
  int64_t flags;
  void* opaque_delegate_builder;
} TfLiteDelegate;

#endif /* TFLM_ZO_OPS_ABI_TFLITE_C_API_H_ */
