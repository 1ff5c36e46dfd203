/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The common case of a replay, a tile of weights at a time: Rademacher directions, one query a
 * step, 16-bit update, no multipliers. Weights stay in the update's own form, W = 256 w +
 * fraction, in 16 bits over all steps, and every step is one of two additions. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_REPLAY_TILE_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_REPLAY_TILE_H_

#include "ops/core/zo_types.h"

/* Whether a tile of weights can be replayed so: all are within the limit, as between steps. */
int zo_replay_tile_fits(const zo_tensor* tensor, uint32_t begin, uint32_t count);

/* zo_replay_s8 on weights [begin, begin + count) of one stream tile, one query a step. Returns the
 * number of clipped weights. */
uint32_t zo_replay_tile(const zo_tensor* tensor, uint32_t begin, uint32_t count, const zo_query* steps,
                        uint32_t step_count);

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_REPLAY_TILE_H_ */
