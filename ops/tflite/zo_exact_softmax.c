/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "ops/kernels/zo_softmax.h"
#include "ops/tflite/zo_exact_ops.h"

typedef struct exact_softmax {
  zo_softmax softmax;
  int32_t depth;
} exact_softmax;

/* From a logit's distance to the largest one to the exponential's unit: TFLM's
 * PreprocessSoftmaxScaling. */
static double factor(const zo_node* node) {
  const double beta = (double)((const TfLiteSoftmaxParams*)node->params)->beta;
  const double real = beta * (double)zo_node_input(node, 0)->params.scale * (double)(1 << (31 - kZoSoftmaxBits));
  return fmin(real, (double)INT32_MAX);
}

bool zo_exact_softmax_supports(const zo_node* node) {
  const TfLiteTensor *x = zo_node_input(node, 0), *y = zo_node_output(node, 0);
  if (!zo_is_int8(x) || !zo_is_int8(y) || !zo_has_scale(x) || x->dims == NULL || x->dims->size < 1 ||
      !zo_has_rank(x, x->dims->size) || x->bytes != y->bytes || y->params.scale != 1.0f / 256.0f ||
      y->params.zero_point != INT8_MIN) {
    return false;
  }
  const double real = factor(node);
  return real > 1.0 && zo_quantize_multiplier(real).shift <= 30;
}

/* Rows of logits. */
int32_t zo_exact_softmax_samples(const zo_node* node) {
  const TfLiteTensor* x = zo_node_input(node, 0);
  return (int32_t)(x->bytes / (size_t)x->dims->data[x->dims->size - 1]);
}

void* zo_exact_softmax_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads) {
  (void)kernels;
  (void)threads;
  exact_softmax* self = malloc(sizeof *self);
  if (self == NULL) return NULL;
  const TfLiteTensor* x = zo_node_input(node, 0);
  self->depth = x->dims->data[x->dims->size - 1];
  zo_softmax_init(&self->softmax, zo_quantize_multiplier(factor(node)));
  return self;
}

void zo_exact_softmax_run(const void* self, const zo_node* node, zo_share share) {
  const exact_softmax* op = (const exact_softmax*)self;
  const ptrdiff_t at = (ptrdiff_t)share.first * op->depth;
  zo_softmax_run(&op->softmax, share.count, op->depth, (const int8_t*)zo_node_input(node, 0)->data + at,
                 (int8_t*)zo_node_output(node, 0)->data + at);
}
