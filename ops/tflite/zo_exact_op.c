/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/tflite/zo_exact_op.h"

#include <stdlib.h>

#include "ops/tflite/zo_exact_ops.h"

/* An operator's functions. `create` makes the object for `begin`, `run` and `free`. */
typedef struct operations {
  int builtin;
  const char* name;
  bool (*supports)(const zo_node* node);
  void* (*create)(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);
  int32_t (*samples)(const zo_node* node);        /* parts of equal size that depend on one another not */
  bool (*begin)(void* self, const zo_node* node); /* null: nothing to do */
  void (*run)(const void* self, const zo_node* node, zo_share share);
  void (*free)(void* self);
} operations;

struct zo_exact_op {
  const operations* operations;
  void* self;
  int32_t samples;
};

static const operations kOperations[] = {
    {kTfLiteBuiltinConv2d, "CONV_2D", zo_exact_conv_supports, zo_exact_conv_create, zo_node_samples,
     zo_exact_filters_begin, zo_exact_filters_run, zo_exact_filters_free},
    {kTfLiteBuiltinDepthwiseConv2d, "DEPTHWISE_CONV_2D", zo_exact_conv_supports, zo_exact_conv_create, zo_node_samples,
     zo_exact_filters_begin, zo_exact_filters_run, zo_exact_filters_free},
    {kTfLiteBuiltinFullyConnected, "FULLY_CONNECTED", zo_exact_fully_connected_supports,
     zo_exact_fully_connected_create, zo_exact_fully_connected_samples, zo_exact_filters_begin, zo_exact_filters_run,
     zo_exact_filters_free},
    {kTfLiteBuiltinFullyConnected, "FULLY_CONNECTED", zo_exact_dense16_supports, zo_exact_dense16_create,
     zo_exact_dense16_samples, zo_exact_dense16_begin, zo_exact_dense16_run, free},
    {kTfLiteBuiltinAdd, "ADD", zo_exact_add_supports, zo_exact_add_create, zo_node_samples, NULL, zo_exact_add_run,
     free},
    {kTfLiteBuiltinAveragePool2d, "AVERAGE_POOL_2D", zo_exact_pool_supports, zo_exact_pool_create, zo_node_samples,
     NULL, zo_exact_pool_run, zo_exact_pool_free},
    {kTfLiteBuiltinMaxPool2d, "MAX_POOL_2D", zo_exact_pool_supports, zo_exact_pool_create, zo_node_samples, NULL,
     zo_exact_pool_run, zo_exact_pool_free},
    {kTfLiteBuiltinMean, "MEAN", zo_exact_reduce_supports, zo_exact_reduce_create, zo_exact_reduce_samples, NULL,
     zo_exact_reduce_run, zo_exact_reduce_free},
    {kTfLiteBuiltinSoftmax, "SOFTMAX", zo_exact_softmax_supports, zo_exact_softmax_create, zo_exact_softmax_samples,
     NULL, zo_exact_softmax_run, free},
    {kTfLiteBuiltinSum, "SUM", zo_exact_reduce_supports, zo_exact_reduce_create, zo_exact_reduce_samples, NULL,
     zo_exact_reduce_run, zo_exact_reduce_free},
    {kTfLiteBuiltinSvdf, "SVDF", zo_exact_svdf_supports, zo_exact_svdf_create, zo_node_samples, zo_exact_svdf_begin,
     zo_exact_svdf_run, free},
    {kTfLiteBuiltinUnidirectionalSequenceLstm, "UNIDIRECTIONAL_SEQUENCE_LSTM", zo_exact_lstm_supports,
     zo_exact_lstm_create, zo_exact_lstm_samples, zo_exact_lstm_begin, zo_exact_lstm_run, free},
};

/* The operations of a node; null if none support it. */
static const operations* find(const zo_node* node) {
  for (size_t i = 0; node->params != NULL && i < sizeof kOperations / sizeof kOperations[0]; ++i) {
    if (kOperations[i].builtin == node->builtin && kOperations[i].supports(node)) return &kOperations[i];
  }
  return NULL;
}

const char* zo_exact_op_name(int builtin) {
  for (size_t i = 0; i < sizeof kOperations / sizeof kOperations[0]; ++i) {
    if (kOperations[i].builtin == builtin) return kOperations[i].name;
  }
  return "an operator";
}

bool zo_exact_op_supports(const zo_node* node) { return find(node) != NULL; }

zo_exact_op* zo_exact_op_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads) {
  const operations* own = find(node);
  zo_exact_op* op = own != NULL ? malloc(sizeof *op) : NULL;
  if (op == NULL) return NULL;
  op->operations = own;
  op->samples = op->operations->samples(node);
  op->self = op->operations->create(node, kernels, threads);
  if (op->self == NULL) {
    free(op);
    return NULL;
  }
  return op;
}

int32_t zo_exact_op_samples(const zo_exact_op* op) { return op->samples; }

bool zo_exact_op_begin(const zo_exact_op* op, const zo_node* node) {
  /* `begin` checks all inputs after input 0; ADD has two of a kind. */
  const int inputs = op->operations->run == zo_exact_add_run ? 2 : 1;
  for (int i = 0; i < inputs; ++i) {
    if (zo_tensor_at(node->context, node->inputs, i)->data == NULL) return false;
  }
  if (zo_tensor_at(node->context, node->outputs, 0)->data == NULL) return false;
  return op->operations->begin == NULL || op->operations->begin(op->self, node);
}

void zo_exact_op_run(const zo_exact_op* op, const zo_node* node, zo_share share, int32_t of) {
  const int32_t each = op->samples / of;
  const zo_share own = {share.first * each, share.count * each, share.thread};
  op->operations->run(op->self, node, own);
}

void zo_exact_op_free(zo_exact_op* op) {
  if (op == NULL) return;
  op->operations->free(op->self);
  free(op);
}
