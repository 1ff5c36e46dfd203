/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * UPDATE: one optimization step on a tensor, every direction regenerated.
 */
#ifndef TFLM_ZO_OPS_CORE_WEIGHTS_ZO_UPDATE_H_
#define TFLM_ZO_OPS_CORE_WEIGHTS_ZO_UPDATE_H_

#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Applies one step of `count` queries in one pass over the weights.
 *
 *   delta_i = sum_q coefficient_q * z_i(seed_q)          unit: 2^-16 LSB
 *   delta_i = round(delta_i * multiplier[channel] / 2^31)  if given, half up
 *
 * 8-bit update (tensor->fraction null), stochastic rounding:
 *
 *   w_i = clip(w_i + floor((delta_i + r_i) / 2^16), -limit, limit)
 *
 * with r_i uniform on 0..65535 from the rounding stream of the first query's seed: the expectation
 * of the step is exactly delta_i.
 *
 * 16-bit update (tensor->fraction given), W_i = 256 w_i + fraction_i:
 *
 *   W_i = clip(W_i + floor((delta_i + 128) / 2^8), -256 limit, 256 limit)
 *   w_i = floor((W_i + 128) / 256), fraction_i = W_i - 256 w_i in -128..127
 *
 * so nothing is lost if the coefficients are multiples of 2^8 and there is no multiplier.
 *
 * Biases (ZO_TENSOR_INT32), b_i = 2^5 v_i of which v_i takes the step, with the same r_i:
 *
 *   b_i = b_i + floor((2^5 delta_i + r_i) / 2^16), within +-max(ZO_BIAS_MAX, |b_i|)
 *
 * ZO_COORDINATE leaves weights that no query moves alone, even if they exceed the limit.
 *
 *   tensor     see zo_types.h
 *   restore    if not null, a perturbation that is added before the step (as in zo_perturb_s8), to
 *              undo the one in force in the same pass; does not affect fraction
 *   queries    [count], count in 1..ZO_MAX_QUERIES, sum |coefficient| * max |z| <= 2^30
 *   saturated  if not null, the number of clipped weights is added to it
 *
 * Source: the SPSA / RGE estimator summed over queries (Poor Man's Training, eq. 6 and 7), with
 * -eta / (Q mu) * loss difference as the coefficients.
 *
 * Errors: those of zo_perturb_s8, ZO_ERROR_COEFFICIENT. */
zo_status zo_update_s8(const zo_tensor* tensor, zo_distribution distribution, const zo_perturb_terms* restore,
                       const zo_query* queries, uint32_t count, uint32_t* saturated);

/* SEED_REPLAY: `steps` recorded steps of `count` queries each, those of step t at queries[t * count].
 * The bits of as many zo_update_s8 calls (restore null), but it walks the weights once, a tile at a
 * time, so that a tile stays in cache over all steps. */
zo_status zo_replay_s8(const zo_tensor* tensor, zo_distribution distribution, const zo_query* queries, uint32_t count,
                       uint32_t steps, uint32_t* saturated);

/* Whether zo_update_s8 takes a tensor; then zo_perturb_s8 does, too. */
int zo_update_takes(const zo_tensor* tensor);

/* The checks of one step's queries alone. */
zo_status zo_step_check(zo_distribution distribution, const zo_query* queries, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_WEIGHTS_ZO_UPDATE_H_ */
