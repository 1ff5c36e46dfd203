/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * SOFTMAX against its definition in double: random and extreme logits of 1 to 6000 classes, scales
 * from 2^-20 to 2^3. That its bits are TFLM's is tested in Python, beside TFLM.
 */
#include <string.h>

#include "kernels_test.h"
#include "ops/kernels/zo_softmax.h"

enum { kRounds = 300 };

/* e^-x, x >= 0, without a library: a Taylor series of x / 2^20, squared 20 times. */
static double exponential(double x) {
  const double part = x / (double)(1 << 20);
  double result = 1.0 - part + part * part / 2.0;
  for (int i = 0; i < 20; ++i) result *= result;
  return result;
}

static void check_row(double scale, int32_t depth, const int8_t* x, const int8_t* y) {
  int32_t largest = INT8_MIN;
  for (int32_t i = 0; i < depth; ++i) largest = x[i] > largest ? x[i] : largest;
  double sum = 0.0;
  for (int32_t i = 0; i < depth; ++i) sum += exponential(scale * (largest - x[i]));
  for (int32_t i = 0; i < depth; ++i) {
    const double share = 256.0 * exponential(scale * (largest - x[i])) / sum - 128.0;
    const double wanted = share > 127.0 ? 127.0 : share;
    CHECK((double)y[i] >= wanted - 0.51 && (double)y[i] <= wanted + 0.51);
  }
}

void test_softmax(void) {
  for (int round = 0; round < kRounds; ++round) {
    const int32_t exponent = between(-20, 3);
    const int32_t value = between(1 << 30, INT32_MAX);
    const zo_multiplier multiplier = {value, 26 + exponent};
    const double real = (double)value / (double)(INT64_C(1) << 31);
    const double scale = exponent < 0 ? real / (double)(1 << -exponent) : real * (1 << exponent);
    const int32_t rows = between(1, 5);
    const int32_t depth = draw() & 1u ? between(1, 12) : between(1, draw() & 1u ? 511 : 6000);
    int8_t* x = bytes_of((size_t)(rows * depth));
    if (draw() & 1u) memset(x, between(INT8_MIN, INT8_MAX), (size_t)depth);
    int8_t* y = (int8_t*)allocate((size_t)(rows * depth));
    zo_softmax softmax;
    zo_softmax_init(&softmax, multiplier);
    zo_softmax_run(&softmax, rows, depth, x, y);
    for (int32_t row = 0; row < rows; ++row) {
      check_row(scale, depth, x + row * depth, y + row * depth);
    }
    free(x);
    free(y);
  }
}
