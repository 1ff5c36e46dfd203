/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A loop that compilers vectorize: each kernel set's file has it, with its own instructions.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_MOVE_NODES_H_
#define TFLM_ZO_OPS_KERNELS_ZO_MOVE_NODES_H_

#include "ops/core/kernels/zo_weight_loops.h"

/* to = from + moves within the block's bounds, or from where that is held. */
static inline void zo_move_nodes(const zo_node_block* block, uint32_t count, const int8_t* from, const int8_t* moves,
                                 int8_t* restrict to) {
  const int16_t held_low = (int16_t)block->held_low, held_high = (int16_t)block->held_high;
  const int16_t low = (int16_t)block->low, high = (int16_t)block->high;
  for (uint32_t i = 0; i < count; ++i) {
    const int16_t value = from[i];
    int16_t moved = (int16_t)(value + moves[i]);
    moved = moved < low ? low : moved;
    moved = moved > high ? high : moved;
    to[i] = (int8_t)(value > held_low && value < held_high ? moved : value);
  }
}

#endif /* TFLM_ZO_OPS_KERNELS_ZO_MOVE_NODES_H_ */
