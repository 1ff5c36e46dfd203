/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "ops/core/kernels/zo_svdf.h"
#include "ops/tflite/zo_exact_ops.h"

enum { kInput = 0, kWeights = 1, kTime = 2, kBias = 3, kState = 4, kInputs = 5 };

static float scale_of(const zo_node* node, int number) { return zo_node_input(node, number)->params.scale; }

/* TFLM computes both factors in float. */
static double feature_factor(const zo_node* node) {
  return (double)(scale_of(node, kInput) * scale_of(node, kWeights) / scale_of(node, kState));
}

static double output_factor(const zo_node* node) {
  return (double)(scale_of(node, kState) * scale_of(node, kTime) / zo_node_output(node, 0)->params.scale);
}

bool zo_exact_svdf_supports(const zo_node* node) {
  const TfLiteTensor *x = zo_node_input(node, kInput), *weights = zo_node_input(node, kWeights);
  const TfLiteTensor *time = zo_node_input(node, kTime), *state = zo_node_input(node, kState);
  const TfLiteTensor* y = zo_node_output(node, 0);
  const int rank = ((const TfLiteSVDFParams*)node->params)->rank;
  if (!zo_is_int8(x) || !zo_has_rank(x, 2) || !zo_is_int8(weights) || !zo_has_rank(weights, 2) || time == NULL ||
      time->dims == NULL || time->dims->size != 2 || state == NULL || !state->is_variable || y == NULL || rank < 1) {
    return false;
  }
  const int filters = weights->dims->data[0], memory = time->dims->data[1];
  const int64_t samples = x->dims->data[0];
  const TfLiteTensor* scaled[] = {x, weights, time, state, y};
  for (int i = 0; i < 5; ++i) {
    if (!zo_has_scale(scaled[i])) return false;
  }
  return weights->dims->data[1] == x->dims->data[1] && time->dims->data[0] == filters && memory >= 1 &&
         filters % rank == 0 && (time->type == kTfLiteInt8 || time->type == kTfLiteInt16) &&
         zo_has_values(time, time->type, (int64_t)filters * memory) && samples * filters <= INT32_MAX &&
         zo_has_values(state, time->type, samples * filters * memory) &&
         zo_has_values(zo_node_input(node, kBias), kTfLiteInt32, filters / rank) &&
         zo_has_values(y, kTfLiteInt8, samples * (filters / rank)) && zo_is_multiplier(feature_factor(node)) &&
         zo_is_multiplier(output_factor(node));
}

void* zo_exact_svdf_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads) {
  (void)kernels;
  (void)threads;
  zo_svdf* self = malloc(sizeof *self);
  if (self == NULL) return NULL;
  const TfLiteTensor *weights = zo_node_input(node, kWeights), *time = zo_node_input(node, kTime);
  self->depth = weights->dims->data[1];
  self->rank = ((const TfLiteSVDFParams*)node->params)->rank;
  self->units = weights->dims->data[0] / self->rank;
  self->memory = time->dims->data[1];
  self->input_zero_point = zo_node_input(node, kInput)->params.zero_point;
  self->state_zero_point = zo_node_input(node, kState)->params.zero_point;
  self->zero_point = zo_node_output(node, 0)->params.zero_point;
  self->feature = zo_quantize_multiplier(feature_factor(node));
  self->output = zo_quantize_multiplier(output_factor(node));
  self->is_wide = time->type == kTfLiteInt16;
  return self;
}

bool zo_exact_svdf_begin(void* self, const zo_node* node) {
  (void)self;
  for (int i = 0; i < kInputs; ++i) {
    if (zo_node_input(node, i)->data == NULL) return false;
  }
  return true;
}

void zo_exact_svdf_run(const void* self, const zo_node* node, zo_share share) {
  const zo_svdf_tensors tensors = {(const int8_t*)zo_node_input(node, kInput)->data,
                                   (const int8_t*)zo_node_input(node, kWeights)->data,
                                   zo_node_input(node, kTime)->data,
                                   (const int32_t*)zo_node_input(node, kBias)->data,
                                   zo_node_input(node, kState)->data,
                                   (int8_t*)zo_node_output(node, 0)->data};
  zo_svdf_run((const zo_svdf*)self, &tensors, share.first, share.count);
}
