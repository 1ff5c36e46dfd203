/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Which block of layers is best trained alone: a state machine that asks for a short training, a
 * probe, of each block and keeps the best (Poor Man's Training, sec. 3.3: block-sparse training
 * with a task-adaptive choice). The caller defines the blocks and trains them; the state is a
 * handful of words for any number of blocks, weights and samples.
 *
 * Part of the samples is held out of the probes. The owner of the interpreter runs this loop:
 *
 *   zo_block_choice_init(&choice, blocks);
 *   while (zo_block_choice_next(&choice, &request) == ZO_OK &&
 *          request.action == ZO_BLOCK_PROBE) {
 *     restore the weights that the model started with (zo_command_restore());
 *     train the layers of block request.block alone for some steps on the samples that are not
 *     held out: a run of zo_node_run.h whose tasks are those of the block;
 *     run the held-out samples forward and score them;
 *     zo_block_choice_report(&choice, score);
 *   }
 *   restore the weights once more; train block request.block alone, on all samples;
 *
 * Between two calls the state may be kept anywhere, such as in flash: after a power failure the
 * probe in progress is repeated.
 */
#ifndef TFLM_ZO_OPS_CORE_RUN_ZO_BLOCK_CHOICE_H_
#define TFLM_ZO_OPS_CORE_RUN_ZO_BLOCK_CHOICE_H_

#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zo_block_action {
  ZO_BLOCK_DONE = 0,
  ZO_BLOCK_PROBE = 1,
} zo_block_action;

typedef struct zo_block_request {
  uint32_t action;
  uint32_t block; /* PROBE: the one to train; DONE: the best */
} zo_block_request;

/* The state. All fields may be read, none may be written. */
typedef struct zo_block_choice {
  uint32_t blocks;
  uint32_t block; /* number of probes done */
  uint32_t best;  /* of those */
  int64_t score;  /* of the best */
} zo_block_choice;

/* Sets the state before the first probe of 1 or more blocks.
 * Errors: ZO_ERROR_ARGUMENT. */
zo_status zo_block_choice_init(zo_block_choice* choice, uint32_t blocks);

/* Returns the next request; the same again until it is reported. Blocks are probed in their order.
 * Errors: ZO_ERROR_ARGUMENT. */
zo_status zo_block_choice_next(const zo_block_choice* choice, zo_block_request* request);

/* Takes the score of the probe in progress, any number, larger is better: such as the number of
 * held-out samples that are right, or minus the sum of their losses. Of equal scores the earlier
 * block's counts.
 * Errors: ZO_ERROR_ARGUMENT; ZO_ERROR_ORDER: all blocks have theirs. */
zo_status zo_block_choice_report(zo_block_choice* choice, int64_t score);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_RUN_ZO_BLOCK_CHOICE_H_ */
