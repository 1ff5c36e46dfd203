/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_softmax.h"

#include <string.h>

enum {
  kSumBits = 12,                   /* integer bits of a row's sum */
  kFraction = 31 - kZoSoftmaxBits, /* fraction bits of the exponential's argument */
  kQuarter = 1 << (kFraction - 2)
};

/* a * b * 2^-31, half up. The one product that int32 does not hold, of two INT32_MIN, occurs
 * nowhere here. */
static int32_t product(int32_t a, int32_t b) {
  return (int32_t)zo_floor_shift64((int64_t)a * b + (INT64_C(1) << 30), 31);
}

/* value * 2^bits, saturating. */
static int32_t shift_left(int32_t value, uint32_t bits) {
  const int64_t wide = (int64_t)value * (INT64_C(1) << bits);
  return (int32_t)(wide > INT32_MAX ? INT32_MAX : (wide < INT32_MIN ? INT32_MIN : wide));
}

/* e^a for a in [-1/4, 0), both in unit 2^-31: a Taylor series around -1/8. */
static int32_t exponential_near_zero(int32_t a) {
  const int32_t constant = 1895147668; /* e^(-1/8) */
  const int32_t third = 715827883;
  const int32_t x = a + (1 << 28);
  const int32_t x2 = product(x, x);
  const int32_t x3 = product(x2, x);
  const int32_t x4 = product(x2, x2);
  const int32_t rest = zo_divide_by_power(product(zo_divide_by_power(x4, 2) + x3, third) + x2, 1);
  return constant + product(constant, x + rest);
}

/* e^a, unit 2^-31, for a <= 0 in unit 2^-26. */
static int32_t exponential(int32_t a) {
  /* e^(-1/4), e^(-1/2), e^-1, … e^-16 */
  static const int32_t factors[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
  if (a == 0) return INT32_MAX;
  const int32_t near = (a & (kQuarter - 1)) - kQuarter; /* a's own rest, in [-1/4, 0) */
  const int32_t quarters = near - a;
  int32_t result = exponential_near_zero(shift_left(near, kZoSoftmaxBits));
  for (uint32_t i = 0; i < sizeof factors / sizeof factors[0]; ++i) {
    if ((quarters & (kQuarter << i)) != 0) result = product(result, factors[i]);
  }
  return result;
}

/* 1 / (1 + a) for a in [0, 1), both in unit 2^-31: Newton and Raphson's division, three rounds. */
static int32_t reciprocal(int32_t a) {
  const int32_t half = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
  int32_t x = 1515870810 + product(half, -1010580540); /* 48/17 - 32/17 half, unit 2^-29 */
  for (int round = 0; round < 3; ++round) {
    const int32_t missing = (1 << 29) - product(half, x);
    x += shift_left(product(x, missing), 2);
  }
  return shift_left(x, 1);
}

void zo_softmax_init(zo_softmax* softmax, zo_multiplier multiplier) {
  /* A logit more than 31 below the largest one counts as nothing. */
  const int64_t radius = (INT64_C(31) << kFraction) >> multiplier.shift;
  for (int32_t distance = 0; distance < 256; ++distance) {
    const int32_t own = distance <= radius ? exponential(zo_requantize(-distance, multiplier)) : 0;
    softmax->exponentials[distance] = own;
    softmax->terms[distance] = zo_divide_by_power(own, kSumBits);
  }
}

void zo_softmax_run(const zo_softmax* softmax, int32_t rows, int32_t depth, const int8_t* x, int8_t* y) {
  for (int32_t row = 0; row < rows; ++row, x += depth, y += depth) {
    int32_t largest = INT8_MIN;
    int64_t whole = 0;
    for (int32_t i = 0; i < depth; ++i) {
      if (x[i] > largest) largest = x[i];
    }
    for (int32_t i = 0; i < depth; ++i) {
      whole += softmax->terms[largest - x[i]];
    }
    if (whole >= INT64_C(512) << (31 - kSumBits)) { /* no share is above 1/512 */
      memset(y, INT8_MIN, (size_t)depth);
      continue;
    }
    /* sum = 2^(12 - zeros) (1 + a) */
    const uint32_t sum = (uint32_t)whole;
    const uint32_t zeros = (uint32_t)__builtin_clz(sum); /* the largest logit's is not 0 */
    const int32_t a = (int32_t)((sum << zeros) - (UINT32_C(1) << 31));
    const uint32_t scale = (uint32_t)reciprocal(a);
    const uint32_t bits = (uint32_t)kSumBits - zeros + 31u - 8u;
    const uint32_t half = UINT32_C(1) << (bits - 1u);
    for (int32_t i = 0; i < depth; ++i) {
      /* Both roundings are half up, since nothing is negative. */
      const uint64_t wide = (uint64_t)scale * (uint32_t)softmax->exponentials[largest - x[i]];
      const uint32_t share = (uint32_t)((wide + (UINT64_C(1) << 30)) >> 31);
      const uint32_t level = (share + half) >> bits;
      y[i] = (int8_t)((int32_t)(level < 255u ? level : 255u) + INT8_MIN);
    }
  }
}
