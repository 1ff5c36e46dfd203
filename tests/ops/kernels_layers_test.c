/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The loops over whole layers of a kernel set against the core's portable forms: random layers with strides,
 * dilations and paddings, errors and weights at either end, several threads' parts.
 */
#include <string.h>

#include "kernels_test.h"
#include "ops/core/backward/zo_conv_backprop.h"
#include "ops/core/nodes/zo_node_gradient.h"

enum { kLayers = 400 };

static zo_node_layer any_layer(void) {
  zo_node_layer l;
  memset(&l, 0, sizeof l);
  const int dense = between(0, 4) == 0;
  /* The core holds 256 errors of a channel at most: large layers have more, and chunks that begin within a row. */
  const int large = !dense && between(0, 9) == 0;
  const int32_t side = dense ? 1 : (large ? 20 : 9);
  l.depthwise = !dense && between(0, 2) == 0;
  l.in_h = (uint32_t)between(1, side);
  l.in_w = (uint32_t)between(1, side);
  l.in_c = (uint32_t)between(1, 20);
  l.out_c = l.depthwise != 0u ? l.in_c * (uint32_t)between(1, 3) : (uint32_t)between(1, 20);
  l.k_h = (uint32_t)between(1, dense ? 1 : 4);
  l.k_w = (uint32_t)between(1, dense ? 1 : 4);
  l.stride_h = (uint32_t)between(1, 3);
  l.stride_w = (uint32_t)between(1, 3);
  l.dilation_h = (uint32_t)between(1, 2);
  l.dilation_w = (uint32_t)between(1, 2);
  l.pad_top = (uint32_t)between(0, dense ? 0 : 3);
  l.pad_left = (uint32_t)between(0, dense ? 0 : 3);
  l.out_h = l.node_h = (uint32_t)between(large ? 17 : 1, side);
  l.out_w = l.node_w = (uint32_t)between(large ? 17 : 1, side);
  l.input_zero_point = between(-128, 127);
  l.low = -129;
  l.high = 128;
  return l;
}

static int16_t* any_errors(size_t count) {
  int16_t* errors = (int16_t*)allocate(count * sizeof errors[0]);
  const int32_t kind = between(0, 3), largest = kind == 0 ? 32767 : between(1, 32767);
  for (size_t i = 0; i < count; ++i) {
    errors[i] = (int16_t)(kind == 0 ? largest : (kind == 1 ? between(0, 1) * largest : between(-largest, largest)));
  }
  return errors;
}

static void test_backprop(const zo_layers* layers, const zo_node_layer* l) {
  const size_t inputs = zo_node_input_bytes(l), outputs = zo_node_count(l);
  int8_t* weights = bytes_of((size_t)zo_node_row(l) * l->out_c);
  int16_t* errors = any_errors(outputs);
  int16_t* scales = between(0, 1) != 0 ? any_errors(l->out_c) : NULL;
  int16_t* turned = (int16_t*)allocate(zo_loops_turned_values(l) * sizeof turned[0]);
  void* memory = allocate(zo_loops_backprop_bytes(l));
  int32_t* scratch = (int32_t*)allocate(zo_conv_backprop_scratch_values(l) * sizeof scratch[0]);
  int16_t* found[2];
  int8_t exponents[2];
  uint32_t norm;
  for (int i = 0; i < 2; ++i) found[i] = (int16_t*)allocate(inputs * sizeof(int16_t));
  CHECK(zo_conv_backprop_norm_s8(l, weights, scratch, &norm) == ZO_OK);
  CHECK(zo_conv_backprop_s8(l, weights, norm, scales, errors, 3, found[0], &exponents[0], scratch) == ZO_OK);
  zo_loops_turn(l, weights, turned, memory);
  layers->backprop(l, turned, norm, scales, errors, 3, found[1], &exponents[1], memory);
  CHECK(exponents[0] == exponents[1]);
  CHECK(memcmp(found[0], found[1], inputs * sizeof(int16_t)) == 0);
  for (int i = 0; i < 2; ++i) free(found[i]);
  free(scratch);
  free(memory);
  free(turned);
  free(scales);
  free(errors);
  free(weights);
}

/* Parts one after the other. */
static void run_parts(const zo_workers* workers, uint32_t parts, void (*work)(void* context, uint32_t part),
                      void* context) {
  (void)workers;
  while (parts-- > 0u) work(context, parts);
}

static void test_gradients(const zo_layers* layers, const zo_node_layer* l) {
  const uint32_t samples = (uint32_t)between(1, between(0, 1) != 0 ? 70 : 5), row = zo_node_row(l);
  const zo_workers workers = {(uint32_t)between(1, 3), run_parts};
  int8_t* inputs = bytes_of((size_t)samples * zo_node_input_bytes(l));
  int16_t* errors = any_errors((size_t)samples * zo_node_count(l));
  int8_t* exponents = bytes_of(samples);
  uint8_t* routes = (uint8_t*)bytes_of((size_t)samples * zo_node_count(l));
  for (uint32_t b = 0; b < samples; ++b) {
    exponents[b] = (int8_t)(exponents[b] % 3);
    if (between(0, 7) != 0) continue;
    /* Errors that are all 0 have any exponent. */
    memset(errors + b * zo_node_count(l), 0, zo_node_count(l) * sizeof errors[0]);
    exponents[b] = (int8_t)between(-127, 127);
  }
  zo_node_evidence evidence = {samples, 0, inputs, between(0, 1) != 0 ? routes : NULL, NULL, NULL, errors, exponents};
  zo_node_gradient g;
  memset(&g, 0, sizeof g);
  CHECK(zo_node_gradient_begin(&g, l, &evidence) != 0);
  zo_gradients* all = zo_gradients_by(layers, l, &evidence, g.shift, &workers);
  CHECK((all == NULL) == (samples * l->out_h * l->out_w < 16u));
  int32_t* rows[2];
  for (int i = 0; i < 2; ++i) rows[i] = (int32_t*)allocate(row * sizeof(int32_t));
  for (uint32_t c = 0; all != NULL && c < l->out_c; ++c) {
    int32_t sum;
    if (!zo_node_gradient_form(&g, c, rows[0])) memset(rows[0], 0, row * sizeof(int32_t));
    CHECK(255 * zo_gradients_row(all, c, rows[1], &sum) == g.largest);
    CHECK(sum == g.sum);
    CHECK(memcmp(rows[0], rows[1], row * sizeof(int32_t)) == 0);
  }
  for (int i = 0; i < 2; ++i) free(rows[i]);
  zo_gradients_free(all);
  free(routes);
  free(exponents);
  free(errors);
  free(inputs);
}

void test_layers(const zo_kernel_set* set) {
  for (int i = 0; i < kLayers; ++i) {
    const zo_node_layer l = any_layer();
    test_backprop(set->layers, &l);
    test_gradients(set->layers, &l);
  }
}
