/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* How a step moves the weights and the bias of an output channel: the rules of zo_node_update.h. */
#ifndef TFLM_ZO_OPS_CORE_NODES_ZO_NODE_MOVE_H_
#define TFLM_ZO_OPS_CORE_NODES_ZO_NODE_MOVE_H_

#include "ops/core/kernels/zo_apply_row.h"
#include "ops/core/kernels/zo_dense_sums.h"
#include "ops/core/nodes/zo_node_update.h"

typedef struct zo_node_move {
  const zo_node_layer* layer;
  const zo_tensor* filter; /* null: it stays unchanged */
  const zo_tensor* bias;   /* null: biases stay unchanged */
  const zo_node_step* step;
  uint32_t shift; /* ZO_NODE_BITS: of the values that are steps by the other rules */
} zo_node_move;

/* Moves the weights of `count` channels, ZO_ROWS_TOGETHER at most, by the same [zo_node_row] steps,
 * unit 2^-16 LSB, within +-clip, or by the gradient itself (ZO_NODE_BITS); returns how many were
 * clipped. */
uint32_t zo_node_move_weights(const zo_node_move* m, const uint32_t* channels, uint32_t count, const int32_t* steps);

#if ZO_DENSE_CHANNELS > 0u
/* The same of `count` weights of a channel that is no depthwise one, from the tensor's weight `at`
 * on. All parts of the channel but the last are multiples of four weights, and `rounding`, before
 * the first one zo_node_move_rounding, is moved on. */
uint32_t zo_node_move_columns(const zo_node_move* m, uint32_t channel, size_t at, uint32_t count, const int32_t* steps,
                              uint32_t* rounding);
uint32_t zo_node_move_rounding(const zo_node_move* m, uint32_t channel);
#endif

/* The same of a channel's bias, by the step of v; returns 1 if it was clipped. */
uint32_t zo_node_move_bias(const zo_node_move* m, uint32_t channel, int32_t step);

#endif /* TFLM_ZO_OPS_CORE_NODES_ZO_NODE_MOVE_H_ */
