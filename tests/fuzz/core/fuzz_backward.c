/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Errors on their way back through operators of any geometry, any fields at all: accepted cases run
 * in buffers of exactly the sizes in the headers, every result is an error, errors of 0 stay 0, and
 * a larger exponent of the same errors changes the result's exponent alone.
 */
#include "fuzz_input.h"
#include "ops/core/backward/zo_conv_backprop.h"
#include "ops/core/backward/zo_errors.h"
#include "ops/core/backward/zo_pool_backprop.h"

/* Larger tensors are checked for being accepted alone. */
enum { kMostValues = 1500 };

static int16_t* make_errors(fuzz_input* in, uint32_t count) {
  int16_t* errors = (int16_t*)fuzz_allocate(count * sizeof(int16_t));
  const uint32_t bits = take_between(in, 0, 15);
  fill_bytes(in, errors, count * sizeof(int16_t));
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t most = (1 << bits) - 1;
    errors[i] = (int16_t)(errors[i] > most ? most : errors[i] < -most ? -most : errors[i]);
  }
  return errors;
}

static void check_errors(const int16_t* errors, uint32_t count, int may_be_other_than_0) {
  for (uint32_t i = 0; i < count; ++i) {
    HOLDS(errors[i] >= -32767);
    HOLDS(may_be_other_than_0 || errors[i] == 0);
  }
}

static int any_of(const int16_t* errors, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (errors[i] != 0) return 1;
  }
  return 0;
}

/* Any field, any value. */
static void damage(fuzz_input* in, uint32_t* fields, uint32_t count) {
  for (uint32_t damaged = take_u8(in); damaged > 200u; damaged = take_u8(in)) {
    fields[take_between(in, 0, count - 1u)] = take_flag(in) ? take_any(in) : take_between(in, 1, 4096);
  }
}

static void pass_conv(fuzz_input* in) {
  zo_node_layer l;
  memset(&l, 0, sizeof l);
  l.in_h = take_between(in, 1, 6);
  l.in_w = take_between(in, 1, 6);
  l.in_c = take_between(in, 1, 20);
  l.k_h = take_between(in, 1, 3);
  l.k_w = take_between(in, 1, 3);
  l.stride_h = take_between(in, 1, 3);
  l.stride_w = take_between(in, 1, 3);
  l.dilation_h = take_between(in, 1, 3);
  l.dilation_w = take_between(in, 1, 3);
  l.pad_top = take_between(in, 0, 5);
  l.pad_left = take_between(in, 0, 5);
  l.out_h = l.node_h = take_between(in, 1, 6);
  l.out_w = l.node_w = take_between(in, 1, 6);
  l.out_c = take_u8(in) > 240u ? take_between(in, 60, 70) : take_between(in, 1, 9);
  l.low = -129;
  l.high = 128;
  l.depthwise = (uint32_t)take_flag(in);
  if (l.depthwise != 0u) l.out_c = l.in_c * take_between(in, 1, 3);
  damage(in, (uint32_t*)&l, sizeof l / 4u);
  int8_t exponent = (int8_t)take_u8(in);
  if (zo_node_layer_check(&l) != ZO_OK) {
    int8_t none[1] = {0};
    int16_t e[1] = {0};
    int32_t sums[1];
    uint32_t norm;
    HOLDS(zo_conv_backprop_norm_s8(&l, none, sums, &norm) != ZO_OK);
    HOLDS(zo_conv_backprop_s8(&l, none, 0, NULL, e, 0, e, &exponent, sums) != ZO_OK);
    return;
  }
  const uint64_t outs = (uint64_t)l.out_h * l.out_w * l.out_c;
  const uint64_t weight_count = (uint64_t)zo_node_row(&l) * l.out_c;
  const uint32_t ins = zo_node_input_bytes(&l);
  if (ins > kMostValues || outs > kMostValues || weight_count > kMostValues) return;
  const uint32_t outputs = (uint32_t)outs;
  int8_t* weights = make_int8(in, weight_count, 127);
  if (take_flag(in)) memset(weights, -128, weight_count);
  int16_t* errors = make_errors(in, outputs);
  int16_t* scales = (int16_t*)fuzz_allocate(l.out_c * sizeof(int16_t));
  fill_bytes(in, scales, l.out_c * sizeof(int16_t));
  for (uint32_t c = 0; c < l.out_c; ++c) scales[c] = scales[c] == INT16_MIN ? 0 : scales[c];
  int16_t* found = (int16_t*)fuzz_allocate(ins * sizeof(int16_t));
  int16_t* again = (int16_t*)fuzz_allocate(ins * sizeof(int16_t));
  int32_t* scratch = (int32_t*)fuzz_allocate(zo_conv_backprop_scratch_values(&l) * sizeof(int32_t));
  uint32_t norm;
  HOLDS(zo_conv_backprop_norm_s8(&l, weights, scratch, &norm) == ZO_OK);
  const int16_t* given = take_flag(in) ? scales : NULL;
  int8_t first = 0, second = 0;
  HOLDS(zo_conv_backprop_s8(&l, weights, norm, given, errors, exponent, found, &first, scratch) == ZO_OK);
  check_errors(found, ins, any_of(errors, outputs));
  HOLDS(zo_conv_backprop_s8(&l, weights, norm, given, errors, (int8_t)(exponent / 2), again, &second, scratch) ==
        ZO_OK);
  HOLDS(memcmp(found, again, ins * sizeof found[0]) == 0);
  if (first > -128 && first < 127 && second > -128 && second < 127) {
    HOLDS(first - second == exponent - exponent / 2);
  }
  free(weights);
  free(errors);
  free(scales);
  free(found);
  free(again);
  free(scratch);
}

static void pass_pool(fuzz_input* in) {
  zo_pool p;
  p.in_h = take_between(in, 1, 7);
  p.in_w = take_between(in, 1, 7);
  p.channels = take_between(in, 1, 5);
  p.k_h = take_between(in, 1, 4);
  p.k_w = take_between(in, 1, 4);
  p.stride_h = take_between(in, 1, 4);
  p.stride_w = take_between(in, 1, 4);
  p.pad_top = take_between(in, 0, p.k_h - 1u);
  p.pad_left = take_between(in, 0, p.k_w - 1u);
  p.out_h = take_between(in, 1, (p.in_h + p.pad_top - 1u) / p.stride_h + 1u);
  p.out_w = take_between(in, 1, (p.in_w + p.pad_left - 1u) / p.stride_w + 1u);
  damage(in, (uint32_t*)&p, sizeof p / 4u);
  if (zo_pool_check(&p) != ZO_OK) return;
  const uint64_t ins = (uint64_t)p.in_h * p.in_w * p.channels;
  const uint64_t outs = (uint64_t)p.out_h * p.out_w * p.channels;
  if (ins > kMostValues || outs > kMostValues) return;
  const uint32_t inputs = (uint32_t)ins, outputs = (uint32_t)outs;
  int8_t* values = make_int8(in, inputs, (int32_t)take_between(in, 0, 127));
  int16_t* errors = make_errors(in, outputs);
  int16_t* found = (int16_t*)fuzz_allocate(inputs * sizeof(int16_t));
  int32_t* scratch = (int32_t*)fuzz_allocate(zo_pool_scratch_values(&p) * sizeof(int32_t));
  int8_t exponent;
  HOLDS(zo_max_pool_backprop(&p, values, errors, 0, found, &exponent) == ZO_OK && exponent >= 0);
  check_errors(found, inputs, any_of(errors, outputs));
  /* Nothing is lost on the way if nothing is rounded. */
  int64_t before = 0, after = 0;
  for (uint32_t i = 0; i < outputs; ++i) before += errors[i];
  for (uint32_t i = 0; i < inputs; ++i) after += found[i];
  HOLDS(exponent > 0 || before == after);
  HOLDS(zo_average_pool_backprop(&p, errors, 0, found, &exponent, scratch) == ZO_OK);
  check_errors(found, inputs, any_of(errors, outputs));
  free(values);
  free(errors);
  free(found);
  free(scratch);
}

static void pass_values(fuzz_input* in) {
  const uint32_t channels = take_between(in, 1, 8), count = channels * take_between(in, 1, 8);
  int16_t* errors = make_errors(in, count);
  int16_t* sum = make_errors(in, count);
  int16_t* mantissas = make_errors(in, channels);
  int16_t* slice = (int16_t*)fuzz_allocate(count * sizeof(int16_t));
  int8_t* outputs = make_int8(in, count, 127);
  const zo_error_factors factors = {mantissas, channels, (int32_t)take_between(in, 0, 520) - 260};
  const zo_error_factors* by = take_flag(in) ? &factors : NULL;
  const int fits = by != NULL && factors.exponent >= -255 && factors.exponent <= 255;
  int8_t exponent = (int8_t)take_u8(in);
  HOLDS(zo_add_errors(count, errors, (int8_t)take_u8(in), sum, &exponent) == ZO_OK);
  check_errors(sum, count, 1);
  HOLDS((zo_scale_errors(by, count, errors, exponent, errors, &exponent) == ZO_OK) == fits);
  check_errors(errors, count, 1);
  HOLDS(zo_mask_errors(count, outputs, (int32_t)take_u8(in) - 129, (int32_t)take_u8(in) - 128, errors) == ZO_OK);
  const uint32_t offset = take_between(in, 0, channels - 1u);
  HOLDS(zo_slice_errors(count / channels, channels, offset, channels - offset, errors, slice) == ZO_OK);
  free(errors);
  free(sum);
  free(mantissas);
  free(slice);
  free(outputs);
}

static void pass_product(fuzz_input* in) {
  zo_error_product p = {take_between(in, 1, 6), take_between(in, 1, 40), take_between(in, 1, 6),
                        take_between(in, 1, 40), (int32_t)take_u8(in) - 128};
  uint32_t count = p.repeat * p.length * p.other_repeat * p.other_length;
  uint32_t fields[5] = {p.repeat, p.length, p.other_repeat, p.other_length, count};
  damage(in, fields, 5);
  p.repeat = fields[0];
  p.length = fields[1];
  p.other_repeat = fields[2];
  p.other_length = fields[3];
  count = fields[4];
  if (!zo_product_fits(&p, count) || count > kMostValues) return;
  int16_t* errors = make_errors(in, count);
  int16_t* mantissas = make_errors(in, 256);
  int16_t* found = (int16_t*)fuzz_allocate(p.length * sizeof(int16_t));
  int16_t* scaled = (int16_t*)fuzz_allocate(count * sizeof(int16_t));
  int8_t* levels = make_int8(in, count, 127);
  const zo_error_factors factor = {mantissas, 1, (int32_t)take_between(in, 0, 520) - 260};
  const int fits = factor.exponent >= -255 && factor.exponent <= 255;
  int8_t exponent;
  HOLDS((zo_product_errors(&p, &factor, count, take_flag(in) ? levels : NULL, errors, (int8_t)take_u8(in), found,
                           &exponent) == ZO_OK) == fits);
  if (fits) check_errors(found, p.length, any_of(errors, count));
  HOLDS((zo_level_errors(mantissas, factor.exponent, count, levels, errors, (int8_t)take_u8(in), scaled, &exponent) ==
         ZO_OK) == fits);
  if (fits) check_errors(scaled, count, any_of(errors, count));
  const uint32_t pitch = take_between(in, 1, count), offset = take_between(in, 0, pitch - 1u);
  const uint32_t blocks = count / pitch, length = pitch - offset;
  HOLDS(zo_place_errors(blocks, pitch, offset, length, errors, count, scaled) == ZO_OK);
  check_errors(scaled, count, any_of(errors, count));
  free(errors);
  free(mantissas);
  free(found);
  free(scaled);
  free(levels);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_input in = {data, size};
  switch (take_between(&in, 0, 4)) {
    case 0:
      pass_pool(&in);
      break;
    case 1:
      pass_values(&in);
      break;
    case 2:
      pass_product(&in);
      break;
    default:
      pass_conv(&in);
  }
  return 0;
}
