/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_reduce.h"

#include <string.h>

int64_t zo_reduce_count(const zo_reduce* reduce) {
  int64_t count = 1;
  for (int32_t i = 0; i < reduce->rank; ++i) {
    if (reduce->summed[i]) count *= reduce->dims[i];
  }
  return count;
}

zo_multiplier zo_reduce_mean_multiplier(zo_multiplier multiplier, int64_t count) {
  int32_t shift = 0;
  while (shift < 32 && count >> (shift + 1) != 0) ++shift;
  if (shift > 31 + multiplier.shift) shift = 31 + multiplier.shift;
  const zo_multiplier result = {(int32_t)((int64_t)((uint64_t)(uint32_t)multiplier.value << shift) / count),
                                multiplier.shift - shift};
  return result;
}

/* Adds a run along the last axis. */
static void add_run(const zo_reduce* reduce, const int8_t* x, int32_t* sums) {
  const int32_t length = reduce->dims[reduce->rank - 1];
  if (reduce->summed[reduce->rank - 1]) {
    int32_t sum = 0;
    for (int32_t i = 0; i < length; ++i) sum += x[i];
    *sums += sum;
  } else {
    for (int32_t i = 0; i < length; ++i) sums[i] += x[i];
  }
}

/* Outputs that lie between neighbours along each axis; 0 for axes that are summed. */
static void output_steps(const zo_reduce* reduce, size_t steps[kZoReduceRank]) {
  size_t step = 1;
  for (int32_t i = reduce->rank - 1; i >= 0; --i) {
    steps[i] = reduce->summed[i] ? 0u : step;
    if (!reduce->summed[i]) step *= (size_t)reduce->dims[i];
  }
}

void zo_reduce_run(const zo_reduce* reduce, const int8_t* x, int8_t* y) {
  size_t steps[kZoReduceRank];
  int32_t at[kZoReduceRank] = {0};
  const int32_t last = reduce->rank - 1;
  output_steps(reduce, steps);
  memset(reduce->sums, 0, reduce->outputs * sizeof *reduce->sums);
  for (int32_t axis = 0; axis >= 0;) {
    size_t first = 0;
    for (int32_t i = 0; i < last; ++i) first += (size_t)at[i] * steps[i];
    add_run(reduce, x, reduce->sums + first);
    x += reduce->dims[last];
    axis = last - 1;
    while (axis >= 0 && ++at[axis] == reduce->dims[axis]) at[axis--] = 0;
  }
  const int64_t zero = reduce->input_zero_point * zo_reduce_count(reduce);
  for (size_t i = 0; i < reduce->outputs; ++i) {
    const int32_t sum = (int32_t)(reduce->sums[i] - zero);
    const int32_t offset = reduce->zero_point;
    const int32_t value = zo_requantize(sum, reduce->multiplier);
    y[i] = (int8_t)(zo_clamp(value, INT8_MIN - offset, INT8_MAX - offset) + offset);
  }
}
