/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TFLM_ZO_OPS_TFLITE_ZO_EXACT_REDUCE_H_
#define TFLM_ZO_OPS_TFLITE_ZO_EXACT_REDUCE_H_

#include "ops/kernels/zo_kernel_set.h"
#include "ops/kernels/zo_window.h"
#include "ops/tflite/zo_tensors.h"

/* MEAN and SUM, for zo_exact_op.c. The reference SUM of LiteRT sums int8 values wrongly. */
bool zo_exact_reduce_supports(const zo_node* node);
int32_t zo_exact_reduce_samples(const zo_node* node);
void* zo_exact_reduce_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);
void zo_exact_reduce_run(const void* self, const zo_node* node, zo_share share);
void zo_exact_reduce_free(void* self);

#endif /* TFLM_ZO_OPS_TFLITE_ZO_EXACT_REDUCE_H_ */
