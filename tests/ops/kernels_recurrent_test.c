/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Operators with a state, of random sizes, for the sanitizers: SVDF against its definition, sample by sample; an
 * LSTM over samples of several steps against one sample and step at a time. That bits are TFLM's is tested in Python,
 * beside TFLM.
 */
#include <string.h>

#include "kernels_test.h"
#include "ops/core/kernels/zo_lstm.h"
#include "ops/core/kernels/zo_svdf.h"

enum { kRounds = 200, kInvokes = 5 };

static zo_multiplier multiplier_of(int32_t low, int32_t high) {
  const zo_multiplier result = {between(1 << 30, INT32_MAX), between(low, high)};
  return result;
}

static int32_t state_at(const zo_svdf* s, const void* values, int32_t at) {
  return s->is_wide ? ((const int16_t*)values)[at] : ((const int8_t*)values)[at];
}

/* The state that a sample's filters have after an input: all features move by one place. */
static void move_on(const zo_svdf* s, const zo_svdf_tensors* t, int32_t sample, int32_t* state) {
  const int32_t filters = s->units * s->rank, limit = s->is_wide ? INT16_MAX : INT8_MAX;
  for (int32_t f = 0; f < filters; ++f) {
    int32_t* row = state + (sample * filters + f) * s->memory;
    int32_t sum = 0;
    for (int32_t i = 0; i < s->depth; ++i) {
      sum += t->weights[f * s->depth + i] * (t->x[sample * s->depth + i] - s->input_zero_point);
    }
    for (int32_t i = 0; i + 1 < s->memory; ++i) row[i] = row[i + 1];
    const int32_t feature = zo_clamp(zo_requantize(sum, s->feature), -1 - limit, limit) + s->state_zero_point;
    row[s->memory - 1] = s->is_wide ? (int16_t)feature : (int8_t)feature;
  }
}

static int8_t output_of(const zo_svdf* s, const zo_svdf_tensors* t, int32_t sample, int32_t unit,
                        const int32_t* state) {
  int64_t sum = t->bias[unit];
  for (int32_t i = unit * s->rank * s->memory; i < (unit + 1) * s->rank * s->memory; ++i) {
    const int32_t feature = state[sample * s->units * s->rank * s->memory + i] - s->state_zero_point;
    sum += (int64_t)state_at(s, t->time, i) * feature;
  }
  const int64_t value = (int64_t)zo_requantize((int32_t)(uint32_t)(uint64_t)sum, s->output) + s->zero_point;
  return (int8_t)(value < INT8_MIN ? INT8_MIN : (value > INT8_MAX ? INT8_MAX : value));
}

static void test_svdf(void) {
  const int32_t samples = between(1, 3);
  const zo_svdf s = {between(1, 40),     between(1, 6),         between(1, 3),
                     between(1, 9),      between(-128, 127),    draw() & 1u ? 0 : between(-128, 127),
                     between(-128, 127), multiplier_of(-14, 3), multiplier_of(-31, 0),
                     (draw() & 1u) != 0u};
  const int32_t filters = s.units * s.rank, states = samples * filters * s.memory;
  const size_t width = s.is_wide ? 2u : 1u;
  int32_t* before = (int32_t*)allocate((size_t)states * sizeof *before);
  int32_t* bias = (int32_t*)allocate((size_t)s.units * sizeof *bias);
  for (int32_t i = 0; i < s.units; ++i) bias[i] = (int32_t)draw() >> between(0, 31);
  int8_t* weights = bytes_of((size_t)(filters * s.depth));
  int8_t *time = bytes_of((size_t)(filters * s.memory) * width), *state = bytes_of((size_t)states * width);
  int8_t* y = (int8_t*)allocate((size_t)(samples * s.units));
  for (int32_t i = 0; i < states; ++i) before[i] = state_at(&s, state, i);
  for (int invoke = 0; invoke < kInvokes; ++invoke) {
    int8_t* x = bytes_of((size_t)(samples * s.depth));
    const zo_svdf_tensors t = {x, weights, time, bias, state, y};
    const int32_t first = between(0, samples - 1);
    zo_svdf_run(&s, &t, first, samples - first);
    zo_svdf_run(&s, &t, 0, first);
    for (int32_t sample = 0; sample < samples; ++sample) {
      move_on(&s, &t, sample, before);
      for (int32_t u = 0; u < s.units; ++u) CHECK(y[sample * s.units + u] == output_of(&s, &t, sample, u, before));
    }
    for (int32_t i = 0; i < states; ++i) CHECK(before[i] == state_at(&s, state, i));
    free(x);
  }
  free(before);
  free(bias);
  free(weights);
  free(time);
  free(state);
  free(y);
}

static int8_t* copy_of(const void* values, size_t bytes) {
  int8_t* copy = (int8_t*)allocate(bytes);
  memcpy(copy, values, bytes);
  return copy;
}

/* Runs one sample and one step at a time, in the LSTM's order of steps or in another one. */
static void run_single(zo_lstm s, zo_lstm_tensors t) {
  const int32_t samples = s.samples, steps = s.steps;
  const zo_lstm_tensors all = t;
  s.samples = s.steps = 1;
  for (int32_t step = 0; step < steps; ++step) {
    for (int32_t sample = samples - 1; sample >= 0; --sample) {
      const int32_t row = s.time_major ? step * samples + sample : sample * steps + step;
      t.x = all.x + row * s.depth;
      t.y = all.y + row * s.units;
      t.h = all.h + sample * s.units;
      t.cell = all.cell + sample * s.units;
      zo_lstm_run(&s, &t, 0, 1);
    }
  }
}

static void test_lstm(void) {
  zo_lstm s = {between(1, 3),
               between(1, 4),
               between(1, 20),
               between(1, 20),
               (draw() & 1u) != 0u,
               between(-128, 127),
               between(-128, 127),
               {{0, 0}},
               {{0, 0}},
               {1 << 30, -14},
               {1 << 30, 0},
               multiplier_of(-31, -15),
               -between(0, 30),
               (draw() & 1u) != 0u,
               between(0, 32767)};
  s.added.shift = -29 - s.cell_power;
  int32_t* biases[kZoGates];
  zo_lstm_tensors t;
  for (int gate = 0; gate < kZoGates; ++gate) {
    s.input[gate] = multiplier_of(-12, 20);
    s.hidden[gate] = multiplier_of(-12, 20);
    t.input[gate] = bytes_of((size_t)(s.units * s.depth));
    t.hidden[gate] = bytes_of((size_t)(s.units * s.units));
    biases[gate] = (int32_t*)allocate((size_t)s.units * sizeof(int32_t));
    for (int32_t i = 0; i < s.units; ++i) biases[gate][i] = (int32_t)draw() >> between(0, 31);
    t.bias[gate] = biases[gate];
  }
  const size_t states = (size_t)(s.samples * s.units), outputs = states * (size_t)s.steps;
  int8_t *x = bytes_of((size_t)(s.samples * s.steps * s.depth)), *h = bytes_of(states), *cell = bytes_of(2u * states);
  int8_t *y = (int8_t*)allocate(outputs), *own_h = copy_of(h, states), *own_cell = copy_of(cell, 2u * states);
  t.x = x;
  t.h = h;
  t.cell = (int16_t*)(void*)cell;
  t.y = y;
  zo_lstm_tensors own = t;
  own.h = own_h;
  own.cell = (int16_t*)(void*)own_cell;
  own.y = (int8_t*)allocate(outputs);
  const int32_t first = between(0, s.samples - 1);
  zo_lstm_run(&s, &t, first, s.samples - first);
  zo_lstm_run(&s, &t, 0, first);
  run_single(s, own);
  CHECK(memcmp(t.y, own.y, outputs) == 0);
  CHECK(memcmp(h, own_h, states) == 0);
  CHECK(memcmp(cell, own_cell, 2u * states) == 0);
  for (int gate = 0; gate < kZoGates; ++gate) {
    free((void*)(uintptr_t)t.input[gate]);
    free((void*)(uintptr_t)t.hidden[gate]);
    free(biases[gate]);
  }
  free(x);
  free(h);
  free(cell);
  free(y);
  free(own_h);
  free(own_cell);
  free(own.y);
}

void test_recurrent(void) {
  for (int round = 0; round < kRounds; ++round) {
    test_svdf();
    test_lstm();
  }
}
