/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The zo_command tensor: the work of the weight ops in one invoke.
 *
 * int32 words; rest of the tensor ignored:
 *
 *   word 0   0: no command, a plain inference. Else 0x5A4F0000 ("ZO") + ZO_FLAG_…
 *   word 1   number of instruction words that follow
 *   then instructions, each
 *     word 0   opcode << 24 | selector; selector 0: every block, b + 1: block b
 *     word 1   n
 *     word 2   distribution: kind << 24 | p_zero << 16 | mu
 *     word 3   argument
 *     words    n items
 *
 *   opcode        n         argument   items
 *   1 RESTORE     0         0          none: initial weights, fractions 0; distribution 0
 *   2 REPLAY      steps     Q          steps * Q * (seed, coefficient)
 *   3 UPDATE      queries   R          n * (seed, coefficient), R * (seed, k):
 *                                      a perturbation that precedes the step
 *   4 PERTURB     terms     0          n * (seed, k)
 *
 * k as in zo_perturb_term.
 *
 * Opcodes must not decrease: the graph executes them in this order. The whole command is checked
 * before any weight moves.
 */
#ifndef TFLM_ZO_OPS_CORE_GRAPH_ZO_COMMAND_H_
#define TFLM_ZO_OPS_CORE_GRAPH_ZO_COMMAND_H_

#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZO_COMMAND_MAGIC UINT32_C(0x5A4F0000)
#define ZO_FLAG_LOSS UINT32_C(1)     /* LOSS computes; else it writes zeros */
#define ZO_FLAG_CHECKSUM UINT32_C(2) /* status carries the weight checksum */
#define ZO_FLAG_CONTINUE UINT32_C(4) /* states go on from the invoke before; else they are reset */

#define ZO_FLAGS (ZO_FLAG_LOSS | ZO_FLAG_CHECKSUM | ZO_FLAG_CONTINUE)

#define ZO_COMMAND_HEADER_WORDS 2
#define ZO_INSTRUCTION_HEADER_WORDS 4
#define ZO_ALL_BLOCKS UINT32_C(0xFFFFFFFF)
/* Blocks that a selector can name. */
#define ZO_BLOCKS_MAX UINT32_C(0x00FFFFFF)

typedef enum zo_opcode {
  ZO_OP_RESTORE = 1,
  ZO_OP_REPLAY = 2,
  ZO_OP_UPDATE = 3,
  ZO_OP_PERTURB = 4,
} zo_opcode;

/* --- Writing a command ------------------------------------------------- */

typedef struct zo_command_writer {
  int32_t* words; /* caller's buffer: zo_command's data, or a copy of it */
  uint32_t capacity;
  uint32_t length;
} zo_command_writer;

/* Starts a command without instructions. Every function below returns
 * ZO_ERROR_CAPACITY, and leaves the command as it was, if it does not fit.
 * `block` is a block number or ZO_ALL_BLOCKS; `restore` may be null. */
zo_status zo_command_begin(zo_command_writer* writer, int32_t* words, uint32_t capacity, uint32_t flags);
zo_status zo_command_restore(zo_command_writer* writer, uint32_t block);
zo_status zo_command_replay(zo_command_writer* writer, uint32_t block, zo_distribution distribution,
                            const zo_query* queries, uint32_t count, uint32_t steps);
zo_status zo_command_update(zo_command_writer* writer, uint32_t block, zo_distribution distribution,
                            const zo_perturb_terms* restore, const zo_query* queries, uint32_t count);
zo_status zo_command_perturb(zo_command_writer* writer, uint32_t block, zo_distribution distribution,
                             const zo_perturb_terms* terms);

/* --- Executing a command ------------------------------------------------ */

/* The limits of a model, from the weight op's options. */
typedef struct zo_limits {
  uint32_t headroom;    /* largest perturbation of a weight, LSB */
  uint32_t max_queries; /* queries of one UPDATE or step of a REPLAY; terms of perturbations are
                           not limited by the model */
  uint32_t blocks;      /* number of blocks */
} zo_limits;

/* Checks a whole command. `words` need not be aligned beyond int32. */
zo_status zo_command_check(const int32_t* words, uint32_t capacity, const zo_limits* limits);

/* Flags of a checked command; 0 if there is none. */
uint32_t zo_command_flags(const int32_t* words);

/* Whether the command restores every block. */
int zo_command_restores_all(const int32_t* words);

/* Steps that the instructions of `opcode` (REPLAY, UPDATE) apply. */
uint32_t zo_command_steps(const int32_t* words, zo_opcode opcode);

/* Sets a tensor's weights, and its fractions to 0: RESTORE. */
void zo_restore_s8(const zo_tensor* tensor, const int8_t* initial);

/* Runs the instructions of one opcode that select `block` on one tensor.
 *
 *   words    a command that passed zo_command_check with the model's limits
 *   initial  int8 [tensor->size], the weights RESTORE copies; else may be null
 *   saturated  number of clipped weights is added to it */
zo_status zo_command_execute(const int32_t* words, zo_opcode opcode, const zo_tensor* tensor, uint32_t block,
                             const int8_t* initial, uint32_t* saturated);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_GRAPH_ZO_COMMAND_H_ */
