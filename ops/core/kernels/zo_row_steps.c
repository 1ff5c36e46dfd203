/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/kernels/zo_row_steps.h"

#include <string.h>

/* How steps n mantissa / 2^bits are made of n = -G. From 2^(bits - 7) on, |n| gives more than any
 * clip, so it need not be larger, and fits 32 bits even where it is shifted so that `bits` exceeds
 * 32. Then one multiplication of 32 bits suffices, of whose product only the upper half counts. */
typedef struct row_scale {
  int32_t most;     /* of |G| */
  int32_t mantissa; /* less 2^32 */
  uint32_t left;    /* that n is shifted by */
  uint32_t right;   /* that the upper half of the product is, 1..31 */
  int32_t clip;
} row_scale;

/* Each of these provides scale_bounded, for whole fours of values that need no bound but `clip` and
 * are not shifted to the left, and returns the sum of their squares. */
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1) && !defined(ZO_PORTABLE)
#include "ops/core/kernels/zo_row_steps_mve.h"
#elif defined(__ARM_FEATURE_SIMD32) && !defined(ZO_PORTABLE) && !defined(__OPTIMIZE_SIZE__)
#include "ops/core/kernels/zo_row_steps_dsp.h"
#else
#define ZO_BOUNDED_STEPS 0
#endif

/* Within +-limit, where that is rarely left: one comparison. */
static inline int32_t within(int32_t value, int32_t limit) {
  if ((uint32_t)value + (uint32_t)limit <= 2u * (uint32_t)limit) return value;
  return value < 0 ? -limit : limit;
}

#ifndef ZO_ROW_SQUARES
uint64_t zo_row_squares(const int32_t* gradient, uint32_t count) {
  int64_t sum = 0;
  for (uint32_t j = 0; j < count; ++j) {
    const int32_t g = within(zo_floor_shift(gradient[j], ZO_SQUARE_SHIFT), ZO_SQUARE_MAX);
    sum += (int64_t)g * g;
  }
  return (uint64_t)sum;
}
#endif

static void scale(int32_t* values, uint32_t count, row_scale s) {
  for (uint32_t j = 0; j < count; ++j) {
    const int32_t n = -within(values[j], s.most) * (INT32_C(1) << s.left);
    const int32_t high = (int32_t)zo_floor_shift64((int64_t)n * s.mantissa, 32) + n;
    const int32_t step = zo_floor_shift(zo_floor_shift(high, s.right - 1u) + 1, 1);
    values[j] = within(step, s.clip);
  }
}

void zo_row_steps(int32_t* values, uint32_t count, int32_t largest, zo_scale factor, int32_t clip,
                  uint64_t* squares) {
  row_scale s;
  const uint32_t bits = factor.exponent > -7 ? 7u : 0u - (uint32_t)factor.exponent;
  s.left = bits < 33u ? 33u - bits : 0u;
  s.right = bits + s.left - 32u;
  s.most = bits < 38u ? INT32_C(1) << (bits - 7u) : INT32_MAX;
  s.mantissa = (int32_t)((int64_t)factor.mantissa - (INT64_C(1) << 32));
  s.clip = clip;
  const int is_zero = bits > 63u || factor.mantissa == 0u; /* the product is below 2^63 */
#if ZO_BOUNDED_STEPS
  if (!is_zero && s.left == 0u && largest <= s.most && largest < INT32_C(1) << 29) {
    const uint32_t whole = count / 4u * 4u;
    const uint64_t sum = scale_bounded(values, whole, s);
    if (squares != NULL) *squares += sum;
    values += whole;
    count -= whole;
  }
#else
  (void)largest;
#endif
  if (squares != NULL) *squares += zo_row_squares(values, count);
  if (is_zero) {
    memset(values, 0, count * sizeof values[0]);
  } else {
    scale(values, count, s);
  }
}
