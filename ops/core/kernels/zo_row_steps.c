/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/kernels/zo_row_steps.h"

#include <stddef.h>

#include "ops/core/zo_target.h"

/* Each provides scale_bounded, for values that need no bound but `clip` and are not shifted to the
 * left, a multiple of ZO_BOUNDED_STEPS of them; it returns the sum of their squares. */
#if ZO_MVE
#include "ops/core/kernels/zo_row_steps_mve.h"
#elif ZO_DSP && !defined(__OPTIMIZE_SIZE__)
#include "ops/core/kernels/zo_row_steps_dsp.h"
#else
#define ZO_BOUNDED_STEPS 0
#endif

/* Within +-limit, where that is rarely left: one comparison. */
static inline int32_t within_limit(int32_t value, int32_t limit) {
  if ((uint32_t)value + (uint32_t)limit <= 2u * (uint32_t)limit) return value;
  return value < 0 ? -limit : limit;
}

#ifndef ZO_ROW_SQUARES
uint64_t zo_row_squares(const int32_t* gradient, uint32_t count) {
  int64_t sum = 0;
  for (uint32_t j = 0; j < count; ++j) {
    const int32_t g = within_limit(zo_floor_shift(gradient[j], ZO_SQUARE_SHIFT), ZO_SQUARE_MAX);
    sum += (int64_t)g * g;
  }
  return (uint64_t)sum;
}
#endif

static void scale_row(int32_t* values, uint32_t count, const zo_row_scale* s) {
  for (uint32_t j = 0; j < count; ++j) {
    const int32_t g = within_limit(values[j], s->most) * (INT32_C(1) << s->left);
    const int32_t high = (int32_t)zo_floor_shift64((int64_t)g * s->lacking, 32) - g;
    const int32_t step = zo_floor_shift(zo_floor_shift(high, s->right - 1u) + 1, 1);
    values[j] = within_limit(step, s->clip);
  }
}

zo_row_scale zo_row_scale_of(zo_scale factor, int32_t clip) {
  zo_row_scale s;
  uint32_t bits = factor.exponent > -7 ? 7u : 0u - (uint32_t)factor.exponent;
  /* A power of two is taken as 2^32: its distance to 2^31 would not fit 31 bits. */
  if (factor.mantissa == UINT32_C(1) << 31) ++bits;
  s.left = bits < 33u ? 33u - bits : 0u;
  s.right = bits + s.left - 32u;
  s.most = bits < 38u ? INT32_C(1) << (bits - 7u) : INT32_MAX;
  if (bits > 63u || factor.mantissa == 0u) { /* the product is below 2^63 */
    s.most = 0;
    s.right = 1;
  }
  s.lacking = (int32_t)((0u - factor.mantissa) & INT32_MAX);
  s.clip = clip;
  return s;
}

void zo_row_steps(int32_t* values, uint32_t count, int32_t largest, const zo_row_scale* s, uint64_t* squares) {
#if ZO_BOUNDED_STEPS
  if (s->left == 0u && largest < s->most && largest < INT32_C(1) << 29) {
    const uint32_t whole = count / ZO_BOUNDED_STEPS * ZO_BOUNDED_STEPS;
    const uint64_t sum = scale_bounded(values, whole, s);
    if (squares != NULL) *squares += sum;
    values += whole;
    count -= whole;
    if (count == 0u) return;
  }
#else
  (void)largest;
#endif
  if (squares != NULL) *squares += zo_row_squares(values, count);
  scale_row(values, count, s);
}
