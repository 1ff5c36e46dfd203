/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * UNIDIRECTIONAL_SEQUENCE_LSTM without peepholes, projection and layer norms, as TFLM's reference kernel computes it:
 *
 *   gate = f(sat(W x) + R h), f a sigmoid, and tanh for the gate of the cell
 *   cell = forget gate * cell + input gate * cell gate
 *   h = output gate * tanh(cell)
 *
 * Each product is rounded by itself, and sums saturate at 16 bits. Gates have unit 2^-15. The functions f are
 * interpolated between 256 values.
 */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_LSTM_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_LSTM_H_

#include <stdbool.h>
#include <stddef.h>

#include "ops/core/math/zo_requantize.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The gates, in the order of the operator's inputs. */
enum { kZoInputGate, kZoForgetGate, kZoCellGate, kZoOutputGate, kZoGates };

/* Sizes are 1 at least. */
typedef struct zo_lstm {
  int32_t samples, steps, depth, units;
  bool time_major;                                 /* data are [steps, samples, …], else [samples, steps, …] */
  int32_t input_zero_point, hidden_zero_point;     /* that of h is also the output's */
  zo_multiplier input[kZoGates], hidden[kZoGates]; /* from sums to arguments of f, unit 2^-12 */
  zo_multiplier kept, added, output;               /* from products to the cell, twice, and to h */
  int32_t cell_power;                              /* the unit of the cell is 2^this, in -30..0 */
  bool clips;
  int32_t clip; /* of the cell's absolute value */
} zo_lstm;

typedef struct zo_lstm_tensors {
  const int8_t* x;
  const int8_t* input[kZoGates];  /* [units, depth] each */
  const int8_t* hidden[kZoGates]; /* [units, units] each */
  const int32_t* bias[kZoGates];  /* [units] each */
  int8_t* h;                      /* [samples, units] */
  int16_t* cell;                  /* [samples, units] */
  int8_t* y;
} zo_lstm_tensors;

/* Computes all steps of `count` samples, from sample `first` on, and moves their h and cell on. */
void zo_lstm_run(const zo_lstm* lstm, const zo_lstm_tensors* tensors, int32_t first, int32_t count);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_LSTM_H_ */
