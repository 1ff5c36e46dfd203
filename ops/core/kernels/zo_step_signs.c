/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/kernels/zo_step_signs.h"

#if ZO_STEP_SIGNS

#include "ops/core/kernels/zo_step_run.h"

/* Sum of |coefficients| that moves no weight by more than 127 LSB after rounding. */
#define MOVE_MAX (INT32_C(127) << ZO_COEFFICIENT_BITS)

/* Of a query: both signs of two weights. */
typedef struct four_signs {
  zo_two_steps of[4];
} four_signs;

/* Written out: of the loop over bits GCC 12 makes vectors with wrong constants for Cortex-M55. */
static void set_signs(four_signs* signs, uint32_t step, uint32_t bias) {
  const zo_two_steps both = {bias + step, bias + step};
  const zo_two_steps first_minus = {bias - step, bias + step};
  const zo_two_steps second_minus = {bias + step, bias - step};
  const zo_two_steps both_minus = {bias - step, bias - step};
  signs->of[0] = both;
  signs->of[1] = first_minus;
  signs->of[2] = second_minus;
  signs->of[3] = both_minus;
}

/* `unit` and `bias` make 8-bit steps (1, 0), or 16-bit ones. */
ZO_NOINLINE static void make_tables(zo_step_tables* tables, const zo_query* queries, uint32_t count,
                                    uint32_t unit, uint32_t bias) {
  const int is_single = ZO_LOOPS_FOR_EACH && count == 1u;
  zo_two_steps* sums = tables->pairs[0];
  for (uint32_t q = 0; q < count; q += 2u, bias = 0) {
    four_signs one, other;
    set_signs(&one, (uint32_t)queries[q].coefficient * unit, bias);
    set_signs(&other, q + 1u < count ? (uint32_t)queries[q + 1u].coefficient * unit : 0u, 0);
    for (uint32_t bits = 0; bits < 16u; ++bits) {
      const zo_two_steps a = one.of[bits & 3u];
      const zo_two_steps b = is_single ? one.of[bits >> 2] : other.of[bits >> 2];
      sums[0].first = is_single ? a.first : a.first + b.first;
      sums[0].second = is_single ? a.second : a.second + b.second;
      if (is_single) *++sums = b;
      ++sums;
    }
  }
}

int zo_step_signs_fit(zo_step_tables* tables, const zo_tensor* tensor, uint32_t size,
                      const zo_query* queries, uint32_t count) {
  if (tensor->multiplier != NULL || tensor->mask != NULL || tensor->limit > 126 ||
      count > ZO_STEP_SIGNS_QUERIES || size < ZO_STEP_SIGNS_CHUNK) {
    return 0;
  }
  const int has_fraction = tensor->fraction != NULL;
  if (tables->queries != queries) {
    tables->queries = queries;
    tables->sum = 0; /* within 2^30: zo_step_check */
    for (uint32_t q = 0; q < count; ++q) {
      const int32_t coefficient = queries[q].coefficient;
      tables->sum += coefficient < 0 ? -coefficient : coefficient;
    }
    /* W moves by floor((step + 128) / 2^8): the high half of (step + 128) 2^8. */
    make_tables(tables, queries, count, has_fraction ? 256u : 1u, has_fraction ? 128u * 256u : 0u);
  }
  return tables->sum <= MOVE_MAX;
}

#endif
