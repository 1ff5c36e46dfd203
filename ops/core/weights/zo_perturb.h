/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * PERTURB: w += sum of k * perturbation(z(seed)), in place.
 */
#ifndef TFLM_ZO_OPS_CORE_WEIGHTS_ZO_PERTURB_H_
#define TFLM_ZO_OPS_CORE_WEIGHTS_ZO_PERTURB_H_

#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Adds the perturbations of some terms to a tensor's weights.
 *
 *   tensor        weights, size and stream are used
 *   distribution  see zo_types.h
 *   terms         at least one
 *
 * Every weight is changed by addition modulo 256, so the operation is exactly reversible for every
 * weight, seed and distribution: after +1, -2, +1 of one seed each weight has its old value. No
 * intermediate value wraps as long as the terms in force sum to at most one perturbation and the
 * distribution's reach is within the headroom (zo_command_check sees to the latter).
 *
 * Two terms restore one query and set up the next in a single pass over tiles of weights.
 *
 * Biases (ZO_TENSOR_INT32) move by 2^ZO_BIAS_SHIFT times a weight's move, modulo 2^32; with
 * ZO_GAUSSIAN by k * round(z * mu / 2^7), half away from zero.
 *
 * Errors: ZO_ERROR_ARGUMENT, ZO_ERROR_DISTRIBUTION, ZO_ERROR_FACTOR, ZO_ERROR_QUERIES. */
zo_status zo_perturb_s8(const zo_tensor* tensor, zo_distribution distribution, const zo_perturb_terms* terms);

/* The checks of distribution and terms alone; no terms are fine. Errors: the same. */
zo_status zo_perturb_check(zo_distribution distribution, const zo_perturb_terms* terms);

/* The same as zo_perturb_s8 for the weights [begin, begin + size) of one stream tile, unchecked.
 * Not for ZO_COORDINATE, which has no tiles. */
void zo_perturb_tile_s8(const zo_tensor* tensor, uint32_t begin, uint32_t size, zo_distribution distribution,
                        const zo_perturb_terms* terms);

/* Perturbation factors that SPSA and one-sided estimators use. */
static inline int zo_factor_allowed(int32_t k) { return k == 1 || k == -1 || k == -2; }

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_WEIGHTS_ZO_PERTURB_H_ */
