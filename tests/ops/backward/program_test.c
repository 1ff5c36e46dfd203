/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "backward_test.h"
#include "ops/core/backward/zo_backward.h"

/* A dense layer of 3 inputs and 2 outputs behind a pooling of 2 by 2: steps that fit run, for each
 * sample of the minibatch, and steps that reach beyond a field are refused. */
void test_program(void) {
  zo_node_layer l;
  memset(&l, 0, sizeof l);
  l.in_h = l.in_w = l.k_h = l.k_w = l.stride_h = l.stride_w = l.dilation_h = l.dilation_w = 1;
  l.out_h = l.out_w = l.node_h = l.node_w = 1;
  l.in_c = 3;
  l.out_c = 2;
  l.low = -129;
  l.high = 128;
  const zo_pool pool = {2, 2, 3, 1, 1, 2, 2, 1, 1, 0, 0};
  const int16_t scales[2] = {1 << 14, 1 << 14};
  int16_t head[4] = {1000, -2000, 0, 3000}, between[3], kept[24];
  int8_t head_exponents[2] = {0, 0}, exponent = 0, exponents[2];
  zo_error_field fields[3] = {{head, head_exponents, 2, 1}, {between, &exponent, 3, 0}, {kept, exponents, 12, 1}};
  zo_backward_step steps[3];
  memset(steps, 0, sizeof steps);
  steps[0].kind = ZO_BACKWARD_LAYER;
  steps[0].to = 1;
  steps[0].layer = &l;
  steps[0].mantissas = scales;
  steps[0].exponent = 1;
  steps[1].kind = ZO_BACKWARD_AVERAGE_POOL;
  steps[1].from = 1;
  steps[1].to = 2;
  steps[1].pool = &pool;
  steps[2].kind = ZO_BACKWARD_MASK;
  steps[2].from = steps[2].to = 2;
  steps[2].low = -1;
  steps[2].high = 128;
  const int8_t weights[6] = {1, 2, 3, -1, 0, 5};
  int8_t outputs[24];
  for (int i = 0; i < 24; ++i) outputs[i] = (int8_t)(i % 5 == 0 ? -1 : 7);
  const int8_t* sources[3] = {weights, NULL, outputs};
  uint32_t norms[3];
  int32_t scratch[3];
  const zo_backward program = {steps, fields, 3, 3, norms, scratch};
  CHECK(zo_backward_scratch_values(steps, 3) == 3u);
  CHECK(zo_backward_check(&program) == ZO_OK);
  CHECK(zo_backward_norms(&program, sources) == ZO_OK);
  CHECK(zo_backward_run(&program, 0, program.step_count, 0, 2, sources) == ZO_OK);
  for (int b = 0; b < 2; ++b) {
    for (int i = 0; i < 12; ++i) {
      const int c = i % 3;
      const double exact = (head[2 * b] * weights[c] + head[2 * b + 1] * weights[3 + c]) / 4.0;
      const double found = ldexp((double)kept[12 * b + i], exponents[b]);
      const int clamped = (12 * b + i) % 5 == 0;
      CHECK(fabs(found - (clamped ? 0.0 : exact)) <= ldexp(2.0, exponents[b]));
    }
  }
  fields[2].count = 11;
  CHECK(zo_backward_check(&program) == ZO_ERROR_ARGUMENT);
  fields[2].count = 12;
  steps[2].to = 3;
  CHECK(zo_backward_check(&program) == ZO_ERROR_ARGUMENT);
  steps[2].to = 2;
  steps[0].exponent = 256;
  CHECK(zo_backward_check(&program) == ZO_ERROR_ARGUMENT);
  steps[0].exponent = 1;
  steps[2].kind = ZO_BACKWARD_SLICE;
  steps[2].to = 1;
  steps[2].blocks = steps[2].length = 1;
  steps[2].pitch = 12;
  CHECK(zo_backward_check(&program) == ZO_ERROR_ARGUMENT); /* 1 error for a field of 3 */
  steps[2].length = 3;
  CHECK(zo_backward_check(&program) == ZO_OK);
  steps[2].offset = 10;
  CHECK(zo_backward_check(&program) == ZO_ERROR_ARGUMENT);
  steps[2].kind = ZO_BACKWARD_PLACE; /* 12 errors into a field of 3, then the other way */
  steps[2].offset = 0;
  CHECK(zo_backward_check(&program) == ZO_ERROR_ARGUMENT);
  steps[2].from = 1;
  steps[2].to = 2;
  CHECK(zo_backward_check(&program) == ZO_OK);
  steps[2].offset = 10;
  CHECK(zo_backward_check(&program) == ZO_ERROR_ARGUMENT);
  steps[2].kind = ZO_BACKWARD_PRODUCT; /* a value for each error of the field of 3, spread */
  zo_error_product product = {1, 12, 4, 3, 0};
  steps[2].product = &product;
  steps[2].mantissas = scales;
  CHECK(zo_backward_check(&program) == ZO_ERROR_ARGUMENT);
  steps[2].from = 2;
  steps[2].to = 1;
  product.length = 3;
  CHECK(zo_backward_check(&program) == ZO_OK);
  product.other_repeat = 5;
  CHECK(zo_backward_check(&program) == ZO_ERROR_ARGUMENT);
  product.other_repeat = 4;
  steps[2].mantissas = NULL;
  CHECK(zo_backward_check(&program) == ZO_ERROR_ARGUMENT);
  steps[2].kind = ZO_BACKWARD_LEVELS;
  steps[2].mantissas = scales;
  CHECK(zo_backward_check(&program) == ZO_ERROR_ARGUMENT);
  steps[2].to = 2;
  CHECK(zo_backward_check(&program) == ZO_OK);
  steps[2].kind = 99;
  CHECK(zo_backward_check(&program) == ZO_ERROR_ARGUMENT);
}
