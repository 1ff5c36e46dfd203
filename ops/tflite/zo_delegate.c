/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The custom ops as an external delegate, for LiteRT, TensorFlow and tflite-runtime.
 *
 * A desktop runtime offers no way to add custom ops from a shared library, but any of them loads
 * a delegate from one. This one claims the ops whose custom name starts with TFLM_ZO_ and runs
 * them through ops/core/graph/zo_op.h.
 *
 *   interpreter = Interpreter(model, experimental_delegates=[load_delegate(library, options)])
 *
 * Samples are divided among the threads that the interpreter was asked for (`num_threads`).
 *
 * Options:
 *   directory  address of a zo_directory, decimal; filled at each invoke (optional). It
 *              must begin with ZO_DIRECTORY_MAGIC when the delegate is made: an address from text
 *              is checked before anything is written there
 *   weights    address of a zo_directory that an interpreter of the same graph has filled, decimal:
 *              this one's layers read, and its weight ops move, that one's weights. It may have
 *              another batch size; the two are not to be invoked at the same time (optional)
 *   exact      1: also computes the int8 operators of zo_exact_op.h, bit for bit as TFLM does;
 *              0, the default: leaves them alone
 *   kernels    name of the kernel set that computes them (zo_kernel_set.h); the best one of the
 *              machine if it is left out
 */
#include "ops/tflite/zo_delegate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/tflite/zo_delegate_kernel.h"
#include "ops/tflite/zo_exact_op.h"

static bool is_claimed(const zo_delegate_settings* self, const TfLiteContext* context, const TfLiteNode* node,
                       const TfLiteRegistration* registration) {
  if (zo_delegate_is_custom(registration)) return true;
  const zo_node own = {context, node->inputs, node->outputs, node->builtin_data, registration->builtin_code};
  return self->exact && zo_exact_op_supports(&own);
}

static TfLiteStatus delegate_prepare(TfLiteContext* context, TfLiteDelegate* delegate) {
  TfLiteIntArray* plan;
  if (context->GetExecutionPlan(context, &plan) != kTfLiteOk) return kTfLiteError;
  TfLiteIntArray* claimed = malloc(sizeof(TfLiteIntArray) + (size_t)plan->size * sizeof(int));
  if (claimed == NULL) return kTfLiteError;
  claimed->size = 0;

  TfLiteStatus status = kTfLiteOk;
  for (int i = 0; i < plan->size && status == kTfLiteOk; ++i) {
    TfLiteNode* node;
    TfLiteRegistration* registration;
    status = context->GetNodeAndRegistration(context, plan->data[i], &node, &registration);
    if (status != kTfLiteOk || !is_claimed((const zo_delegate_settings*)delegate->data_, context, node, registration)) {
      continue;
    }
    if (zo_delegate_is_custom(registration) && !zo_delegate_knows(registration)) {
      context->ReportError(context, "%s: not in this op pack; install a newer tflm_zo", registration->custom_name);
      status = kTfLiteError;
      continue;
    }
    claimed->data[claimed->size++] = plan->data[i];
  }

  if (status == kTfLiteOk && claimed->size > 0) {
    status = context->ReplaceNodeSubsetsWithDelegateKernels(context, zo_delegate_kernel(), claimed, delegate);
  }
  free(claimed);
  return status;
}

/* A zo_directory at the address that a text says, or null. */
static zo_directory* directory_at(const char* text) {
  if (text == NULL || *text == '\0') return NULL;
  uint64_t address = 0;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9' || address > (UINTPTR_MAX - 9u) / 10u) return NULL;
    address = 10u * address + (uint64_t)(*text - '0');
  }
  zo_directory* directory = (zo_directory*)(uintptr_t)address;
  if (address % sizeof(void*) != 0u || directory == NULL || directory->magic != ZO_DIRECTORY_MAGIC ||
      (directory->capacity > 0u && directory->entries == NULL)) {
    return NULL;
  }
  return directory;
}

/* Null if an option was taken, else its error. */
static const char* set_option(zo_delegate_settings* self, const char* key, const char* value) {
  if (key != NULL && strcmp(key, "directory") == 0) {
    self->directory = directory_at(value);
    return self->directory != NULL ? NULL : "tflm_zo delegate: directory is not the decimal address of a zo_directory";
  }
  if (key != NULL && strcmp(key, "weights") == 0) {
    self->weights = directory_at(value);
    return self->weights != NULL ? NULL : "tflm_zo delegate: weights is not the decimal address of a zo_directory";
  }
  if (key != NULL && strcmp(key, "exact") == 0) {
    if (value == NULL || (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)) {
      return "tflm_zo delegate: exact is 0 or 1";
    }
    self->exact = *value == '1';
    return NULL;
  }
  if (key != NULL && strcmp(key, "kernels") == 0) {
    self->kernels = value != NULL ? zo_kernel_set_of(value) : NULL;
    return self->kernels != NULL ? NULL
                                 : "tflm_zo delegate: kernels is not the name of a kernel set that "
                                   "this machine can run";
  }
  return "tflm_zo delegate: unknown option (known: directory, weights, exact, kernels)";
}

TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* values, size_t count,
                                              void (*report_error)(const char*)) {
  zo_delegate_settings* self = calloc(1, sizeof *self);
  if (self == NULL) return NULL;
  self->kernels = zo_kernel_set_of(NULL);
  for (size_t i = 0; i < count; ++i) {
    const char* error = set_option(self, keys[i], values[i]);
    if (error != NULL) {
      if (report_error != NULL) report_error(error);
      free(self);
      return NULL;
    }
  }
  self->delegate.data_ = self;
  self->delegate.Prepare = delegate_prepare;
  /* Without this flag the runtime prepares the graph before the delegate is applied, and stops at
   * the custom ops it cannot resolve. */
  self->delegate.flags = kTfLiteDelegateFlagsAllowDynamicTensors;
  return &self->delegate;
}

void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate) { free(delegate); }
