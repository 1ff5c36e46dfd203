/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* How a step moves the bias of a channel: the rule of zo_node_update.h. */
#ifndef TFLM_ZO_OPS_CORE_NODES_ZO_NODE_BIAS_H_
#define TFLM_ZO_OPS_CORE_NODES_ZO_NODE_BIAS_H_

#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_stream.h"

/* Whole LSB of a bias that a step of its v comes to.
 *
 *   step  unit 2^-16 LSB, within +-2^24
 *   seed  of the rounding */
static inline int32_t zo_bias_step(const zo_tensor* tensor, uint32_t channel, int32_t step,
                                   uint32_t seed) {
  const uint32_t key = zo_stream_key(seed, tensor->stream | ZO_ROUNDING_STREAM);
  const uint32_t word = zo_stream_next(zo_stream_state(key, channel));
  return zo_floor_shift(step * (INT32_C(1) << ZO_BIAS_SHIFT) + (int32_t)(word & 0xFFFFu),
                        ZO_COEFFICIENT_BITS);
}

/* Moves the bias of a channel by whole LSB; returns 1 where it was clipped. */
static inline uint32_t zo_move_bias(const zo_tensor* tensor, uint32_t channel, int32_t step) {
  int32_t* bias = (int32_t*)(void*)tensor->weights + channel;
  const int64_t size = *bias < 0 ? -(int64_t)*bias : *bias;
  const int64_t moved = (int64_t)*bias + step;
  const int64_t clipped = zo_clamp64(moved, size > ZO_BIAS_MAX ? size : ZO_BIAS_MAX);
  /* Of INT32_MIN there is no opposite, and none is reached: steps are below 2^30. */
  *bias = (int32_t)clipped;
  return (uint32_t)(clipped != moved);
}

#endif /* TFLM_ZO_OPS_CORE_NODES_ZO_NODE_BIAS_H_ */
