/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/nodes/zo_node_move.h"

#include "ops/core/kernels/zo_apply_row.h"
#include "ops/core/kernels/zo_apply_steps.h"
#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_stream.h"
#include "ops/core/weights/zo_biases.h"
#include "ops/core/zo_features.h"

#if ZO_WITH_BITS
#include "ops/core/papers/zo_pseudo_stochastic.h"
#include "ops/core/papers/zo_update_bits.h"
#endif

/* Steps of at most 2^24 times a channel's Q31 factor, half up. */
static void scale_node_steps(int32_t* scaled, const int32_t* steps, uint32_t count, int32_t multiplier) {
  for (uint32_t j = 0; j < count; ++j) {
    const int64_t product = (int64_t)(2 * steps[j]) * multiplier + (INT64_C(1) << 31);
    scaled[j] = (int32_t)zo_floor_shift64(product, 32);
  }
}

/* --- Weights --------------------------------------------------------------------- */

/* Weights of a channel, one after the other, and their moves. */
typedef struct weight_run {
  int8_t* weights;
  int8_t* fraction; /* or null */
  const int32_t* steps;
  uint32_t count;
} weight_run;

/* Moves weights by their steps as they are. */
static inline uint32_t apply_run(const zo_node_move* m, weight_run run, uint32_t* rounding) {
  const int32_t limit = m->filter->limit, largest = (int32_t)m->step->clip;
  return zo_has_fraction(m->filter) ? zo_apply_row_16(run.weights, run.fraction, run.steps, run.count, limit, largest)
                                    : zo_apply_row_8(run.weights, run.steps, run.count, limit, largest, rounding);
}

/* Moves weights by their steps; those with a multiplier, ZO_STEPS_CHUNK at most. */
static uint32_t move_run(const zo_node_move* m, uint32_t channel, weight_run run, uint32_t* rounding) {
  const zo_tensor* tensor = m->filter;
  int32_t scaled[ZO_STEPS_CHUNK];
#if ZO_WITH_BITS
  if (m->step->rule == ZO_NODE_BITS) {
    return zo_subtract_rounded(run.weights, run.steps, run.count, m->shift, tensor->limit);
  }
#endif
  if (zo_multiplier_of(tensor) != NULL) {
    scale_node_steps(scaled, run.steps, run.count, tensor->multiplier[channel]);
    run.steps = scaled;
  }
  return apply_run(m, run, rounding);
}

/* Copies values that lie `stride` apart to where they are one after the other, or back. */
static void gather_values(int8_t* to, const int8_t* from, uint32_t count, uint32_t stride) {
  for (uint32_t j = 0; j < count; ++j) to[j] = from[(size_t)j * stride];
}

static void scatter_values(int8_t* to, const int8_t* from, uint32_t count, uint32_t stride) {
  for (uint32_t j = 0; j < count; ++j) to[(size_t)j * stride] = from[j];
}

/* Moves a run of weights of a depthwise layer, which lie as many apart as there are channels. */
static uint32_t move_apart(const zo_node_move* m, uint32_t channel, weight_run run, uint32_t* rounding) {
  const uint32_t apart = m->layer->out_c;
  int8_t weights[ZO_STEPS_CHUNK], fraction[ZO_STEPS_CHUNK];
  weight_run near = run;
  near.weights = weights;
  gather_values(weights, run.weights, run.count, apart);
  if (zo_has_fraction(m->filter)) {
    near.fraction = fraction;
    gather_values(fraction, run.fraction, run.count, apart);
  }
  const uint32_t saturated = move_run(m, channel, near, rounding);
  scatter_values(run.weights, weights, run.count, apart);
  if (zo_has_fraction(m->filter)) scatter_values(run.fraction, fraction, run.count, apart);
  return saturated;
}

/* Key of a tensor's rounding stream. */
static uint32_t rounding_key(const zo_node_move* m, const zo_tensor* tensor) {
  return zo_stream_key(m->step->seed, tensor->stream | ZO_ROUNDING_STREAM);
}

/* State of the rounding stream of a channel. */
static uint32_t channel_rounding(const zo_node_move* m, const zo_tensor* tensor, uint32_t channel) {
  return zo_stream_state(rounding_key(m, tensor), channel);
}

static uint32_t move_channel(const zo_node_move* m, uint32_t channel, const int32_t* steps) {
  const zo_tensor* tensor = m->filter;
  const int apart = zo_node_is_depthwise(m->layer);
  const uint32_t row = zo_node_row(m->layer);
  const uint32_t most = apart || zo_multiplier_of(tensor) != NULL ? ZO_STEPS_CHUNK : row;
  uint32_t rounding = !zo_has_fraction(tensor) ? channel_rounding(m, tensor, channel) : 0u;
  uint32_t saturated = 0;
  for (uint32_t i = 0; i < row; i += most) {
    const size_t at = apart ? (size_t)i * m->layer->out_c + channel : (size_t)channel * row + i;
    const weight_run run = {tensor->weights + at, zo_has_fraction(tensor) ? tensor->fraction + at : NULL, steps + i,
                            row - i < most ? row - i : most};
    saturated += apart ? move_apart(m, channel, run, &rounding) : move_run(m, channel, run, &rounding);
  }
  return saturated;
}

#if ZO_DENSE_CHANNELS > 0u
uint32_t zo_node_move_rounding(const zo_node_move* m, uint32_t channel) {
  return zo_has_fraction(m->filter) ? 0u : channel_rounding(m, m->filter, channel);
}

uint32_t zo_node_move_columns(const zo_node_move* m, uint32_t channel, size_t at, uint32_t count, const int32_t* steps,
                              uint32_t* rounding) {
  const zo_tensor* tensor = m->filter;
  weight_run run = {tensor->weights + at, zo_has_fraction(tensor) ? tensor->fraction + at : NULL, steps, count};
  if (zo_multiplier_of(tensor) == NULL && (!ZO_WITH_BITS || m->step->rule != ZO_NODE_BITS)) {
    return apply_run(m, run, rounding);
  }
  uint32_t saturated = 0;
  for (uint32_t left = count; left > 0u; left -= run.count) {
    run.count = left < ZO_STEPS_CHUNK ? left : ZO_STEPS_CHUNK;
    saturated += move_run(m, channel, run, rounding);
    run.weights += run.count;
    if (zo_has_fraction(tensor)) run.fraction += run.count;
    run.steps += run.count;
  }
  return saturated;
}
#endif

uint32_t zo_node_move_weights(const zo_node_move* m, const uint32_t* channels, uint32_t count, const int32_t* steps) {
#if ZO_ROWS_TOGETHER > 1u
  const zo_tensor* tensor = m->filter;
  if (count == ZO_ROWS_TOGETHER && (tensor->fraction == NULL || ZO_ROWS_FRACTIONS) && tensor->multiplier == NULL &&
      m->layer->depthwise == 0u && m->step->rule != ZO_NODE_BITS) {
    const uint32_t row = zo_node_row(m->layer);
    const int32_t largest = (int32_t)m->step->clip;
    uint32_t apart[ZO_ROWS_TOGETHER], rounding[ZO_ROWS_TOGETHER];
    for (uint32_t i = 0; i < ZO_ROWS_TOGETHER; ++i) apart[i] = channels[i] * row;
#if ZO_ROWS_FRACTIONS
    if (zo_has_fraction(tensor)) {
      return zo_apply_rows_16(tensor->weights, tensor->fraction, apart, steps, row, tensor->limit, largest);
    }
#endif
    const uint32_t key = rounding_key(m, tensor);
    for (uint32_t i = 0; i < ZO_ROWS_TOGETHER; ++i) rounding[i] = zo_stream_state(key, channels[i]);
    return zo_apply_rows_8(tensor->weights, apart, steps, row, tensor->limit, largest, rounding);
  }
#endif
  uint32_t saturated = 0;
  for (uint32_t i = 0; i < count; ++i) saturated += move_channel(m, channels[i], steps);
  return saturated;
}

/* --- Biases ---------------------------------------------------------------------- */

uint32_t zo_node_move_bias(const zo_node_move* m, uint32_t channel, int32_t step) {
  const zo_tensor* tensor = m->bias;
  int32_t* bias = zo_biases_of(tensor) + channel;
#if ZO_WITH_BITS
  if (m->step->rule == ZO_NODE_BITS) {
    return zo_move_bias(bias, -zo_pseudo_stochastic(step, m->shift) * (INT32_C(1) << ZO_BIAS_SHIFT));
  }
#endif
  if (tensor->multiplier != NULL) scale_node_steps(&step, &step, 1, tensor->multiplier[channel]);
  const uint32_t word = zo_stream_next(channel_rounding(m, tensor, channel));
  return zo_step_bias(bias, step, (int32_t)(word & 0xFFFFu));
}
