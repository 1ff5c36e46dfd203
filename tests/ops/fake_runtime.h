/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The part of a TensorFlow Lite runtime that an external delegate meets: a graph of nodes and of
 * tensors that a test chooses, and LiteRT's calls of a delegate, in its order. */
#ifndef TFLM_ZO_TESTS_OPS_FAKE_RUNTIME_H_
#define TFLM_ZO_TESTS_OPS_FAKE_RUNTIME_H_

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/abi/tflite_c_api.h"
#include "ops/tflite/zo_delegate.h"

enum { kFakeNodes = 8, kFakeTensors = 24, kFakeRank = 4, kFakeInputs = 24, kFakeScales = 8 };

typedef struct fake_ints {
  int size;
  int data[kFakeInputs];
} fake_ints;

typedef struct fake_runtime {
  TfLiteContext context; /* first: callbacks get its address */
  TfLiteTensor tensors[kFakeTensors];
  fake_ints dims[kFakeTensors];
  struct {
    int size;
    float data[kFakeScales];
  } scales[kFakeTensors];
  TfLiteAffineQuantization affine[kFakeTensors];
  TfLiteNode nodes[kFakeNodes];
  TfLiteRegistration registrations[kFakeNodes];
  TfLiteFullyConnectedParams fully_connected[kFakeNodes];
  union {
    TfLiteConvParams conv;
    TfLiteDepthwiseConvParams depthwise;
    TfLitePoolParams pool;
    TfLiteAddParams add;
  } params[kFakeNodes]; /* of other builtin operators */
  fake_ints inputs[kFakeNodes], outputs[kFakeNodes];
  fake_ints plan;
  /* One kernel for all nodes that are claimed. */
  TfLiteRegistration kernel;
  TfLiteNode kernel_node;
  fake_ints replaced;
  uint32_t claims; /* calls of ReplaceNodeSubsetsWithDelegateKernels */
  char error[256]; /* the last one */
} fake_runtime;

static TfLiteStatus fake_plan(TfLiteContext* context, TfLiteIntArray** plan) {
  *plan = (TfLiteIntArray*)(void*)&((fake_runtime*)(void*)context)->plan;
  return kTfLiteOk;
}

static TfLiteStatus fake_node(TfLiteContext* context, int index, TfLiteNode** node, TfLiteRegistration** registration) {
  fake_runtime* r = (fake_runtime*)(void*)context;
  if (index < 0 || index >= kFakeNodes) return kTfLiteError;
  *node = &r->nodes[index];
  *registration = &r->registrations[index];
  return kTfLiteOk;
}

static void fake_error(TfLiteContext* context, const char* message, ...) {
  fake_runtime* r = (fake_runtime*)(void*)context;
  va_list arguments;
  va_start(arguments, message);
  (void)vsnprintf(r->error, sizeof r->error, message, arguments);
  va_end(arguments);
}

static TfLiteStatus fake_replace(TfLiteContext* context, TfLiteRegistration registration, const TfLiteIntArray* nodes,
                                 TfLiteDelegate* delegate) {
  fake_runtime* r = (fake_runtime*)(void*)context;
  TfLiteDelegateParams params;
  memset(&params, 0, sizeof params);
  if (nodes->size < 1 || nodes->size > kFakeNodes) return kTfLiteError;
  ++r->claims;
  r->replaced.size = nodes->size;
  for (int i = 0; i < nodes->size; ++i) r->replaced.data[i] = nodes->data[i];
  params.delegate = delegate;
  params.nodes_to_replace = (TfLiteIntArray*)(void*)&r->replaced;
  r->kernel = registration;
  r->kernel_node.user_data = registration.init(context, (const char*)(const void*)&params, sizeof params);
  return kTfLiteOk; /* a runtime goes on to prepare even if init gave it nothing */
}

/* An empty graph. */
static void fake_begin(fake_runtime* r) {
  memset(r, 0, sizeof *r);
  r->context.tensors = r->tensors;
  r->context.GetExecutionPlan = fake_plan;
  r->context.GetNodeAndRegistration = fake_node;
  r->context.ReportError = fake_error;
  r->context.ReplaceNodeSubsetsWithDelegateKernels = fake_replace;
}

/* Adds a tensor of one scale; its memory, which may be null, is the caller's. */
static int fake_tensor(fake_runtime* r, int type, void* data, size_t bytes) {
  const int number = (int)r->context.tensors_size++;
  TfLiteTensor* t = &r->tensors[number];
  t->type = type;
  t->data = data;
  t->bytes = bytes;
  t->dims = (TfLiteIntArray*)(void*)&r->dims[number];
  t->params.scale = 0.5f;
  r->dims[number].size = 1;
  r->dims[number].data[0] = (int)bytes;
  r->scales[number].size = 1;
  r->scales[number].data[0] = 0.5f;
  r->affine[number].scale = (TfLiteFloatArray*)(void*)&r->scales[number];
  t->quantization.type = kTfLiteAffineQuantization;
  t->quantization.params = &r->affine[number];
  return number;
}

/* Adds a node; `name` is null for a FULLY_CONNECTED. */
static int fake_add(fake_runtime* r, const char* name, const void* options, int length) {
  const int number = r->plan.size++;
  TfLiteNode* n = &r->nodes[number];
  r->plan.data[number] = number;
  n->inputs = (TfLiteIntArray*)(void*)&r->inputs[number];
  n->outputs = (TfLiteIntArray*)(void*)&r->outputs[number];
  n->custom_initial_data = options;
  n->custom_initial_data_size = length;
  r->registrations[number].custom_name = name;
  r->registrations[number].builtin_code = name == NULL ? kTfLiteBuiltinFullyConnected : 32;
  if (name == NULL) n->builtin_data = &r->fully_connected[number];
  return number;
}

/* Makes a node that was added with a null name another builtin operator, whose parameters are its
 * `params`. */
static inline void fake_builtin(fake_runtime* r, int node, int code) {
  r->registrations[node].builtin_code = code;
  r->nodes[node].builtin_data = &r->params[node];
}

static void fake_input(fake_runtime* r, int node, int tensor) { r->inputs[node].data[r->inputs[node].size++] = tensor; }

static void fake_output(fake_runtime* r, int node, int tensor) {
  r->outputs[node].data[r->outputs[node].size++] = tensor;
}

/* Applies the delegate and prepares the nodes that it has claimed. */
static TfLiteStatus fake_apply(fake_runtime* r, TfLiteDelegate* delegate) {
  const TfLiteStatus status = delegate->Prepare(&r->context, delegate);
  if (status != kTfLiteOk || r->claims == 0u) return status;
  return r->kernel.prepare(&r->context, &r->kernel_node);
}

static TfLiteStatus fake_invoke(fake_runtime* r) {
  return r->claims == 0u ? kTfLiteOk : r->kernel.invoke(&r->context, &r->kernel_node);
}

static void fake_end(fake_runtime* r) {
  if (r->claims > 0u) r->kernel.free(&r->context, r->kernel_node.user_data);
}

#endif /* TFLM_ZO_TESTS_OPS_FAKE_RUNTIME_H_ */
