/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TFLM_ZO_OPS_TFLITE_ZO_EXACT_ADD_H_
#define TFLM_ZO_OPS_TFLITE_ZO_EXACT_ADD_H_

#include "ops/kernels/zo_kernel_set.h"
#include "ops/kernels/zo_window.h"
#include "ops/tflite/zo_tensors.h"

/* ADD of two tensors of one shape, for zo_exact_op.c. */
bool zo_exact_add_supports(const zo_node* node);
void* zo_exact_add_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);
void zo_exact_add_run(const void* self, const zo_node* node, zo_share share);

#endif /* TFLM_ZO_OPS_TFLITE_ZO_EXACT_ADD_H_ */
