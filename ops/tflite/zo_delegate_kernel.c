/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/tflite/zo_delegate_kernel.h"

#include <stdlib.h>
#include <string.h>

#include "ops/core/graph/zo_op.h"
#include "ops/core/graph/zo_recurrent_op.h"
#include "ops/tflite/zo_exact_op.h"
#include "ops/tflite/zo_threads.h"

/* The opcode of an op: the zo_opcode of a weight op, or one of these. */
enum { kLossOp = 0, kStateOp = -1, kSvdfOp = -2, kLstmOp = -3 };

/* The custom ops. */
static const struct {
  const char* name;
  int opcode;
} kOps[] = {
    {ZO_CUSTOM_NAME_PREFIX "SEED_REPLAY", ZO_OP_REPLAY},
    {ZO_CUSTOM_NAME_PREFIX "UPDATE", ZO_OP_UPDATE},
    {ZO_CUSTOM_NAME_PREFIX "PERTURB", ZO_OP_PERTURB},
    {ZO_CUSTOM_NAME_PREFIX "LOSS", kLossOp},
    {ZO_CUSTOM_NAME_PREFIX "STATE", kStateOp},
    {ZO_CUSTOM_NAME_PREFIX "SVDF", kSvdfOp},
    {ZO_CUSTOM_NAME_PREFIX "LSTM", kLstmOp},
};

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
  zo_threads* threads; /* null: the caller alone */
  int32_t thread_count;
  int count;
  op_view ops[];
} kernel;

/* The context in which a zo_buffer_source finds the tensors of an op. */
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
  const bool is_ours = tensor->type == kTfLiteInt8 || tensor->type == kTfLiteInt16 || tensor->type == kTfLiteInt32;
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

bool zo_delegate_is_custom(const TfLiteRegistration* registration) {
  return registration->custom_name != NULL &&
         strncmp(registration->custom_name, ZO_CUSTOM_NAME_PREFIX, strlen(ZO_CUSTOM_NAME_PREFIX)) == 0;
}

/* Index into kOps, or -1. */
static int find_op(const char* name) {
  for (int op = 0; op < (int)(sizeof kOps / sizeof kOps[0]); ++op) {
    if (strcmp(name, kOps[op].name) == 0) return op;
  }
  return -1;
}

bool zo_delegate_knows(const TfLiteRegistration* registration) { return find_op(registration->custom_name) >= 0; }

/* Returns false for an op that is none of ours. */
static bool set_view(op_view* view, const TfLiteNode* node, const TfLiteRegistration* registration) {
  view->inputs = node->inputs;
  view->outputs = node->outputs;
  if (zo_delegate_is_custom(registration)) {
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
  zo_threads_release(self->threads);
  free(self);
}

static void* kernel_init(TfLiteContext* context, const char* buffer, size_t length) {
  (void)length;
  const TfLiteDelegateParams* params = (const TfLiteDelegateParams*)(const void*)buffer;
  const TfLiteIntArray* replaced = params->nodes_to_replace;
  kernel* self = calloc(1, sizeof(kernel) + (size_t)replaced->size * sizeof(op_view));
  if (self == NULL) return NULL;
  const zo_delegate_settings* own = (const zo_delegate_settings*)params->delegate->data_;
  self->directory = own->directory;
  self->weights = own->weights;
  self->kernels = own->kernels;
  self->threads = own->exact ? zo_threads_acquire(context->recommended_num_threads) : NULL;
  self->thread_count = self->threads != NULL ? context->recommended_num_threads : 1;
  for (int i = 0; i < replaced->size; ++i) {
    TfLiteNode* node;
    TfLiteRegistration* registration;
    if (context->GetNodeAndRegistration(context, replaced->data[i], &node, &registration) != kTfLiteOk ||
        !set_view(&self->ops[self->count], node, registration)) {
      kernel_free(context, self);
      return NULL;
    }
    ++self->count;
  }
  return self;
}

/* Frees the scratch memory, and takes it from a tensor that still has it. */
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

/* SVDF or an LSTM whose weights are trained, and into how many parts its samples are divided. */
typedef struct recurrent {
  zo_svdf_op svdf;
  zo_lstm_op lstm;
  bool is_lstm;
  int32_t samples, parts;
} recurrent;

static zo_status read_recurrent(const op_view* view, tensor_source* source, bool runs, recurrent* own) {
  own->is_lstm = view->opcode == kLstmOp;
  const zo_status status =
      own->is_lstm ? zo_lstm_op_read(view->options, view->options_length, find_buffer, source, runs, &own->lstm)
                   : zo_svdf_op_read(view->options, view->options_length, find_buffer, source, runs, &own->svdf);
  if (status == ZO_OK) own->samples = own->is_lstm ? own->lstm.layer.samples : own->svdf.samples;
  return status;
}

static void run_recurrent_part(void* context, int32_t part, int32_t thread) {
  (void)thread;
  const recurrent* own = (const recurrent*)context;
  const int32_t first = (int32_t)((int64_t)own->samples * part / own->parts);
  const int32_t count = (int32_t)((int64_t)own->samples * (part + 1) / own->parts) - first;
  if (own->is_lstm) {
    zo_lstm_run(&own->lstm.layer, &own->lstm.tensors, first, count);
  } else {
    zo_svdf_run(&own->svdf.layer, &own->svdf.tensors, first, count);
  }
}

static TfLiteStatus prepare_view(TfLiteContext* context, op_view* view, const kernel* self) {
  release_scratch(context, view);
  if (view->params != NULL) {
    const zo_node node = node_of(context, view);
    zo_exact_op_free(view->exact);
    view->exact = zo_exact_op_create(&node, self->kernels, self->thread_count);
    const bool is_ready = view->exact != NULL && prepare_scratch(context, view);
    return report(context, view, is_ready ? ZO_OK : ZO_ERROR_ARGUMENT);
  }
  tensor_source source = {context, view};
  zo_status status;
  if (view->opcode == kStateOp) {
    status = zo_state_op_check(view->options, view->options_length, find_buffer, &source);
  } else if (view->opcode < kStateOp) {
    recurrent own;
    status = read_recurrent(view, &source, false, &own);
  } else if (view->opcode == kLossOp) {
    status = zo_loss_op_check(view->options, view->options_length, find_buffer, &source);
  } else {
    status = zo_weight_op_check(view->options, view->options_length, find_buffer, &source);
  }
  const bool needs_scratch = view->opcode < kLossOp && view->outputs->size > 0;
  if (status == ZO_OK && needs_scratch && !prepare_scratch(context, view)) status = ZO_ERROR_ARGUMENT;
  return report(context, view, status);
}

static TfLiteStatus kernel_prepare(TfLiteContext* context, TfLiteNode* node) {
  kernel* self = (kernel*)node->user_data;
  if (self == NULL) return kTfLiteError;
  for (int i = 0; i < self->count; ++i) {
    if (prepare_view(context, &self->ops[i], self) != kTfLiteOk) return kTfLiteError;
  }
  return kTfLiteOk;
}

/* Runs the parts of samples, as many as there are threads at most. `context` reads their number. */
static void run_divided(const kernel* self, int32_t samples, int32_t* parts,
                        void (*run)(void* context, int32_t part, int32_t thread), void* context) {
  *parts = samples < self->thread_count ? samples : self->thread_count;
  if (*parts > 1) {
    zo_threads_run(self->threads, *parts, run, context);
  } else {
    run(context, 0, 0);
  }
}

static void lend_scratch(TfLiteContext* context, const op_view* view) {
  if (view->scratch == NULL) return; /* it was not prepared */
  TfLiteTensor* output = &context->tensors[view->scratch_of];
  if (output->data == NULL) output->data = view->scratch;
}

static zo_status run_custom(TfLiteContext* context, const op_view* view, const kernel* self) {
  tensor_source source = {context, view};
  if (view->opcode == kStateOp) {
    lend_scratch(context, view);
    return zo_state_op_run(view->options, view->options_length, find_buffer, &source);
  }
  if (view->opcode < kStateOp) {
    recurrent own;
    lend_scratch(context, view);
    const zo_status status = read_recurrent(view, &source, true, &own);
    if (status != ZO_OK) return status;
    run_divided(self, own.samples, &own.parts, run_recurrent_part, &own);
    return ZO_OK;
  }
  if (view->opcode == kLossOp) return zo_loss_op_run(view->options, view->options_length, find_buffer, &source);
  if (self->weights != NULL) {
    const zo_status status =
        zo_weight_op_borrow(view->options, view->options_length, find_buffer, &source, self->weights, lend_buffer);
    if (status != ZO_OK) return status;
  }
  return zo_weight_op_run((zo_opcode)view->opcode, view->options, view->options_length, find_buffer, &source,
                          self->directory);
}

/* Neighbouring exact ops, through which each sample goes by itself. */
typedef struct chain {
  const TfLiteContext* context;
  const op_view* ops;
  int count;
  int32_t samples, parts;
} chain;

static int32_t common_divisor(int32_t a, int32_t b) {
  while (b != 0) {
    const int32_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* One part of the samples, through all ops. */
static void run_part(void* context, int32_t part, int32_t thread) {
  const chain* self = (const chain*)context;
  const int32_t first = (int32_t)((int64_t)self->samples * part / self->parts);
  const int32_t end = (int32_t)((int64_t)self->samples * (part + 1) / self->parts);
  const zo_share share = {first, end - first, thread};
  for (int i = 0; i < self->count; ++i) {
    const zo_node node = node_of(self->context, &self->ops[i]);
    zo_exact_op_run(self->ops[i].exact, &node, share, self->samples);
  }
}

/* Takes filters and biases; without threads, also runs each op on all samples, else finds out how
 * many there are. Null, or the op that cannot be computed. */
static const op_view* begin_chain(TfLiteContext* context, bool has_threads, chain* self) {
  const zo_share all = {0, 1, 0};
  for (int i = 0; i < self->count; ++i) {
    const op_view* view = &self->ops[i];
    const zo_node node = node_of(context, view);
    if (view->exact == NULL) return view; /* it was not prepared */
    lend_scratch(context, view);
    if (!zo_exact_op_begin(view->exact, &node)) return view;
    if (has_threads) {
      self->samples = common_divisor(zo_exact_op_samples(view->exact), self->samples);
    } else {
      zo_exact_op_run(view->exact, &node, all, 1);
    }
  }
  return NULL;
}

/* The exact ops from here to the next other one. */
static TfLiteStatus run_chain(TfLiteContext* context, const kernel* self, int first, int* end) {
  chain own = {context, self->ops + first, 0, 0, 1};
  while (first + own.count < self->count && own.ops[own.count].params != NULL) ++own.count;
  *end = first + own.count;
  const op_view* bad = begin_chain(context, self->threads != NULL, &own);
  if (bad != NULL) return report(context, bad, ZO_ERROR_ARGUMENT);
  if (self->threads == NULL) return kTfLiteOk;
  run_divided(self, own.samples, &own.parts, run_part, &own);
  return kTfLiteOk;
}

static TfLiteStatus kernel_invoke(TfLiteContext* context, TfLiteNode* node) {
  const kernel* self = (const kernel*)node->user_data;
  if (self == NULL) return kTfLiteError;
  for (int i = 0; i < self->count;) {
    const op_view* view = &self->ops[i];
    TfLiteStatus status;
    if (view->params != NULL) {
      status = run_chain(context, self, i, &i);
    } else {
      status = report(context, view, run_custom(context, view, self));
      ++i;
    }
    if (status != kTfLiteOk) return status;
  }
  return kTfLiteOk;
}

TfLiteRegistration zo_delegate_kernel(void) {
  TfLiteRegistration registration;
  memset(&registration, 0, sizeof registration);
  registration.init = kernel_init;
  registration.free = kernel_free;
  registration.prepare = kernel_prepare;
  registration.invoke = kernel_invoke;
  registration.custom_name = "TflmZoDelegate";
  registration.version = 1;
  return registration;
}
