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

/* --- Several runs at a time, which share their filters ------------------------------------------ */

/* Runs at once at most, of any kernel. */
enum { kZoMostRuns = 4 };

/* All outputs of some runs. */
typedef void zo_depthwise_runs(const zo_depthwise* depthwise, const int16_t* const* x, int8_t* const* y);

/* `most` runs at a time by `several`, the rest by `one`. */
static inline __attribute__((always_inline)) void zo_depthwise_by_runs(const zo_depthwise* d, const int32_t most,
                                                                       zo_depthwise_runs* several,
                                                                       zo_depthwise_runs* one) {
  for (int32_t run = 0; run < d->run_count;) {
    const int16_t* x[kZoMostRuns];
    int8_t* y[kZoMostRuns];
    const int32_t count = d->run_count - run < most ? 1 : most;
    for (int32_t r = 0; r < count; ++r) {
      x[r] = d->x + d->run_at[run + r];
      y[r] = d->y + (ptrdiff_t)(run + r) * d->length;
    }
    if (count == most) {
      several(d, x, y);
    } else {
      one(d, x, y);
    }
    run += count;
  }
}

/* A zo_depthwise_runs of the file's own block_of(depthwise, x, y, at, block, runs), which is
 * inlined. */
#define ZO_DEPTHWISE_RUNS(name, count, lanes)                                          \
  static void name(const zo_depthwise* d, const int16_t* const* x, int8_t* const* y) { \
    for (int32_t at = 0, block = 0; at < d->length; at += (lanes)) {                   \
      block_of(d, x, y, at, block, count);                                             \
      block = block + 1 < d->period ? block + 1 : 0;                                   \
    }                                                                                  \
  }

#endif /* TFLM_ZO_OPS_KERNELS_ZO_DEPTHWISE_H_ */
