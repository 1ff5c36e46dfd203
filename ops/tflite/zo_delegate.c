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
 * Options:
 *   directory  address of a zo_directory, decimal; filled at each invoke (optional). What lies
 *              there must begin with ZO_DIRECTORY_MAGIC when the delegate is made: an address that
 *              has gone through text is checked before it is written through
 *   weights    address of a zo_directory that an interpreter of the same graph has filled, decimal:
 *              this one's layers read that one's weights, and its weight ops move none. It may have
 *              another batch size, and run on another core while no weight moves (optional)
 *   exact      1: also computes the int8 operators of zo_exact_op.h, bit for bit as TFLM does;
 *              0, the default: leaves them alone
 *   kernels    name of the kernel set that computes them (zo_kernel_set.h); the best one of the
 *              machine if it is left out
 */
#include "ops/tflite/zo_delegate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/abi/tflite_c_api.h"
#include "ops/core/graph/zo_op.h"
#include "ops/tflite/zo_exact_op.h"

#define CUSTOM_NAME_PREFIX "TFLM_ZO_"

/* What an op is: the zo_opcode of a weight op, or one of these. */
enum { kLossOp = 0, kInt16Op = -1 };

/* The custom ops. */
static const struct {
  const char* name;
  int opcode;
} kOps[] = {
    {CUSTOM_NAME_PREFIX "SEED_REPLAY", ZO_OP_REPLAY},
    {CUSTOM_NAME_PREFIX "UPDATE", ZO_OP_UPDATE},
    {CUSTOM_NAME_PREFIX "PERTURB", ZO_OP_PERTURB},
    {CUSTOM_NAME_PREFIX "LOSS", kLossOp},
    {CUSTOM_NAME_PREFIX "FULLY_CONNECTED_16", kInt16Op},
};

/* Settings of a delegate: its data_. */
typedef struct settings {
  TfLiteDelegate delegate; /* first, so that freeing it frees the settings */
  zo_directory* directory;
  const zo_directory* weights;
  bool exact;
  const zo_kernel_set* kernels;
} settings;

/* One op of the graph that a delegate kernel stands for. */
typedef struct op_view {
  const char* name;
  int opcode;
  const uint8_t* options;
  size_t options_length;
  const TfLiteIntArray* inputs;
  const TfLiteIntArray* outputs;
  int builtin;
  const void* params; /* null for a custom op */
  zo_exact_op* exact; /* made by prepare */
  /* Output memory of layers for where the runtime allocates none: a tensor that only ops of the
   * same delegate kernel read is that kernel's own business. */
  void* scratch;
  int scratch_of; /* the tensor that it is for */
} op_view;

typedef struct kernel {
  zo_directory* directory;
  const zo_directory* weights; /* of another interpreter, or null */
  const zo_kernel_set* kernels;
  int count;
  op_view ops[];
} kernel;

/* What a zo_buffer_source needs to find the tensors of an op. */
typedef struct tensor_source {
  const TfLiteContext* context;
  const op_view* op;
} tensor_source;

static zo_buffer find_buffer(void* context, int32_t index) {
  const tensor_source* source = (const tensor_source*)context;
  const TfLiteIntArray* list = index >= 0 ? source->op->inputs : source->op->outputs;
  const int32_t at = index >= 0 ? index : -1 - index;
  zo_buffer buffer = {NULL, 0};
  if (list == NULL || at >= list->size) return buffer;
  const int number = list->data[at];
  if (number < 0 || (size_t)number >= source->context->tensors_size) return buffer;
  const TfLiteTensor* tensor = &source->context->tensors[number];
  /* Others fit nothing, as under TFLM. */
  const bool is_ours = tensor->type == kTfLiteInt8 || tensor->type == kTfLiteInt32;
  buffer.data = tensor->data;
  buffer.bytes = is_ours && tensor->bytes < ZO_NO_SIZE ? (uint32_t)tensor->bytes : ZO_NO_SIZE;
  return buffer;
}

static void lend_buffer(void* context, int32_t index, void* data) {
  const tensor_source* source = (const tensor_source*)context;
  source->context->tensors[source->op->inputs->data[index]].data = data;
}

static TfLiteStatus report(TfLiteContext* context, const op_view* op, zo_status status) {
  if (status == ZO_OK) return kTfLiteOk;
  context->ReportError(context, "%s: %s", op->name, zo_status_text(status));
  return kTfLiteError;
}

static bool is_custom(const TfLiteRegistration* registration) {
  return registration->custom_name != NULL &&
         strncmp(registration->custom_name, CUSTOM_NAME_PREFIX, strlen(CUSTOM_NAME_PREFIX)) == 0;
}

/* Index into kOps, or -1. */
static int find_op(const char* name) {
  for (int op = 0; op < (int)(sizeof kOps / sizeof kOps[0]); ++op) {
    if (strcmp(name, kOps[op].name) == 0) return op;
  }
  return -1;
}

/* Returns false for an op that is none of ours. */
static bool set_view(op_view* view, const TfLiteNode* node,
                     const TfLiteRegistration* registration) {
  view->inputs = node->inputs;
  view->outputs = node->outputs;
  if (is_custom(registration)) {
    const int op = find_op(registration->custom_name);
    if (op < 0) return false;
    const int length = node->custom_initial_data_size;
    view->name = kOps[op].name;
    view->opcode = kOps[op].opcode;
    view->options = (const uint8_t*)node->custom_initial_data;
    view->options_length = length > 0 ? (size_t)length : 0u;
  } else {
    view->name = zo_exact_op_name(registration->builtin_code);
    view->builtin = registration->builtin_code;
    view->params = node->builtin_data;
  }
  return true;
}

static void kernel_free(TfLiteContext* context, void* buffer) {
  (void)context;
  kernel* self = (kernel*)buffer;
  if (self == NULL) return;
  for (int i = 0; i < self->count; ++i) {
    zo_exact_op_free(self->ops[i].exact);
    free(self->ops[i].scratch);
  }
  free(self);
}

static void* kernel_init(TfLiteContext* context, const char* buffer, size_t length) {
  (void)length;
  const TfLiteDelegateParams* params = (const TfLiteDelegateParams*)(const void*)buffer;
  const TfLiteIntArray* replaced = params->nodes_to_replace;
  kernel* self = calloc(1, sizeof(kernel) + (size_t)replaced->size * sizeof(op_view));
  if (self == NULL) return NULL;
  const settings* own = (const settings*)params->delegate->data_;
  self->directory = own->directory;
  self->weights = own->weights;
  self->kernels = own->kernels;
  for (int i = 0; i < replaced->size; ++i) {
    TfLiteNode* node;
    TfLiteRegistration* registration;
    if (context->GetNodeAndRegistration(context, replaced->data[i], &node, &registration) !=
            kTfLiteOk ||
        !set_view(&self->ops[self->count], node, registration)) {
      kernel_free(context, self);
      return NULL;
    }
    ++self->count;
  }
  return self;
}

/* Takes back what the tensor that it was lent to still holds. */
static void release_scratch(TfLiteContext* context, op_view* view) {
  if (view->scratch != NULL && context->tensors[view->scratch_of].data == view->scratch) {
    context->tensors[view->scratch_of].data = NULL;
  }
  free(view->scratch);
  view->scratch = NULL;
}

static bool prepare_scratch(const TfLiteContext* context, op_view* view) {
  view->scratch_of = view->outputs->data[0];
  view->scratch = malloc(context->tensors[view->scratch_of].bytes);
  return view->scratch != NULL;
}

static zo_node node_of(const TfLiteContext* context, const op_view* view) {
  const zo_node node = {context, view->inputs, view->outputs, view->params, view->builtin};
  return node;
}

static TfLiteStatus prepare_view(TfLiteContext* context, op_view* view,
                                 const zo_kernel_set* kernels) {
  release_scratch(context, view);
  if (view->params != NULL) {
    const zo_node node = node_of(context, view);
    zo_exact_op_free(view->exact);
    view->exact = zo_exact_op_create(&node, kernels);
    const bool is_ready = view->exact != NULL && prepare_scratch(context, view);
    return report(context, view, is_ready ? ZO_OK : ZO_ERROR_ARGUMENT);
  }
  tensor_source source = {context, view};
  zo_status status;
  if (view->opcode == kInt16Op) {
    status = zo_int16_op_check(view->options, view->options_length, find_buffer, &source);
    if (status == ZO_OK && !prepare_scratch(context, view)) status = ZO_ERROR_ARGUMENT;
  } else if (view->opcode == kLossOp) {
    status = zo_loss_op_check(view->options, view->options_length, find_buffer, &source);
  } else {
    status = zo_weight_op_check(view->options, view->options_length, find_buffer, &source);
  }
  return report(context, view, status);
}

static TfLiteStatus kernel_prepare(TfLiteContext* context, TfLiteNode* node) {
  kernel* self = (kernel*)node->user_data;
  if (self == NULL) return kTfLiteError;
  for (int i = 0; i < self->count; ++i) {
    if (prepare_view(context, &self->ops[i], self->kernels) != kTfLiteOk) return kTfLiteError;
  }
  return kTfLiteOk;
}

static void lend_scratch(TfLiteContext* context, const op_view* view) {
  if (view->scratch == NULL) return; /* it was not prepared */
  TfLiteTensor* output = &context->tensors[view->scratch_of];
  if (output->data == NULL) output->data = view->scratch;
}

static zo_status run_exact(TfLiteContext* context, const op_view* view) {
  if (view->exact == NULL) return ZO_ERROR_ARGUMENT; /* it was not prepared */
  const zo_node node = node_of(context, view);
  lend_scratch(context, view);
  return zo_exact_op_run(view->exact, &node) ? ZO_OK : ZO_ERROR_ARGUMENT;
}

static zo_status run_custom(TfLiteContext* context, const op_view* view, const kernel* self) {
  tensor_source source = {context, view};
  if (view->opcode == kInt16Op) {
    lend_scratch(context, view);
    return zo_int16_op_run(view->options, view->options_length, find_buffer, &source);
  }
  if (view->opcode == kLossOp)
    return zo_loss_op_run(view->options, view->options_length, find_buffer, &source);
  return self->weights != NULL
             ? zo_weight_op_borrow(view->options, view->options_length, find_buffer, &source,
                                   self->weights, lend_buffer)
             : zo_weight_op_run((zo_opcode)view->opcode, view->options, view->options_length,
                                find_buffer, &source, self->directory);
}

static TfLiteStatus kernel_invoke(TfLiteContext* context, TfLiteNode* node) {
  const kernel* self = (const kernel*)node->user_data;
  if (self == NULL) return kTfLiteError;
  for (int i = 0; i < self->count; ++i) {
    const op_view* view = &self->ops[i];
    const zo_status status =
        view->params != NULL ? run_exact(context, view) : run_custom(context, view, self);
    if (status != ZO_OK) return report(context, view, status);
  }
  return kTfLiteOk;
}

static bool is_claimed(const settings* self, const TfLiteContext* context, const TfLiteNode* node,
                       const TfLiteRegistration* registration) {
  if (is_custom(registration)) return true;
  const zo_node own = {context, node->inputs, node->outputs, node->builtin_data,
                       registration->builtin_code};
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
    if (status != kTfLiteOk ||
        !is_claimed((const settings*)delegate->data_, context, node, registration)) {
      continue;
    }
    if (is_custom(registration) && find_op(registration->custom_name) < 0) {
      context->ReportError(context, "%s: not in this op pack; install a newer tflm_zo",
                           registration->custom_name);
      status = kTfLiteError;
      continue;
    }
    claimed->data[claimed->size++] = plan->data[i];
  }

  if (status == kTfLiteOk && claimed->size > 0) {
    TfLiteRegistration registration;
    memset(&registration, 0, sizeof registration);
    registration.init = kernel_init;
    registration.free = kernel_free;
    registration.prepare = kernel_prepare;
    registration.invoke = kernel_invoke;
    registration.custom_name = "TflmZoDelegate";
    registration.version = 1;
    status =
        context->ReplaceNodeSubsetsWithDelegateKernels(context, registration, claimed, delegate);
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
  if (address % sizeof(void*) != 0u || directory == NULL ||
      directory->magic != ZO_DIRECTORY_MAGIC ||
      (directory->capacity > 0u && directory->entries == NULL)) {
    return NULL;
  }
  return directory;
}

/* Null where an option was taken, else what is wrong with it. */
static const char* set_option(settings* self, const char* key, const char* value) {
  if (key != NULL && strcmp(key, "directory") == 0) {
    self->directory = directory_at(value);
    return self->directory != NULL
               ? NULL
               : "tflm_zo delegate: directory is not the decimal address of a zo_directory";
  }
  if (key != NULL && strcmp(key, "weights") == 0) {
    self->weights = directory_at(value);
    return self->weights != NULL
               ? NULL
               : "tflm_zo delegate: weights is not the decimal address of a zo_directory";
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

TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* values,
                                              size_t count, void (*report_error)(const char*)) {
  settings* self = calloc(1, sizeof *self);
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
