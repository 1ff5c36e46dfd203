/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "ops/kernels/zo_pool.h"
#include "ops/tflite/zo_exact_ops.h"
#include "ops/tflite/zo_padding.h"

/* Memory that threads write lies in lines of its own. */
#define LINE 64u

typedef struct exact_pool {
  zo_pool pool;
  size_t scratch_bytes; /* of a thread */
  uint8_t* scratch;
} exact_pool;

/* The window of a pooling; false if there is none that fits. */
static bool window_of(const zo_node* node, zo_window* window) {
  const TfLitePoolParams* params = (const TfLitePoolParams*)node->params;
  const zo_moves moves = {
      params->padding, params->filter_height, params->filter_width, params->stride_height, params->stride_width, 1, 1};
  const TfLiteTensor *input = zo_node_input(node, 0), *output = zo_node_output(node, 0);
  return zo_window_of(input, output, &moves, window) && output->dims->data[3] == input->dims->data[3] &&
         window->pad_top < params->filter_height && window->pad_left < params->filter_width;
}

bool zo_exact_pool_supports(const zo_node* node) {
  const TfLiteTensor *input = zo_node_input(node, 0), *output = zo_node_output(node, 0);
  zo_window window;
  return zo_is_int8(input) && zo_is_int8(output) && zo_has_scale(input) && zo_has_scale(output) &&
         input->params.scale == output->params.scale && input->params.zero_point == output->params.zero_point &&
         zo_is_clamp(((const TfLitePoolParams*)node->params)->activation) && window_of(node, &window);
}

void* zo_exact_pool_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads) {
  (void)kernels;
  exact_pool* self = calloc(1, sizeof *self);
  if (self == NULL) return NULL;
  zo_pool* pool = &self->pool;
  if (!window_of(node, &pool->window)) {
    free(self);
    return NULL;
  }
  pool->average = node->builtin == kTfLiteBuiltinAveragePool2d;
  zo_activation_range(((const TfLitePoolParams*)node->params)->activation, zo_node_output(node, 0), &pool->min,
                      &pool->max);
  self->scratch_bytes = (zo_pool_scratch_bytes(pool) + LINE - 1u) / LINE * LINE;
  self->scratch = malloc((size_t)threads * self->scratch_bytes);
  if (self->scratch == NULL) {
    free(self);
    return NULL;
  }
  return self;
}

void zo_exact_pool_run(const void* self, const zo_node* node, zo_share share) {
  const exact_pool* op = (const exact_pool*)self;
  const TfLiteTensor *input = zo_node_input(node, 0), *output = zo_node_output(node, 0);
  const size_t samples = (size_t)op->pool.window.samples, first = (size_t)share.first;
  zo_pool_run(&op->pool, (const int8_t*)input->data + first * (input->bytes / samples), share.count,
              op->scratch + (size_t)share.thread * op->scratch_bytes,
              (int8_t*)output->data + first * (output->bytes / samples));
}

void zo_exact_pool_free(void* self) {
  free(((exact_pool*)self)->scratch);
  free(self);
}
