/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TFLM_ZO_OPS_TFLITE_ZO_EXACT_LSTM_H_
#define TFLM_ZO_OPS_TFLITE_ZO_EXACT_LSTM_H_

#include "ops/kernels/zo_kernel_set.h"
#include "ops/kernels/zo_window.h"
#include "ops/tflite/zo_tensors.h"

/* UNIDIRECTIONAL_SEQUENCE_LSTM (ops/kernels/zo_lstm.h) for zo_exact_op.c. A run moves the states on. LiteRT's own
 * kernel reads weights when it is prepared, and its sigmoids differ from TFLM's. */
bool zo_exact_lstm_supports(const zo_node* node);
int32_t zo_exact_lstm_samples(const zo_node* node);
void* zo_exact_lstm_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads);
bool zo_exact_lstm_begin(void* self, const zo_node* node);
void zo_exact_lstm_run(const void* self, const zo_node* node, zo_share share);

#endif /* TFLM_ZO_OPS_TFLITE_ZO_EXACT_LSTM_H_ */
