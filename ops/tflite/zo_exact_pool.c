/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/tflite/zo_exact_pool.h"

#include <stdlib.h>

#include "ops/kernels/zo_pool.h"
#include "ops/tflite/zo_padding.h"

/* The window of a pooling; false where there is none that fits. */
static bool window_of(const zo_node* node, zo_window* window) {
  const TfLitePoolParams* params = (const TfLitePoolParams*)node->params;
  const zo_moves moves = {params->padding,
                          params->filter_height,
                          params->filter_width,
                          params->stride_height,
                          params->stride_width,
                          1,
                          1};
  const TfLiteTensor *input = zo_node_input(node, 0), *output = zo_node_output(node, 0);
  return zo_window_of(input, output, &moves, window) &&
         output->dims->data[3] == input->dims->data[3] && window->pad_top < params->filter_height &&
         window->pad_left < params->filter_width;
}

bool zo_exact_pool_supports(const zo_node* node) {
  const TfLiteTensor *input = zo_node_input(node, 0), *output = zo_node_output(node, 0);
  zo_window window;
  return zo_is_int8(input) && zo_is_int8(output) && zo_has_scale(input) && zo_has_scale(output) &&
         input->params.scale == output->params.scale &&
         input->params.zero_point == output->params.zero_point &&
         zo_is_clamp(((const TfLitePoolParams*)node->params)->activation) &&
         window_of(node, &window);
}

void* zo_exact_pool_create(const zo_node* node, const zo_kernel_set* kernels) {
  (void)kernels;
  zo_pool* pool = calloc(1, sizeof *pool);
  if (pool == NULL) return NULL;
  if (!window_of(node, &pool->window)) {
    free(pool);
    return NULL;
  }
  pool->average = node->builtin == kTfLiteBuiltinAveragePool2d;
  zo_activation_range(((const TfLitePoolParams*)node->params)->activation, zo_node_output(node, 0),
                      &pool->min, &pool->max);
  pool->scratch = malloc(zo_pool_scratch_bytes(pool));
  if (pool->scratch == NULL) {
    free(pool);
    return NULL;
  }
  return pool;
}

bool zo_exact_pool_run(void* self, const zo_node* node) {
  const int8_t* x = (const int8_t*)zo_node_input(node, 0)->data;
  int8_t* y = (int8_t*)zo_node_output(node, 0)->data;
  if (x == NULL || y == NULL) return false;
  zo_pool_run((const zo_pool*)self, x, y);
  return true;
}

void zo_exact_pool_free(void* self) {
  free(((zo_pool*)self)->scratch);
  free(self);
}
