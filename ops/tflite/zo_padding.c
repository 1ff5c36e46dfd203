/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/tflite/zo_padding.h"

/* Sizes from here on are taken for damage: products of two stay in 64 bits, sums in 32. */
#define SIZE_END (INT32_C(1) << 20)

/* One dimension: its padding before the first input, or -1 if sizes do not fit. */
static int32_t padding_before(int padding, int32_t input, int32_t output, int taps, int stride, int dilation) {
  if (taps < 1 || taps >= SIZE_END || stride < 1 || stride >= SIZE_END || dilation < 1 || dilation >= SIZE_END ||
      input >= SIZE_END) {
    return -1;
  }
  const int64_t reach = (int64_t)(taps - 1) * dilation + 1;
  if (padding == kTfLitePaddingValid) {
    return reach <= input && output == (input - reach + stride) / stride ? 0 : -1;
  }
  if (padding != kTfLitePaddingSame || output != (input + stride - 1) / stride) return -1;
  const int64_t missing = (int64_t)(output - 1) * stride + reach - input;
  return missing > 0 ? (int32_t)(missing / 2) : 0;
}

bool zo_window_of(const TfLiteTensor* input, const TfLiteTensor* output, const zo_moves* moves, zo_window* window) {
  if (!zo_has_rank(input, 4) || !zo_has_rank(output, 4)) return false;
  const int *in = input->dims->data, *out = output->dims->data;
  const int32_t top =
      padding_before(moves->padding, in[1], out[1], moves->filter_height, moves->stride_height, moves->dilation_height);
  const int32_t left =
      padding_before(moves->padding, in[2], out[2], moves->filter_width, moves->stride_width, moves->dilation_width);
  if (in[0] != out[0] || top < 0 || left < 0) return false;
  const zo_window result = {in[0],
                            in[1],
                            in[2],
                            in[3],
                            out[1],
                            out[2],
                            moves->filter_height,
                            moves->filter_width,
                            moves->stride_height,
                            moves->stride_width,
                            moves->dilation_height,
                            moves->dilation_width,
                            top,
                            left};
  *window = result;
  return true;
}
