/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "backward_test.h"
#include "ops/core/backward/zo_pool_backprop.h"

void test_pool(void) {
  zo_pool p;
  p.k_h = 1u + below(4);
  p.k_w = 1u + below(4);
  p.stride_h = 1u + below(4);
  p.stride_w = 1u + below(4);
  p.pad_top = below(p.k_h);
  p.pad_left = below(p.k_w);
  p.in_h = 1u + below(7);
  p.in_w = 1u + below(7);
  p.channels = 1u + below(5);
  p.out_h = 1u + below((p.in_h + p.pad_top - 1u) / p.stride_h + 1u);
  p.out_w = 1u + below((p.in_w + p.pad_left - 1u) / p.stride_w + 1u);
  const uint32_t ins = p.in_h * p.in_w * p.channels, outs = p.out_h * p.out_w * p.channels;
  int8_t* inputs = make_bytes(ins);
  int16_t* errors = make_errors(outs);
  int16_t* found = (int16_t*)allocate(ins * sizeof(int16_t));
  double* largest = (double*)allocate(ins * sizeof(double));
  double* average = (double*)allocate(ins * sizeof(double));
  int32_t* scratch = (int32_t*)allocate(zo_pool_scratch_values(&p) * sizeof(int32_t));
  for (uint32_t i = 0; i < outs; ++i) {
    const uint32_t c = i % p.channels, position = i / p.channels;
    uint32_t cells[16] = {0}, count = 0, best = 0;
    for (uint32_t k = 0; k < p.k_h * p.k_w; ++k) {
      const uint32_t y = position / p.out_w * p.stride_h + k / p.k_w - p.pad_top;
      const uint32_t x = position % p.out_w * p.stride_w + k % p.k_w - p.pad_left;
      if (y >= p.in_h || x >= p.in_w) continue;
      cells[count] = (y * p.in_w + x) * p.channels + c;
      if (inputs[cells[count]] > inputs[cells[best]]) best = count;
      ++count;
    }
    largest[cells[best]] += errors[i];
    for (uint32_t k = 0; k < count; ++k) average[cells[k]] += (double)errors[i] / count;
  }
  int8_t exponent;
  CHECK(zo_max_pool_backprop(&p, inputs, errors, 0, found, &exponent) == ZO_OK);
  check_close(found, exponent, largest, ins, 0.5);
  CHECK(zo_average_pool_backprop(&p, errors, 0, found, &exponent, scratch) == ZO_OK);
  /* Half a unit, and the parts of 14 bits or more that up to 16 windows add. */
  check_close(found, exponent, average, ins, 0.5 + 32767.0 / 8192.0);
  zo_pool bad = p;
  bad.channels = 0;
  CHECK(zo_pool_check(NULL) == ZO_ERROR_ARGUMENT && zo_pool_check(&bad) == ZO_ERROR_ARGUMENT);
  CHECK(zo_max_pool_backprop(&bad, inputs, errors, 0, found, &exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_max_pool_backprop(&p, NULL, errors, 0, found, &exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_average_pool_backprop(&bad, errors, 0, found, &exponent, scratch) == ZO_ERROR_ARGUMENT);
  CHECK(zo_average_pool_backprop(&p, errors, 0, found, &exponent, NULL) == ZO_ERROR_ARGUMENT);
  free(inputs);
  free(errors);
  free(found);
  free(largest);
  free(average);
  free(scratch);
}
