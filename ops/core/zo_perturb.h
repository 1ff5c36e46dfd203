/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * PERTURB: w += sum of k * perturbation(z(seed)), in place.
 */
#ifndef TFLM_ZO_OPS_CORE_ZO_PERTURB_H_
#define TFLM_ZO_OPS_CORE_ZO_PERTURB_H_

#include "zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Adds the perturbations of `count` terms to a tensor's weights.
 *
 *   tensor        weights, size and stream are used; nothing else
 *   distribution  see zo_types.h
 *   terms         [count], count in 1..ZO_MAX_QUERIES, k in {-2, -1, +1}
 *
 * Every weight is changed by addition modulo 256, so the operation is exactly
 * reversible for every weight, seed and distribution: after +1, -2, +1 of one
 * seed each weight is what it was. No intermediate value wraps as long as the
 * terms in force sum to at most one perturbation and the distribution's reach
 * is within the head-room (zo_command_check sees to the latter).
 *
 * Two terms restore one query and set up the next in a single pass.
 *
 * Errors: ZO_ERROR_ARGUMENT, ZO_ERROR_DISTRIBUTION, ZO_ERROR_FACTOR,
 * ZO_ERROR_QUERIES; the weights are untouched then. */
zo_status zo_perturb_s8(const zo_tensor* tensor, zo_distribution distribution,
                        const zo_perturb_term* terms, uint32_t count);

/* The same for at most one stream block, one term, unchecked: `state` is the
 * block's zo_stream_state. The unit that optimized kernels replace. */
void zo_perturb_block_s8(int8_t* weights, uint32_t count, uint32_t state,
                         zo_distribution distribution, int32_t k);

/* Perturbation factors that SPSA and one-sided estimators use. */
static inline int zo_factor_allowed(int32_t k) { return k == 1 || k == -1 || k == -2; }

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_ZO_PERTURB_H_ */
