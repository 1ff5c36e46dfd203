/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Errors on their way back through operators: any geometry in buffers of the exact size, with
 * values at the ends of their ranges, against sums that are scattered from the outputs instead of
 * gathered at the inputs; and what is refused. Bits are checked by tests/core/test_backward.py.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "ops/core/backward/zo_backward.h"
#include "ops/core/backward/zo_conv_backprop.h"
#include "ops/core/backward/zo_errors.h"
#include "ops/core/backward/zo_pool_backprop.h"

unsigned long checks;

enum { kRounds = 1500 };

static uint32_t state = 20260101u;

static uint32_t below(uint32_t bound) {
  state = state * UINT32_C(1664525) + UINT32_C(1013904223);
  return (uint32_t)((uint64_t)state * bound >> 32);
}

static void* allocate(size_t bytes) {
  void* memory = calloc(bytes, 1);
  if (memory == NULL) abort();
  return memory;
}

/* Of any size; now and then all of them at the ends. */
static int16_t* make_errors(uint32_t count) {
  int16_t* errors = (int16_t*)allocate(count * sizeof(int16_t));
  const uint32_t bits = below(4) == 0u ? below(16) : 15u;
  const int ends = below(4) == 0u;
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t e = ends ? 32767 : (int32_t)below(1u << bits);
    errors[i] = (int16_t)(below(2) == 0u ? e : -e);
  }
  return errors;
}

static int8_t* make_bytes(uint32_t count) {
  int8_t* bytes = (int8_t*)allocate(count);
  const int ends = below(4) == 0u;
  for (uint32_t i = 0; i < count; ++i) {
    bytes[i] = (int8_t)(ends ? (below(2) == 0u ? -128 : 127) : (int32_t)below(256) - 128);
  }
  return bytes;
}

/* Whether errors are, within `slack` of their own unit, the real numbers. */
static void check_close(const int16_t* errors, int8_t exponent, const double* exact, uint32_t count,
                        double slack) {
  for (uint32_t i = 0; i < count; ++i) {
    CHECK(errors[i] >= -32767 && errors[i] <= 32767);
    CHECK(fabs(ldexp((double)errors[i], exponent) - exact[i]) <= ldexp(slack, exponent));
  }
}

/* --- Convolutions ---------------------------------------------------------------- */

static zo_node_layer random_layer(void) {
  zo_node_layer l;
  memset(&l, 0, sizeof l);
  l.in_h = 1u + below(6);
  l.in_w = 1u + below(6);
  l.in_c = 1u + below(20);
  l.k_h = 1u + below(3);
  l.k_w = 1u + below(3);
  l.stride_h = 1u + below(3);
  l.stride_w = 1u + below(3);
  l.dilation_h = 1u + below(2);
  l.dilation_w = 1u + below(2);
  l.pad_top = below(4);
  l.pad_left = below(4);
  l.out_h = l.node_h = 1u + below(6);
  l.out_w = l.node_w = 1u + below(6);
  l.out_c = 1u + below(9);
  l.low = -129;
  l.high = 128;
  l.depthwise = below(3) == 0u;
  if (l.depthwise == 1u) l.out_c = l.in_c * (1u + below(3));
  return l;
}

/* Adds an output's error to the inputs that its window reads, and the sum of its weights to what a
 * unit of rounding of it would be there. */
static void scatter(const zo_node_layer* l, const int8_t* weights, uint32_t h, uint32_t w,
                    uint32_t c, double error, double* sums, double* units) {
  const uint32_t depth = zo_node_depth(l);
  for (uint32_t i = 0; i < l->k_h; ++i) {
    const int32_t y = (int32_t)(h * l->stride_h + i * l->dilation_h) - (int32_t)l->pad_top;
    for (uint32_t j = 0; j < l->k_w; ++j) {
      const int32_t x = (int32_t)(w * l->stride_w + j * l->dilation_w) - (int32_t)l->pad_left;
      if (y < 0 || x < 0 || y >= (int32_t)l->in_h || x >= (int32_t)l->in_w) continue;
      for (uint32_t d = 0; d < depth; ++d) {
        const uint32_t tap = i * l->k_w + j;
        const uint32_t at =
            l->depthwise != 0u ? tap * l->out_c + c : (c * l->k_h * l->k_w + tap) * l->in_c + d;
        const uint32_t channel = l->depthwise != 0u ? c / (l->out_c / l->in_c) : d;
        const uint32_t input = ((uint32_t)y * l->in_w + (uint32_t)x) * l->in_c + channel;
        sums[input] += error * weights[at];
        units[input] += fabs((double)weights[at]);
      }
    }
  }
}

static void test_conv(void) {
  const zo_node_layer l = random_layer();
  const uint32_t inputs = zo_node_input_bytes(&l), outputs = zo_node_count(&l);
  int8_t* weights = make_bytes(zo_node_row(&l) * l.out_c);
  int16_t* errors = make_errors(outputs);
  int16_t* scales = below(2) == 0u ? NULL : (int16_t*)allocate(l.out_c * sizeof(int16_t));
  for (uint32_t c = 0; scales != NULL && c < l.out_c; ++c) scales[c] = (int16_t)below(32768);
  int16_t* found = (int16_t*)allocate(inputs * sizeof(int16_t));
  double* sums = (double*)allocate(inputs * sizeof(double));
  double* units = (double*)allocate(inputs * sizeof(double));
  int32_t* scratch = (int32_t*)allocate(zo_conv_backprop_scratch_values(&l) * sizeof(int32_t));
  for (uint32_t i = 0; i < outputs; ++i) {
    const uint32_t c = i % l.out_c, position = i / l.out_c;
    const double scale = scales == NULL ? 1.0 : scales[c] / 32768.0;
    scatter(&l, weights, position / l.out_w, position % l.out_w, c, errors[i] * scale, sums, units);
  }
  uint32_t norm;
  int8_t exponent;
  CHECK(zo_conv_backprop_norm_s8(&l, weights, scratch, &norm) == ZO_OK);
  CHECK(zo_conv_backprop_s8(&l, weights, norm, scales, errors, 3, found, &exponent, scratch) ==
        ZO_OK);
  for (uint32_t i = 0; i < inputs; ++i) {
    /* f is half a unit off at most, and two of the errors' own where it gives up bits. */
    CHECK(found[i] >= -32767 && found[i] <= 32767);
    const double off = fabs(ldexp((double)found[i], exponent) - ldexp(sums[i], 3));
    CHECK(off <= ldexp(1, exponent) / 2 + ldexp(units[i], 3 + 1));
  }
  free(weights);
  free(errors);
  free(scales);
  free(found);
  free(sums);
  free(units);
  free(scratch);
}

static void test_conv_refusals(void) {
  zo_node_layer l;
  int8_t weights[4] = {1, 2, 3, 4}, exponent = 9;
  int16_t e[4] = {1, 2, 3, 4}, to[4] = {7, 7, 7, 7};
  int32_t scratch[4];
  uint32_t norm = 77;
  memset(&l, 0, sizeof l);
  l.in_h = l.in_w = l.k_h = l.k_w = l.stride_h = l.stride_w = l.dilation_h = l.dilation_w = 1;
  l.out_h = l.out_w = l.node_h = l.node_w = 1;
  l.in_c = l.out_c = 2;
  l.low = -129;
  l.high = 128;
  zo_node_layer bad = l, wide = l;
  bad.in_c = 0;
  wide.out_c = 65536;
  wide.k_h = 3;
  CHECK(zo_conv_backprop_norm_s8(&bad, weights, scratch, &norm) == ZO_ERROR_ARGUMENT);
  CHECK(zo_conv_backprop_norm_s8(&wide, weights, scratch, &norm) == ZO_ERROR_ARGUMENT);
  CHECK(zo_conv_backprop_norm_s8(NULL, weights, scratch, &norm) == ZO_ERROR_ARGUMENT);
  CHECK(zo_conv_backprop_norm_s8(&l, NULL, scratch, &norm) == ZO_ERROR_ARGUMENT);
  CHECK(zo_conv_backprop_norm_s8(&l, weights, NULL, &norm) == ZO_ERROR_ARGUMENT);
  CHECK(zo_conv_backprop_norm_s8(&l, weights, scratch, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(norm == 77u);
#define BACK(layer, w, n, from, into, x, s) \
  zo_conv_backprop_s8(layer, w, n, NULL, from, 0, into, x, s)
  CHECK(BACK(&bad, weights, 5, e, to, &exponent, scratch) == ZO_ERROR_ARGUMENT);
  CHECK(BACK(&wide, weights, 5, e, to, &exponent, scratch) == ZO_ERROR_ARGUMENT);
  CHECK(BACK(&l, NULL, 5, e, to, &exponent, scratch) == ZO_ERROR_ARGUMENT);
  CHECK(BACK(&l, weights, 46342, e, to, &exponent, scratch) == ZO_ERROR_ARGUMENT);
  CHECK(BACK(&l, weights, 5, NULL, to, &exponent, scratch) == ZO_ERROR_ARGUMENT);
  CHECK(BACK(&l, weights, 5, e, NULL, &exponent, scratch) == ZO_ERROR_ARGUMENT);
  CHECK(BACK(&l, weights, 5, e, to, NULL, scratch) == ZO_ERROR_ARGUMENT);
  CHECK(BACK(&l, weights, 5, e, to, &exponent, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(to[0] == 7 && exponent == 9);
  CHECK(zo_conv_backprop_norm_s8(&l, weights, scratch, &norm) == ZO_OK && norm == 5u);
  CHECK(BACK(&l, weights, norm, e, to, &exponent, scratch) == ZO_OK);
#undef BACK
}

/* The largest sums of squares that there are: 2^17 weights of -128, errors at their ends. */
static void test_largest_layer(void) {
  zo_node_layer l;
  memset(&l, 0, sizeof l);
  l.in_h = l.in_w = l.k_h = l.stride_h = l.stride_w = l.dilation_h = l.dilation_w = 1;
  l.out_h = l.out_w = l.node_h = l.node_w = l.in_c = 1;
  l.k_w = l.in_w = 2;
  l.out_c = 65536;
  l.low = -129;
  l.high = 128;
  int8_t* weights = (int8_t*)allocate(2u * 65536u);
  memset(weights, -128, 2u * 65536u);
  int16_t* errors = (int16_t*)allocate(65536u * sizeof(int16_t));
  for (uint32_t i = 0; i < 65536u; ++i) errors[i] = -32767;
  int16_t found[2];
  int32_t scratch[1];
  int8_t exponent;
  uint32_t norm;
  CHECK(zo_conv_backprop_norm_s8(&l, weights, scratch, &norm) == ZO_OK && norm == 46341u);
  CHECK(zo_conv_backprop_s8(&l, weights, norm, NULL, errors, 0, found, &exponent, scratch) ==
        ZO_OK);
  const double exact = 65536.0 * 128.0 * 32767.0;
  CHECK(fabs(ldexp((double)found[0], exponent) / exact - 1) < 0.001 && found[0] > 0);
  CHECK(found[1] == found[0]);
  free(weights);
  free(errors);
}

/* --- Pooling --------------------------------------------------------------------- */

static void test_pool(void) {
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
    uint32_t cells[16], count = 0, best = 0;
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

/* --- Elementwise ------------------------------------------------------------------ */

static void test_elementwise(void) {
  const uint32_t channels = 1u + below(5), count = channels * (1u + below(9));
  int16_t* errors = make_errors(count);
  int16_t* sum = make_errors(count);
  int16_t* mantissas = make_errors(channels);
  int16_t* scaled = (int16_t*)allocate(count * sizeof(int16_t));
  double* exact = (double*)allocate(count * sizeof(double));
  const zo_error_factors factors = {mantissas, channels, (int32_t)below(41) - 20};
  const int8_t exponent = (int8_t)((int32_t)below(41) - 20);
  int8_t scaled_exponent, sum_exponent = (int8_t)((int32_t)below(41) - 20);
  for (uint32_t i = 0; i < count; ++i) {
    exact[i] = ldexp((double)errors[i] * mantissas[i % channels], exponent + factors.exponent - 15);
  }
  CHECK(zo_scale_errors(&factors, count, errors, exponent, scaled, &scaled_exponent) == ZO_OK);
  check_close(scaled, scaled_exponent, exact, count, 0.5);
  for (uint32_t i = 0; i < count; ++i) {
    exact[i] = ldexp((double)scaled[i], scaled_exponent) + ldexp((double)sum[i], sum_exponent);
  }
  CHECK(zo_add_errors(&factors, count, errors, exponent, sum, &sum_exponent) == ZO_OK);
  check_close(sum, sum_exponent, exact, count, 1.0);

  const zo_error_factors none = {NULL, 1, 0}, odd = {mantissas, count + 1u, 0},
                         far = {mantissas, 1, 256};
  CHECK(zo_scale_errors(&none, count, errors, 0, scaled, &scaled_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_scale_errors(&odd, count, errors, 0, scaled, &scaled_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_add_errors(&far, count, errors, 0, sum, &sum_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_scale_errors(NULL, 0, errors, 0, scaled, &scaled_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_scale_errors(NULL, count, errors, 0, NULL, &scaled_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_add_errors(NULL, count, NULL, 0, sum, &sum_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_mask_errors(count, NULL, 0, 9, errors) == ZO_ERROR_ARGUMENT);
  CHECK(zo_slice_errors(1, 2, 0, 3, errors, scaled) == ZO_ERROR_ARGUMENT);
  CHECK(zo_slice_errors(0, 2, 0, 1, errors, scaled) == ZO_ERROR_ARGUMENT);
  /* In place, in the other direction of nothing that is still to be read. */
  CHECK(zo_slice_errors(count / channels, channels, channels - 1u, 1, sum, scaled) == ZO_OK);
  CHECK(zo_slice_errors(count / channels, channels, channels - 1u, 1, sum, sum) == ZO_OK);
  CHECK(memcmp(sum, scaled, count / channels * sizeof sum[0]) == 0);
  free(errors);
  free(sum);
  free(mantissas);
  free(scaled);
  free(exact);
}

/* Exponents beyond one byte saturate. */
static void test_exponents(void) {
  const int16_t mantissas[1] = {1 << 14}, errors[1] = {1 << 14};
  const zo_error_factors small = {mantissas, 1, -100}, large = {mantissas, 1, 100};
  int16_t scaled[1];
  int8_t exponent;
  CHECK(zo_scale_errors(&small, 1, errors, -100, scaled, &exponent) == ZO_OK && exponent == -128);
  CHECK(zo_scale_errors(&large, 1, errors, 100, scaled, &exponent) == ZO_OK && exponent == 127);
  CHECK(scaled[0] == 1 << 14);
}

/* A dense layer of 3 inputs and 2 outputs behind a pooling of 2 by 2: steps that fit run, for each
 * sample of the minibatch, and steps that reach beyond a field are refused. */
static void test_program(void) {
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
  zo_error_field fields[3] = {
      {head, head_exponents, 2, 1}, {between, &exponent, 3, 0}, {kept, exponents, 12, 1}};
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
  CHECK(zo_backward_run(&program, 0, 2, sources) == ZO_OK);
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
  steps[2].kind = 99;
  CHECK(zo_backward_check(&program) == ZO_ERROR_ARGUMENT);
}

int main(void) {
  test_program();
  for (int round = 0; round < kRounds; ++round) {
    test_conv();
    test_pool();
    test_elementwise();
  }
  test_conv_refusals();
  test_largest_layer();
  test_exponents();
  printf("backward_test: %lu checks passed\n", checks);
  return 0;
}
