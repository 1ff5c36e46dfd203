/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The moves of the weights before a forward pass in a run of weight perturbation: the update of the
 * step before if it is pending, then a perturbation. A program with access to the weights applies
 * such moves itself, tensor by tensor; one that has a graph alone writes them into the graph's
 * command (zo_command.h), whose weight ops do the same.
 */
#ifndef TFLM_ZO_OPS_CORE_RUN_ZO_MOVES_H_
#define TFLM_ZO_OPS_CORE_RUN_ZO_MOVES_H_

#include "ops/core/zo_features.h"
#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Terms of one perturbation at most. */
#define ZO_MOVES_TERMS 2

typedef struct zo_term_list {
  zo_perturb_term terms[ZO_MOVES_TERMS];
  uint32_t count;
} zo_term_list;

typedef struct zo_moves {
  uint32_t update_block; /* or ZO_ALL_BLOCKS, like block */
  zo_distribution update_distribution;
  uint32_t items; /* of the update; 0: there is none */
  zo_query queries[ZO_MAX_QUERIES];
  zo_term_list restore; /* perturbation that the update undoes first */
  uint32_t block;
  zo_distribution distribution;
  zo_term_list perturb;
} zo_moves;

/* Moves a tensor that belongs to a block.
 * Errors: those of zo_update_s8 and zo_perturb_s8. They are the same for all tensors of a model and
 * a run, so none has been moved if the first is refused. */
zo_status zo_moves_apply(const zo_moves* moves, const zo_tensor* tensor, uint32_t block);

/* Writes the command that does the same, zero padded to the capacity.
 * Errors: ZO_ERROR_CAPACITY. */
zo_status zo_moves_write(const zo_moves* moves, uint32_t flags, int32_t* words, uint32_t capacity);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_RUN_ZO_MOVES_H_ */
