/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Loops over weights and nodes of a desktop's kernel sets (ops/kernels). They give the bits of the
 * portable forms, which call them if there are any; firmware has none.
 */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_WEIGHT_LOOPS_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_WEIGHT_LOOPS_H_

#include "ops/core/kernels/zo_add_products.h"
#include "ops/core/zo_types.h"
#include "ops/core/zo_workers.h"

/* Fewer weights than these are not worth a call. */
#define ZO_LOOPS_MIN 64u

typedef struct zo_weight_loops zo_weight_loops; /* of a kernel set */

/* The loops of the best kernel set that this machine can run; null if that has none. */
const zo_weight_loops* zo_weight_loops_of_machine(void);

/* Both return 0 without any change if the loops do not support the (valid) arguments: multipliers,
 * biases, chains, many queries, tensors of a few weights. */

/* zo_perturb_s8. */
int zo_loops_perturb(const zo_weight_loops* loops, const zo_tensor* tensor, zo_distribution distribution,
                     const zo_perturb_terms* terms);

/* zo_update_s8 if `steps` is 1, zo_replay_s8 if nothing is restored; the number of clipped
 * weights is added to `clipped`. */
int zo_loops_update(const zo_weight_loops* loops, const zo_tensor* tensor, zo_distribution distribution,
                    const zo_perturb_terms* restore, const zo_query* queries, uint32_t count, uint32_t steps,
                    uint32_t* clipped);

/* zo_apply_row_8 on the first weights of a row, of any length; returns how many it has moved, a
 * multiple of ZO_LOOPS_MIN. */
uint32_t zo_loops_apply_row(const zo_weight_loops* loops, int8_t* weights, const int32_t* steps, uint32_t count,
                            int32_t limit, uint32_t* stream, uint32_t* clipped);

/* zo_add_products on the first sums, of any number; returns how many it has done. */
uint32_t zo_loops_add_products(const zo_weight_loops* loops, int32_t* sums, uint32_t count, const zo_product* products,
                               uint32_t number, size_t offset, int32_t zero_point);

/* sums[i] = the sum over queries of coefficients[q], or of its opposite if sign first + i of the
 * stream of seeds[q] is a minus; i < count. */
void zo_loops_sum_signs(const zo_weight_loops* loops, const uint32_t* seeds, const int32_t* coefficients,
                        uint32_t queries, uint32_t stream, uint32_t first, uint32_t count, int32_t* sums);

/* The nodes of a sample, [positions, channels], and how they are moved. */
typedef struct zo_node_block {
  uint32_t positions, channels;
  int32_t held_low, held_high; /* values <= held_low or >= held_high do not move */
  int32_t low, high;           /* bounds of the others when they have moved, int8 */
} zo_node_block;

/* to = from + k or from - k, by the signs of a stream, of which a channel's lie next to each other.
 * Returns 0, and has done nothing, if there are more nodes than it is made for. */
int zo_loops_perturb_nodes(const zo_weight_loops* loops, const zo_node_block* block, const int8_t* from, uint32_t seed,
                           uint32_t stream, int32_t k, int8_t* to);

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_WEIGHT_LOOPS_H_ */
