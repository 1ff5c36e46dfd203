/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TFLM_ZO_OPS_TFLITE_ZO_EXACT_SVDF_H_
#define TFLM_ZO_OPS_TFLITE_ZO_EXACT_SVDF_H_

#include "ops/kernels/zo_kernel_set.h"
#include "ops/kernels/zo_window.h"
#include "ops/tflite/zo_tensors.h"

/* SVDF with a state of int8 or int16, for zo_exact_op.c. A run moves the state on. */
bool zo_exact_svdf_supports(const zo_node* node);
void* zo_exact_svdf_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);
bool zo_exact_svdf_begin(void* self, const zo_node* node);
void zo_exact_svdf_run(const void* self, const zo_node* node, zo_share share);

#endif /* TFLM_ZO_OPS_TFLITE_ZO_EXACT_SVDF_H_ */
