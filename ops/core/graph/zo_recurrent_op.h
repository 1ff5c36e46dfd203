/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * TFLM_ZO_SVDF and TFLM_ZO_LSTM: SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM whose weights are trained. They read weights at
 * each invoke, where CMSIS-NN's kernels keep sums of them. Inputs, outputs and values are those of TFLM's operators.
 *
 *   options  0  u8   1 (version)
 *            1  u8   TFLM_ZO_SVDF: 1 if state and weights of time are int16. TFLM_ZO_LSTM: 1 if data are
 *                    [steps, samples, ...], plus 2 if the cell is clipped
 *            2  u16  0
 *            4  i32 each, little-endian; a multiplier is value and shift (zo_requantize.h):
 *               TFLM_ZO_SVDF: rank; zero points of input, state and output; multipliers `feature`, `output`
 *               TFLM_ZO_LSTM: zero points of input and h; cell_power; clip; multipliers `kept`, `added`, `output`, and,
 *               of each gate, `input` and `hidden`
 */
#ifndef TFLM_ZO_OPS_CORE_GRAPH_ZO_RECURRENT_OP_H_
#define TFLM_ZO_OPS_CORE_GRAPH_ZO_RECURRENT_OP_H_

#include "ops/core/graph/zo_op.h"
#include "ops/core/kernels/zo_lstm.h"
#include "ops/core/kernels/zo_svdf.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zo_svdf_op {
  zo_svdf layer;
  zo_svdf_tensors tensors;
  int32_t samples;
} zo_svdf_op;

typedef struct zo_lstm_op {
  zo_lstm layer;
  zo_lstm_tensors tensors;
} zo_lstm_op;

/* Reads an operator, for zo_svdf_run or zo_lstm_run. ZO_ERROR_OPTIONS: the options are not of this kind;
 * ZO_ERROR_ARGUMENT: sizes of tensors do not fit, or `runs` and a tensor has no data. */
zo_status zo_svdf_op_read(const uint8_t* options, size_t length, zo_buffer_source source, void* context, bool runs,
                          zo_svdf_op* op);
zo_status zo_lstm_op_read(const uint8_t* options, size_t length, zo_buffer_source source, void* context, bool runs,
                          zo_lstm_op* op);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_GRAPH_ZO_RECURRENT_OP_H_ */
