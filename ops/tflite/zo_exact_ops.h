/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The operators of zo_exact_op.c, whose table describes the functions. Each has a file of its own.
 */
#ifndef TFLM_ZO_OPS_TFLITE_ZO_EXACT_OPS_H_
#define TFLM_ZO_OPS_TFLITE_ZO_EXACT_OPS_H_

#include "ops/kernels/zo_kernel_set.h"
#include "ops/kernels/zo_window.h"
#include "ops/tflite/zo_tensors.h"

/* CONV_2D and DEPTHWISE_CONV_2D, and FULLY_CONNECTED. */
bool zo_exact_conv_supports(const zo_node* node);
bool zo_exact_fully_connected_supports(const zo_node* node);
void* zo_exact_conv_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);
void* zo_exact_fully_connected_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);
int32_t zo_exact_fully_connected_samples(const zo_node* node);
bool zo_exact_filters_begin(void* self, const zo_node* node);
void zo_exact_filters_run(const void* self, const zo_node* node, zo_share share);
void zo_exact_filters_free(void* self);

/* FULLY_CONNECTED of int16. */
bool zo_exact_dense16_supports(const zo_node* node);
int32_t zo_exact_dense16_samples(const zo_node* node);
void* zo_exact_dense16_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);
bool zo_exact_dense16_begin(void* self, const zo_node* node);
void zo_exact_dense16_run(const void* self, const zo_node* node, zo_share share);

/* ADD of two tensors of one shape. */
bool zo_exact_add_supports(const zo_node* node);
void* zo_exact_add_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);
void zo_exact_add_run(const void* self, const zo_node* node, zo_share share);

/* AVERAGE_POOL_2D and MAX_POOL_2D. */
bool zo_exact_pool_supports(const zo_node* node);
void* zo_exact_pool_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);
void zo_exact_pool_run(const void* self, const zo_node* node, zo_share share);
void zo_exact_pool_free(void* self);

/* MEAN and SUM. The reference SUM of LiteRT sums int8 values wrongly. */
bool zo_exact_reduce_supports(const zo_node* node);
int32_t zo_exact_reduce_samples(const zo_node* node);
void* zo_exact_reduce_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);
void zo_exact_reduce_run(const void* self, const zo_node* node, zo_share share);
void zo_exact_reduce_free(void* self);

/* SOFTMAX along the last axis. */
bool zo_exact_softmax_supports(const zo_node* node);
int32_t zo_exact_softmax_samples(const zo_node* node);
void* zo_exact_softmax_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);
void zo_exact_softmax_run(const void* self, const zo_node* node, zo_share share);

/* SVDF with a state of int8 or int16. A run moves the state on. */
bool zo_exact_svdf_supports(const zo_node* node);
void* zo_exact_svdf_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);
bool zo_exact_svdf_begin(void* self, const zo_node* node);
void zo_exact_svdf_run(const void* self, const zo_node* node, zo_share share);

/* UNIDIRECTIONAL_SEQUENCE_LSTM (ops/core/kernels/zo_lstm.h). A run moves the states on. LiteRT's own
 * kernel reads weights when it is prepared, and its sigmoids differ from TFLM's. */
bool zo_exact_lstm_supports(const zo_node* node);
int32_t zo_exact_lstm_samples(const zo_node* node);
void* zo_exact_lstm_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);
bool zo_exact_lstm_begin(void* self, const zo_node* node);
void zo_exact_lstm_run(const void* self, const zo_node* node, zo_share share);

#endif /* TFLM_ZO_OPS_TFLITE_ZO_EXACT_OPS_H_ */
