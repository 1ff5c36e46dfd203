/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/kernels/zo_step_signs.h"

#if ZO_STEP_SIGNS

#include "ops/core/kernels/zo_apply_steps.h"
#include "ops/core/kernels/zo_step_run.h"

/* Sum of |coefficients| that moves no weight by more than 127 LSB after rounding. */
#define MOVE_MAX (INT32_C(127) << ZO_COEFFICIENT_BITS)

/* Of a query: both signs of two weights. */
typedef struct four_signs {
  zo_two_steps of[4];
} four_signs;

/* Written out: of the loop over bits GCC 12 makes vectors with wrong constants for Cortex-M55. */
static void set_signs(four_signs* signs, uint32_t step) {
  const zo_two_steps both = {step, step};
  const zo_two_steps first_minus = {0u - step, step};
  const zo_two_steps second_minus = {step, 0u - step};
  const zo_two_steps both_minus = {0u - step, 0u - step};
  signs->of[0] = both;
  signs->of[1] = first_minus;
  signs->of[2] = second_minus;
  signs->of[3] = both_minus;
}

/* Converts a sum of coefficients to a table's entry. */
typedef struct entry_rule {
  int32_t multiplier; /* of the channel; 0: none, or nothing moves */
  uint32_t unit;      /* 1, or 2^8 for 16-bit steps */
  uint32_t bias;
} entry_rule;

static uint32_t entry_of(uint32_t sum, const entry_rule* rule) {
  if (ZO_WITH_MULTIPLIERS && ZO_LOOPS_FOR_EACH && rule->multiplier != 0) {
    sum = (uint32_t)zo_scale_step((int32_t)sum, rule->multiplier);
  }
  return sum * rule->unit + rule->bias;
}

/* The moves of a weight by one query. */
typedef struct own_moves {
  uint32_t of[2]; /* by the sign, plus or minus */
} own_moves;

#if ZO_LOOPS_FOR_EACH
/* Entries for the signs of four weights: their steps, or, `packed`, the upper halves of two and
 * two. */
ZO_NOINLINE static void make_single(zo_two_steps* to, own_moves m, int packed) {
  for (uint32_t bits = 0; bits < 16u; ++bits) {
    const uint32_t s0 = m.of[bits & 1u], s1 = m.of[bits >> 1 & 1u];
    const uint32_t s2 = m.of[bits >> 2 & 1u], s3 = m.of[bits >> 3];
    to->first = packed ? (s2 & UINT32_C(0xFFFF0000)) | s0 >> 16 : s0;
    to->second = packed ? (s3 & UINT32_C(0xFFFF0000)) | s1 >> 16 : s1;
    ++to;
    if (packed) continue;
    to->first = s2;
    to->second = s3;
    ++to;
  }
}

#endif

ZO_NOINLINE static void make_pairs(zo_two_steps* to, const zo_query* queries, uint32_t count, entry_rule rule) {
  for (uint32_t q = 0; q < count; q += 2u, rule.bias = 0) {
    four_signs one, other;
    set_signs(&one, (uint32_t)queries[q].coefficient);
    set_signs(&other, q + 1u < count ? (uint32_t)queries[q + 1u].coefficient : 0u);
    for (uint32_t bits = 0; bits < 16u; ++bits, ++to) {
      to->first = entry_of(one.of[bits & 3u].first + other.of[bits >> 2].first, &rule);
      to->second = entry_of(one.of[bits & 3u].second + other.of[bits >> 2].second, &rule);
    }
  }
}

static void make_tables(zo_step_tables* tables, const zo_query* queries, uint32_t count, entry_rule rule) {
#if ZO_LOOPS_FOR_EACH
  if (count == 1u) {
    const uint32_t coefficient = (uint32_t)queries[0].coefficient;
    const own_moves one = {{entry_of(coefficient, &rule), entry_of(0u - coefficient, &rule)}};
    make_single(tables->pairs[0], one, rule.unit > 1u);
    return;
  }
#endif
  make_pairs(tables->pairs[0], queries, count, rule);
}

/* Weights of the channel at `begin` that follow one another, as far as there are `size` of them. */
static uint32_t channel_run(const zo_tensor* tensor, uint32_t begin, uint32_t size, int32_t* multiplier) {
  const uint32_t left = tensor->inner - begin % tensor->inner;
  *multiplier = tensor->multiplier[begin / tensor->inner % tensor->channels];
  return left < size ? left : size;
}

/* Makes the tables of a step if possible. All conditions are the same in all tiles of a tensor. */
ZO_NOINLINE static void prepare(zo_step_tables* tables, const zo_tensor* tensor, const zo_query* queries,
                                uint32_t count, int32_t multiplier) {
  const int scaled = zo_multiplier_of(tensor) != NULL;
  tables->queries = queries;
  tables->multiplier = multiplier;
  tables->fit = 0;
  /* Sums of several tables cannot be multiplied. If sizes are optimized, plain steps alone. */
  if (tensor->limit > 126 || count > ZO_STEP_SIGNS_QUERIES ||
      (scaled && (count > 2u || multiplier == 0 || !ZO_LOOPS_FOR_EACH))) {
    return;
  }
  int32_t sum = 0; /* within 2^30: zo_step_check */
  for (uint32_t q = 0; q < count; ++q) {
    const int32_t coefficient = queries[q].coefficient;
    sum += coefficient < 0 ? -coefficient : coefficient;
  }
  if (sum > MOVE_MAX) return;
  tables->fit = 1;
  /* W moves by floor((step + 128) / 2^8): the high half of (step + 128) 2^8. */
  entry_rule rule = {multiplier, 1, 0};
  if (tensor->fraction != NULL) {
    rule.unit = 256u;
    rule.bias = 128u * 256u;
  }
  make_tables(tables, queries, count, rule);
}

uint32_t zo_step_signs_fit(zo_step_tables* tables, const zo_tensor* tensor, uint32_t begin, uint32_t size,
                           const zo_query* queries, uint32_t count) {
  int32_t multiplier = 0;
  if (ZO_LOOPS_FOR_EACH && zo_multiplier_of(tensor) != NULL) {
    size = channel_run(tensor, begin, size, &multiplier);
  }
  if (size < ZO_STEP_SIGNS_CHUNK) return 0;
  if (tables->queries != queries || tables->multiplier != multiplier) {
    prepare(tables, tensor, queries, count, multiplier);
  }
  return tables->fit ? size / ZO_STEP_SIGNS_CHUNK * ZO_STEP_SIGNS_CHUNK : 0u;
}

#endif
