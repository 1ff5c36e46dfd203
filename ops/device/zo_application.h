/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The application's functions for a trainer, in C.
 */
#ifndef TFLM_ZO_OPS_DEVICE_ZO_APPLICATION_H_
#define TFLM_ZO_OPS_DEVICE_ZO_APPLICATION_H_

#include <stdbool.h>
#include <stdint.h>

#include "ops/core/log/zo_log_store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The source of samples: flash, an SD card, a ring of recordings. A run reads each sample again and
 * again, so each must keep its number until the run is over.
 *
 *   sample  0 to samples - 1; of sequences (ZO_SEQUENCE of the folder's zo_config.h) one step,
 *           sample * ZO_SEQUENCE + step
 *   inputs  values in the input's own type, int8 unless zo_config.h says another, one pointer per
 *           input of the model; null: not wanted
 *   label   like zo_label of one sample: int32 class, -1: unlabelled (cross-entropy), int32 of each
 *           output (binary cross-entropy), int8 of each output (mean squared error); null: not
 *           wanted
 *
 * Returns false if it is unavailable: the step is aborted, and can be tried again. */
typedef struct zo_sample_source {
  bool (*read)(void* context, uint32_t sample, int8_t* const* inputs, void* label);
  void* context;
} zo_sample_source;

/* Takes exported weights, and biases as bytes, in pieces of one tensor, by its number in the model,
 * after the other. Imported weights are read from the same pieces, one behind the other from offset
 * 0 of a log store. */
typedef struct zo_weight_sink {
  bool (*write)(void* context, uint32_t tensor, const int8_t* weights, uint32_t count);
  void* context;
} zo_weight_sink;

/* Samples that were evaluated. */
typedef struct zo_evaluation {
  uint32_t samples; /* labelled */
  uint32_t correct; /* largest output is the label; softmax losses */
  int64_t loss;     /* sum, unit 2^-16, see ZO_LOSS_BITS */
} zo_evaluation;

/* The first operator whose outputs a self-test has found to differ from the desktop's. */
typedef struct zo_self_test {
  const char* layer;        /* its layer and kind; null: none differs */
  uint32_t segment;         /* that it is in */
  uint32_t operator_number; /* of it in the segment */
} zo_self_test;

/* The measure of a run that keeps its best state, see zo_measurement.h: the loss of samples 0 to
 * count - 1, before the first step, after every `every` steps and after the last one. */
typedef struct zo_yardstick {
  zo_sample_source source;
  uint32_t count;
  uint32_t every; /* 0: the run measures nothing */
} zo_yardstick;

/* Weights that were exported between two steps of weight perturbation. A run may resume its log
 * from them instead of from the first step. */
typedef struct zo_weight_snapshot {
  zo_log_store weights;
  uint32_t step; /* complete steps done at that time */
  uint32_t mark; /* from SnapshotMark */
} zo_weight_snapshot;

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_DEVICE_ZO_APPLICATION_H_ */
