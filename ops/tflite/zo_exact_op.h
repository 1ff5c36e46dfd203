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
#include "ops/kernels/zo_window.h"
#include "ops/tflite/zo_tensors.h"

typedef struct zo_exact_op zo_exact_op;

/* The name of an operator of this code in messages. */
const char* zo_exact_op_name(int builtin);

/* Whether these kernels compute the operator. */
bool zo_exact_op_supports(const zo_node* node);

/* An operator that is supported; null if it no longer is, or memory is short. */
zo_exact_op* zo_exact_op_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);

/* Parts of the tensors, of equal size and in their order, each of which depends on none of the
 * others: samples, or rows. */
int32_t zo_exact_op_samples(const zo_exact_op* op);

/* Takes filters and biases for the runs to come; false if a tensor has no data. */
bool zo_exact_op_begin(const zo_exact_op* op, const zo_node* node);

/* Computes a share of the node's output, of `of` samples, a divisor of zo_exact_op_samples.
 * Several threads may, at the same time, each with a number of its own. */
void zo_exact_op_run(const zo_exact_op* op, const zo_node* node, zo_share share, int32_t of);

void zo_exact_op_free(zo_exact_op* op);

#endif /* TFLM_ZO_OPS_TFLITE_ZO_EXACT_OP_H_ */
