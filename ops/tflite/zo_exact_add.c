/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "ops/tflite/zo_exact_ops.h"

typedef struct exact_add {
  zo_add_function* run;
  zo_add add;
} exact_add;

static bool same_shape(const TfLiteTensor* a, const TfLiteTensor* b) {
  if (a->dims == NULL || b->dims == NULL || a->dims->size != b->dims->size) return false;
  for (int i = 0; i < a->dims->size; ++i) {
    if (a->dims->data[i] != b->dims->data[i]) return false;
  }
  return a->bytes == b->bytes;
}

/* Factors from inputs to the common unit, and from that to the output: TFLM's AddPrepare. */
static void factors(const zo_node* node, double inputs[2], double* output) {
  const float a = zo_node_input(node, 0)->params.scale, b = zo_node_input(node, 1)->params.scale;
  const double unit = 2 * (double)(a > b ? a : b);
  inputs[0] = (double)a / unit;
  inputs[1] = (double)b / unit;
  *output = unit / ((double)(1 << 20) * (double)zo_node_output(node, 0)->params.scale);
}

/* A factor below 1 even once it is rounded. */
static bool is_fraction(double real) {
  return isfinite(real) && real >= 0.0 && zo_quantize_multiplier(real < 2.0 ? real : 2.0).shift <= 0;
}

bool zo_exact_add_supports(const zo_node* node) {
  const TfLiteTensor *a = zo_node_input(node, 0), *b = zo_node_input(node, 1);
  const TfLiteTensor* output = zo_node_output(node, 0);
  const TfLiteAddParams* params = (const TfLiteAddParams*)node->params;
  if (!zo_is_int8(a) || !zo_is_int8(b) || !zo_is_int8(output) || !zo_has_scale(a) || !zo_has_scale(b) ||
      !zo_has_scale(output) || !same_shape(a, b) || !same_shape(a, output) || !zo_is_clamp(params->activation)) {
    return false;
  }
  double inputs[2], real;
  factors(node, inputs, &real);
  return is_fraction(inputs[0]) && is_fraction(inputs[1]) && is_fraction(real);
}

void* zo_exact_add_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads) {
  (void)threads;
  exact_add* self = calloc(1, sizeof *self);
  if (self == NULL) return NULL;
  const TfLiteTensor* output = zo_node_output(node, 0);
  zo_add* add = &self->add;
  double inputs[2], real;
  factors(node, inputs, &real);
  self->run = kernels->add;
  for (int i = 0; i < 2; ++i) {
    add->offset[i] = -zo_node_input(node, i)->params.zero_point;
    add->input[i] = zo_quantize_multiplier(inputs[i]);
  }
  add->output = zo_quantize_multiplier(real);
  add->zero_point = output->params.zero_point;
  add->count = output->bytes;
  zo_activation_range(((const TfLiteAddParams*)node->params)->activation, output, &add->min, &add->max);
  return self;
}

void zo_exact_add_run(const void* self, const zo_node* node, zo_share share) {
  const exact_add* op = (const exact_add*)self;
  zo_add add = op->add;
  const size_t sample = add.count / (size_t)zo_node_samples(node);
  const size_t at = (size_t)share.first * sample;
  for (int i = 0; i < 2; ++i) add.x[i] = (const int8_t*)zo_node_input(node, i)->data + at;
  add.y = (int8_t*)zo_node_output(node, 0)->data + at;
  add.count = (size_t)share.count * sample;
  op->run(&add);
}
