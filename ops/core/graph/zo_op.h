/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The custom ops, independent of any runtime: an adapter (ops/tflite, ops/tflm) hands over the op's
 * options and tensors and gets a status.
 *
 * Weight ops (TFLM_ZO_SEED_REPLAY, TFLM_ZO_UPDATE, TFLM_ZO_PERTURB):
 *
 *   inputs   0 zo_command  int32 [words]
 *            1 zo_state    int32 [4], variable tensor shared by the segment's weight ops:
 *                          {ZO_STATE_MAGIC once the weights are initialized, steps, saturated, 0}.
 *                          The runtime zeroes it together with the weights (allocation, reset), so
 *                          the first op to run after that copies the initial weights in
 *            2 zo_initial  int8 [weights of the segment], constant: the initial weights of its
 *                          tensors in order, biases as 4 bytes, little-endian
 *            3 zo_fraction int8, variable, same size and order but without the biases, which have
 *                          none (ZO_OPTION_FRACTION only)
 *            then, for each trainable tensor,
 *              weights     int8, variable; or biases, int32 [channels], variable
 *              multiplier  int32 [channels], constant (ZO_OPTION_MULTIPLIER only)
 *   outputs  0 zo_status   int32 [4], only if ZO_OPTION_LAST is set: {word 0 of the command, steps
 *                          applied since the weights were initialized or all restored, weights
 *                          clipped in this invoke, checksum or 0}; may be absent (null)
 *   options  bytes, little-endian, no alignment:
 *            0  u8   1 (version)
 *            1  u8   flags ZO_OPTION_*
 *            2  u8   headroom, LSB
 *            3  u8   max_queries, 1..ZO_MAX_QUERIES
 *            4  u16  number of tensors
 *            6  u16  number of blocks
 *            8  per tensor 12 bytes: u16 stream, u16 block (bit 14: the tensor is of biases), u32 channels, u32 inner
 * (see zo_tensor)
 *
 * TFLM_ZO_LOSS:
 *
 *   inputs   0 logits or outputs, int8 [batch, ...]
 *            1 zo_label: int32 [batch] (cross-entropy, floor-log2), int32
 *              [batch, outputs] (binary cross-entropy), int8 like input 0 (mean squared error)
 *            2 zo_status or zo_command: word 0 says whether to compute
 *   outputs  0 zo_loss, int32 [batch]; may be absent (null)
 *   options  0  u8   1 (version)
 *            1  u8   zo_loss_kind
 *            2  u16  0
 *            4  u32  elements per sample
 *            8  i32  zero point (binary cross-entropy), else 0
 *            12 u32  scale_log2e, or multiplier (mean squared error)
 *            16 u32  scale, or shift (mean squared error)
 *
 * TFLM_ZO_STATE, for a state: a variable tensor that outlives an invoke, as a ring buffer or the
 * state of a recurrent operator. A sequence of invokes begins with the initial state:
 *
 *   ZO_STATE_READ resets the state unless the command has ZO_FLAG_CONTINUE, then reads it:
 *   inputs   0 state       any of int8, int16, int32, variable
 *            1 zo_command  int32 [words]
 *            2 initial     constant, of a sample of the state; absent: bytes of the options' fill
 *   outputs  0 like input 0; absent where a recurrent operator has the state
 *   ZO_STATE_ASSIGN, behind the operators that compute the next state:
 *   inputs   0 state       as above
 *            1 value       like input 0
 *   outputs  none
 *   options  0  u8   1 (version)
 *            1  u8   ZO_STATE_READ or ZO_STATE_ASSIGN
 *            2  u8   fill
 *            3  u8   0
 *            4  bytes that runtimes do not read: the name of the resource variable, for export
 */
#ifndef TFLM_ZO_OPS_CORE_GRAPH_ZO_OP_H_
#define TFLM_ZO_OPS_CORE_GRAPH_ZO_OP_H_

#include "ops/core/graph/zo_command.h"
#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZO_OPTIONS_VERSION 1
#define ZO_OPTION_FIRST 1u      /* first weight op: initializes, restores */
#define ZO_OPTION_LAST 2u       /* last weight op: writes zo_status */
#define ZO_OPTION_FRACTION 4u   /* tensors have a fraction (16-bit update) */
#define ZO_OPTION_MULTIPLIER 8u /* tensors have per-channel multipliers */
#define ZO_OPTION_MASK 16u      /* reserved: models of earlier versions, which are refused */

#define ZO_OPTION_BIAS 0x4000u /* in the block of a tensor */

#define ZO_STATE_READ 0u /* of TFLM_ZO_STATE */
#define ZO_STATE_ASSIGN 1u

#define ZO_STATE_WORDS 4
#define ZO_STATE_MAGIC INT32_C(0x5A4F5721)
#define ZO_STATUS_WORDS 4

/* A size that fits nothing: of a tensor of another type than int8, int16 and int32, or one of so
 * many bytes or more. */
#define ZO_NO_SIZE UINT32_C(0xFFFFFFFF)

/* A tensor. data is null for an absent optional tensor and for an output that nothing reads. */
typedef struct zo_buffer {
  void* data;
  uint32_t bytes;
} zo_buffer;

/* Returns the op's input `index`, or output -1 - `index` if that is negative; beyond: {NULL, 0}. */
typedef zo_buffer (*zo_buffer_source)(void* context, int32_t index);

/* Addresses of the trainable tensors, for the owner of the runtime, which reads or writes them: no
 * API reaches variable tensors everywhere. Filled by the op with ZO_OPTION_FIRST when it initializes
 * the weights, and at each invoke that uses them; tensors beyond the capacity are counted, not
 * stored. The owner sets magic, capacity and entries. A desktop passes it as the delegate's option,
 * TFLM by SetMicroExternalContext; the magic tells it from other payloads. */
#define ZO_DIRECTORY_MAGIC UINT32_C(0x5A4F4449)

typedef struct zo_directory_entry {
  int8_t* weights;
  int8_t* fraction;
  uint32_t size;
  uint32_t stream;
} zo_directory_entry;

typedef struct zo_directory {
  uint32_t magic;
  uint32_t capacity;
  uint32_t count;
  zo_directory_entry* entries;
  int32_t* state; /* zo_state of the segment; null before its first invoke */
} zo_directory;

/* Checks a weight op's options and the sizes of its tensors, for Prepare: data may be null. */
zo_status zo_weight_op_check(const uint8_t* options, size_t length, zo_buffer_source source, void* context);

/* Runs a weight op. `opcode` is REPLAY, UPDATE or PERTURB; `directory` may be
 * null. A tensor in the memory of the command is refused. */
zo_status zo_weight_op_run(zo_opcode opcode, const uint8_t* options, size_t length, zo_buffer_source source,
                           void* context, zo_directory* directory);

/* Runs a weight op if the owner of the directory moves the weights: sets the initial weights and
 * fills the directory at the first invoke. A firmware without other use of commands saves the flash
 * for executing them. Errors: ZO_ERROR_COMMAND: the command asks for more than losses; those of
 * zo_weight_op_run. */
zo_status zo_weight_op_publish(const uint8_t* options, size_t length, zo_buffer_source source, void* context,
                               zo_directory* directory);

/* Has the next invoke of a segment set its initial weights again. */
void zo_directory_restore(zo_directory* directory);

/* Gives input `index` of an op other memory of the same size. */
typedef void (*zo_buffer_lender)(void* context, int32_t index, void* data);

/* Before zo_weight_op_run, for a segment that a second interpreter has, for another batch size:
 * gives it the weights, fractions and zo_state of the interpreter that filled `owner`, so that
 * commands do the same in either. Only the op with ZO_OPTION_FIRST does anything. For desktops:
 * TFLM's tensors stay where its planner puts them. Errors: ZO_ERROR_ARGUMENT: the owner lacks a
 * tensor; nothing has been lent. */
zo_status zo_weight_op_borrow(const uint8_t* options, size_t length, zo_buffer_source source, void* context,
                              const zo_directory* owner, zo_buffer_lender lend);

/* zo_weight_op_check and zo_weight_op_run for TFLM_ZO_LOSS. */
zo_status zo_loss_op_check(const uint8_t* options, size_t length, zo_buffer_source source, void* context);
zo_status zo_loss_op_run(const uint8_t* options, size_t length, zo_buffer_source source, void* context);

/* The same for TFLM_ZO_STATE. */
zo_status zo_state_op_check(const uint8_t* options, size_t length, zo_buffer_source source, void* context);
zo_status zo_state_op_run(const uint8_t* options, size_t length, zo_buffer_source source, void* context);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_GRAPH_ZO_OP_H_ */
