/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/kernels/zo_svdf.h"

#include <string.h>

#include "ops/core/kernels/zo_products.h"

/* The product of an input and a filter, in the state's unit. A state with a zero point wraps, as TFLM's does. */
static int32_t feature_of(const zo_svdf* s, const int8_t* x, const int8_t* weights) {
  const int32_t sum = (int32_t)zo_products(weights, x, s->input_zero_point, s->depth);
  const int32_t value = zo_requantize(sum, s->feature);
  const int32_t low = s->is_wide ? INT16_MIN : INT8_MIN;
  return zo_clamp(value, low, -1 - low) + s->state_zero_point;
}

static uint32_t product_16(const zo_svdf* s, int32_t feature, const int16_t* time, int16_t* state) {
  memmove(state, state + 1, (size_t)(s->memory - 1) * sizeof *state);
  state[s->memory - 1] = (int16_t)feature;
  uint32_t sum = 0;
  for (int32_t i = 0; i < s->memory; ++i) sum += (uint32_t)(time[i] * (state[i] - s->state_zero_point));
  return sum;
}

static uint32_t product_8(const zo_svdf* s, int32_t feature, const int8_t* time, int8_t* state) {
  memmove(state, state + 1, (size_t)(s->memory - 1));
  state[s->memory - 1] = (int8_t)feature;
  uint32_t sum = 0;
  for (int32_t i = 0; i < s->memory; ++i) sum += (uint32_t)(time[i] * (state[i] - s->state_zero_point));
  return sum;
}

void zo_svdf_run(const zo_svdf* s, const zo_svdf_tensors* t, int32_t first, int32_t count) {
  const ptrdiff_t filters = (ptrdiff_t)s->units * s->rank;
  for (ptrdiff_t sample = first; sample < (ptrdiff_t)first + count; ++sample) {
    const int8_t* x = t->x + sample * s->depth;
    for (int32_t unit = 0; unit < s->units; ++unit) {
      uint32_t sum = (uint32_t)t->bias[unit];
      for (ptrdiff_t filter = (ptrdiff_t)unit * s->rank; filter < ((ptrdiff_t)unit + 1) * s->rank; ++filter) {
        const int32_t feature = feature_of(s, x, t->weights + filter * s->depth);
        const ptrdiff_t time = filter * s->memory, state = (sample * filters + filter) * s->memory;
        sum += s->is_wide ? product_16(s, feature, (const int16_t*)t->time + time, (int16_t*)t->state + state)
                          : product_8(s, feature, (const int8_t*)t->time + time, (int8_t*)t->state + state);
      }
      const int32_t value = zo_requantize((int32_t)sum, s->output), offset = s->zero_point;
      t->y[sample * s->units + unit] = (int8_t)(zo_clamp(value, INT8_MIN - offset, INT8_MAX - offset) + offset);
    }
  }
}
