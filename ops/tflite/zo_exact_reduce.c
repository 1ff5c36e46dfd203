/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/zo_reduce.h"
#include "ops/tflite/zo_exact_ops.h"

enum { kInput = 0, kAxes = 1 };

/* Dimensions and axes; false if they do not lead to the output. */
static bool shape_of(const zo_node* node, zo_reduce* reduce) {
  const TfLiteTensor *input = zo_node_input(node, kInput), *axes = zo_node_input(node, kAxes);
  const TfLiteTensor* output = zo_node_output(node, 0);
  if (input->dims == NULL || input->dims->size < 1 || input->dims->size > kZoReduceRank ||
      !zo_has_rank(input, input->dims->size) || axes == NULL || axes->type != kTfLiteInt32 ||
      axes->allocation_type != kTfLiteMmapRo || axes->data == NULL || axes->bytes % sizeof(int32_t) != 0u) {
    return false;
  }
  memset(reduce, 0, sizeof *reduce);
  reduce->rank = input->dims->size;
  for (int32_t i = 0; i < reduce->rank; ++i) reduce->dims[i] = input->dims->data[i];
  for (size_t i = 0; i < axes->bytes / sizeof(int32_t); ++i) {
    int32_t axis = ((const int32_t*)axes->data)[i];
    if (axis < -reduce->rank || axis >= reduce->rank) return false;
    if (axis < 0) axis += reduce->rank;
    reduce->summed[axis] = true;
  }
  reduce->outputs = input->bytes / (size_t)zo_reduce_count(reduce);
  /* Sums of int8 stay within 32 bits. */
  return output->bytes == reduce->outputs && zo_reduce_count(reduce) <= (INT32_C(1) << 22);
}

static double factor_of(const zo_node* node) {
  return (double)zo_node_input(node, kInput)->params.scale / (double)zo_node_output(node, 0)->params.scale;
}

bool zo_exact_reduce_supports(const zo_node* node) {
  const TfLiteTensor *input = zo_node_input(node, kInput), *output = zo_node_output(node, 0);
  zo_reduce reduce;
  return zo_is_int8(input) && zo_is_int8(output) && zo_has_scale(input) && zo_has_scale(output) &&
         zo_is_multiplier(factor_of(node)) && shape_of(node, &reduce);
}

int32_t zo_exact_reduce_samples(const zo_node* node) {
  zo_reduce reduce;
  return shape_of(node, &reduce) && !reduce.summed[0] ? reduce.dims[0] : 1;
}

void* zo_exact_reduce_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads) {
  (void)kernels;
  (void)threads; /* each has sums of its own samples */
  zo_reduce* reduce = malloc(sizeof *reduce);
  if (reduce == NULL) return NULL;
  if (!shape_of(node, reduce)) {
    free(reduce);
    return NULL;
  }
  reduce->sums = malloc(reduce->outputs * sizeof *reduce->sums);
  if (reduce->sums == NULL) {
    free(reduce);
    return NULL;
  }
  const zo_multiplier sum = zo_quantize_multiplier(factor_of(node));
  reduce->multiplier =
      node->builtin == kTfLiteBuiltinSum ? sum : zo_reduce_mean_multiplier(sum, zo_reduce_count(reduce));
  reduce->input_zero_point = zo_node_input(node, kInput)->params.zero_point;
  reduce->zero_point = zo_node_output(node, 0)->params.zero_point;
  return reduce;
}

void zo_exact_reduce_run(const void* self, const zo_node* node, zo_share share) {
  const int8_t* x = (const int8_t*)zo_node_input(node, kInput)->data;
  int8_t* y = (int8_t*)zo_node_output(node, 0)->data;
  zo_reduce reduce = *(const zo_reduce*)self;
  if (!reduce.summed[0]) {
    const size_t samples = (size_t)reduce.dims[0], first = (size_t)share.first;
    const size_t outputs = reduce.outputs / samples;
    x += first * (zo_node_input(node, kInput)->bytes / samples);
    y += first * outputs;
    reduce.sums += first * outputs;
    reduce.outputs = (size_t)share.count * outputs;
    reduce.dims[0] = share.count;
  }
  zo_reduce_run(&reduce, x, y);
}

void zo_exact_reduce_free(void* self) {
  free(((zo_reduce*)self)->sums);
  free(self);
}
