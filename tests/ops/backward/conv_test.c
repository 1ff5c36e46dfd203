/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "backward_test.h"
#include "ops/core/backward/zo_conv_backprop.h"

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

/* Adds an output's error to the inputs that its window reads, and the sum of its weights to the
 * effect of one unit of rounding there. */
static void scatter(const zo_node_layer* l, const int8_t* weights, uint32_t h, uint32_t w, uint32_t c, double error,
                    double* sums, double* units) {
  const uint32_t depth = zo_node_depth(l);
  for (uint32_t i = 0; i < l->k_h; ++i) {
    const int32_t y = (int32_t)(h * l->stride_h + i * l->dilation_h) - (int32_t)l->pad_top;
    for (uint32_t j = 0; j < l->k_w; ++j) {
      const int32_t x = (int32_t)(w * l->stride_w + j * l->dilation_w) - (int32_t)l->pad_left;
      if (y < 0 || x < 0 || y >= (int32_t)l->in_h || x >= (int32_t)l->in_w) continue;
      for (uint32_t d = 0; d < depth; ++d) {
        const uint32_t tap = i * l->k_w + j;
        const uint32_t at = l->depthwise != 0u ? tap * l->out_c + c : (c * l->k_h * l->k_w + tap) * l->in_c + d;
        const uint32_t channel = l->depthwise != 0u ? c / (l->out_c / l->in_c) : d;
        const uint32_t input = ((uint32_t)y * l->in_w + (uint32_t)x) * l->in_c + channel;
        sums[input] += error * weights[at];
        units[input] += fabs((double)weights[at]);
      }
    }
  }
}

void test_conv(void) {
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
  CHECK(zo_conv_backprop_s8(&l, weights, norm, scales, errors, 3, found, &exponent, scratch) == ZO_OK);
  for (uint32_t i = 0; i < inputs; ++i) {
    /* f is half a unit off at most, and two of the errors' own if it gives up bits. */
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

void test_conv_refusals(void) {
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
#define BACK(layer, w, n, from, into, x, s) zo_conv_backprop_s8(layer, w, n, NULL, from, 0, into, x, s)
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
void test_largest_layer(void) {
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
  CHECK(zo_conv_backprop_s8(&l, weights, norm, NULL, errors, 0, found, &exponent, scratch) == ZO_OK);
  const double exact = 65536.0 * 128.0 * 32767.0;
  CHECK(fabs(ldexp((double)found[0], exponent) / exact - 1) < 0.001 && found[0] > 0);
  CHECK(found[1] == found[0]);
  free(weights);
  free(errors);
}
