/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TFLM_ZO_OPS_TFLITE_ZO_EXACT_POOL_H_
#define TFLM_ZO_OPS_TFLITE_ZO_EXACT_POOL_H_

#include "ops/kernels/zo_kernel_set.h"
#include "ops/kernels/zo_window.h"
#include "ops/tflite/zo_tensors.h"

/* AVERAGE_POOL_2D and MAX_POOL_2D, for zo_exact_op.c. */
bool zo_exact_pool_supports(const zo_node* node);
void* zo_exact_pool_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);
void zo_exact_pool_run(const void* self, const zo_node* node, zo_share share);
void zo_exact_pool_free(void* self);

#endif /* TFLM_ZO_OPS_TFLITE_ZO_EXACT_POOL_H_ */
