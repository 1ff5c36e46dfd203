/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * LiteRT's int8 operators with TFLM's arithmetic, bit for bit.
 *
 * LiteRT's kernels do not promise that: XNNPACK and the reference FULLY_CONNECTED requantize in
 * float, the optimized kernels round ties their own way; all differ from TFLM's two roundings by
 * one LSB in about one output of a thousand, which is enough to part two training runs.
 */
#ifndef TFLM_ZO_OPS_TFLITE_ZO_EXACT_OP_H_
#define TFLM_ZO_OPS_TFLITE_ZO_EXACT_OP_H_

#include "ops/kernels/zo_kernel_set.h"
#include "ops/tflite/zo_tensors.h"

typedef struct zo_exact_op zo_exact_op;

/* The name of an operator of this code in messages. */
const char* zo_exact_op_name(int builtin);

/* Whether these kernels compute the operator. */
bool zo_exact_op_supports(const zo_node* node);

/* An operator that is supported; null where it no longer is, or memory is short. */
zo_exact_op* zo_exact_op_create(const zo_node* node, const zo_kernel_set* kernels);

/* Computes the node's output, whose tensors are found again in its context; false where one has no
 * data: nothing is written then. */
bool zo_exact_op_run(const zo_exact_op* op, const zo_node* node);

void zo_exact_op_free(zo_exact_op* op);

#endif /* TFLM_ZO_OPS_TFLITE_ZO_EXACT_OP_H_ */
