/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Directions with memory (momentum-guided sampling; QZO-FF, sec. 3.4).
 *
 * The paper draws the next direction around the last one,
 *
 *   z_1 ~ N(0, alpha),  z_2 ~ N(z_t, 1 - alpha),  z_{t+1} = beta z_1 + (1 - beta) z_2,
 *
 * an AR(1) process with memory rho = 1 - beta. alpha only splits the fresh part between two normals
 * whose sum is again one, and sets the size of the direction, which here is the distribution's, for
 * every rho. Written out,
 *
 *   z_t = sum_j a_j n(seed_{t-j}),  a_j proportional to rho^j,  sum a_j^2 = 1:
 *
 * every n comes from the seed of an earlier step, so no direction is stored; the sum is cut after
 * at most ZO_MAX_CHAIN terms. The first steps of a run have fewer.
 *
 * In integers, for a chain of J seeds and rho = momentum / 2^16:
 *
 *   p_0 = 2^16, p_j = floor(p_{j-1} momentum / 2^16)
 *   root = floor(sqrt(2^24 sum p_i^2))
 *   a_j = floor((2^27 p_j + floor(root / 2)) / root)                unit 2^-15
 *   v   = sum_j a_j z_i(seed_j), clipped to +-105 * 2^15
 *   perturbation = round(v mu / 2^27), half away from zero
 *
 * (of a bias v mu / 2^22) for ZO_GAUSSIAN, whose table ends at 105: the reach stays that of one
 * seed. A step along such a direction is c a_j, divided by 2^15 half away from zero, along each
 * seed's.
 */
#ifndef TFLM_ZO_OPS_CORE_PAPERS_ZO_CHAIN_H_
#define TFLM_ZO_OPS_CORE_PAPERS_ZO_CHAIN_H_

#include "ops/core/zo_types.h"

/* 1 in the unit of a_j. */
#define ZO_CHAIN_BITS 15

/* No step along a chain moves a weight by more than so many steps along one seed: sum a_j is at
 * most sqrt(ZO_MAX_CHAIN), and rounding adds less than the rest. */
#define ZO_CHAIN_SPREAD 3

/* The a_j of a chain.
 *
 *   momentum  rho, unit 2^-16, below 2^16
 *   weights   [count], count in 1..ZO_MAX_CHAIN, 0..2^15 each */
void zo_chain_weights(uint32_t momentum, uint32_t count, int32_t* weights);

/* Seeds of the chain that begins with a term: itself and the terms of ZO_SAME_CHAIN that follow it.
 */
uint32_t zo_chain_length(const zo_perturb_terms* terms, uint32_t first);

/* Adds the perturbation of that chain, `seeds` long, to the weights [begin, begin + size) of one
 * stream tile, as zo_perturb_tile_s8 does. */
void zo_perturb_chain_s8(const zo_tensor* tensor, uint32_t begin, uint32_t size, zo_distribution distribution,
                         const zo_perturb_terms* terms, uint32_t first, uint32_t seeds);

#endif /* TFLM_ZO_OPS_CORE_PAPERS_ZO_CHAIN_H_ */
