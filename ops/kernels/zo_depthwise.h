/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Sums of taps, channel by channel: the inner loops of DEPTHWISE_CONV_2D.
 *
 * Outputs come in runs of neighbours: a row of the image if its columns follow one another
 * without gaps, else the channels of one position. Every output of a run has its taps at the same
 * distances from its own place in the run. Filters and channels repeat after so many blocks of
 * `lanes` outputs.
 *
 * Within a block, eight outputs at a time lie as the unpack instructions of SSE leave them: the
 * first four of each eight, then the last four of each (zo_depthwise_place).
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_DEPTHWISE_H_
#define TFLM_ZO_OPS_KERNELS_ZO_DEPTHWISE_H_

#include <stddef.h>

#include "ops/kernels/zo_output.h"

/* Outputs of a block at most, of any kernel. */
enum { kZoMostLanes = 32 };

typedef struct zo_depthwise {
  const int16_t* x;      /* x - zero point; blocks may reach past the last value of a run */
  const int32_t* run_at; /* values from there to each run, [run_count] */
  int32_t run_count;
  int32_t length;          /* outputs of a run */
  const int32_t* tap_at;   /* values from an output's place to each of its taps, [taps] */
  int32_t taps;            /* even: the last one may have filters of 0 */
  const int16_t* filters;  /* [period, taps / 2, lanes, 2], in places */
  int32_t period;          /* blocks */
  const zo_output* output; /* [period, lanes], in places */
  int8_t* y;               /* [run_count, length] */
} zo_depthwise;

typedef void zo_depthwise_function(const zo_depthwise* depthwise);

/* Where output i of a block lies. */
static inline int32_t zo_depthwise_place(int32_t i, int32_t lanes) {
  const int32_t part = i % 8;
  return part / 4 * (lanes / 2) + i / 8 * 4 + part % 4;
}

#endif /* TFLM_ZO_OPS_KERNELS_ZO_DEPTHWISE_H_ */
