/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * UPDATE by the direction of one seed and a sign alone: ElasticZO-INT8's step of perturbed weights.
 */
#ifndef TFLM_ZO_OPS_CORE_PAPERS_ZO_UPDATE_BITS_H_
#define TFLM_ZO_OPS_CORE_PAPERS_ZO_UPDATE_BITS_H_

#include "ops/core/zo_types.h"

/* Moves every weight against direction * z, rounded to `bits` bits.
 *
 *   update_i = direction * round(z_i / 2^shift), shift = max(0, B - bits)
 *   w_i      = clip(w_i - update_i, -limit, limit)
 *
 *   z          the tensor's direction of `seed` (zo_stream.h), by which zo_perturb_s8 perturbs; for
 *              ZO_GAUSSIAN in units of its table of quantiles, for every mu
 *   B          bit width of zo_distribution_z_max: 1 for ZO_RADEMACHER, that of mu for
 *              ZO_SPARSE_UNIFORM, 7 for ZO_GAUSSIAN
 *   round      zo_pseudo_stochastic
 *   w          of a bias: v of b = 2^ZO_BIAS_SHIFT v, so b moves by 2^ZO_BIAS_SHIFT update_i
 *   tensor     weights, size, stream and limit are used; multiplier is not. fraction must be
 *              null: an update of whole LSB has no use for fractions
 *   direction  -1, 0 or +1: the sign of the loss difference L(w + z) - L(w - z); 0 moves nothing
 *   bits       1..7: the step's size
 *   saturated  if not null, the number of clipped weights is added to it
 *
 * No |update| is larger than 2^bits.
 *
 * Source: ElasticZO-INT8, Alg. 2, lines 19 to 25.
 *
 * Errors: ZO_ERROR_ARGUMENT, ZO_ERROR_DISTRIBUTION (ZO_COORDINATE included), ZO_ERROR_FACTOR. */
zo_status zo_update_bits_s8(const zo_tensor* tensor, zo_distribution distribution, uint32_t seed, int32_t direction,
                            uint32_t bits, uint32_t* saturated);

/* w = clip(w - zo_pseudo_stochastic(value, shift), -limit, limit) for `count` weights, unchecked;
 * returns how many were clipped. The unit of every update to a few bits. */
uint32_t zo_subtract_rounded(int8_t* weights, const int32_t* values, uint32_t count, uint32_t shift, int32_t limit);

#endif /* TFLM_ZO_OPS_CORE_PAPERS_ZO_UPDATE_BITS_H_ */
