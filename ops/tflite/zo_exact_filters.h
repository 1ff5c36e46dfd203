/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED for zo_exact_op.c.
 */
#ifndef TFLM_ZO_OPS_TFLITE_ZO_EXACT_FILTERS_H_
#define TFLM_ZO_OPS_TFLITE_ZO_EXACT_FILTERS_H_

#include "ops/kernels/zo_kernel_set.h"
#include "ops/kernels/zo_window.h"
#include "ops/tflite/zo_tensors.h"

/* Of either convolution. */
bool zo_exact_conv_supports(const zo_node* node);
bool zo_exact_fully_connected_supports(const zo_node* node);

void* zo_exact_conv_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);
void* zo_exact_fully_connected_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);

int32_t zo_exact_fully_connected_samples(const zo_node* node);

bool zo_exact_filters_begin(void* self, const zo_node* node);
void zo_exact_filters_run(const void* self, const zo_node* node, zo_share share);
void zo_exact_filters_free(void* self);

#endif /* TFLM_ZO_OPS_TFLITE_ZO_EXACT_FILTERS_H_ */
