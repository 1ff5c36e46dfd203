/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise sums of several runs at a time, which share their filters.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_DEPTHWISE_RUNS_H_
#define TFLM_ZO_OPS_KERNELS_ZO_DEPTHWISE_RUNS_H_

#include "ops/kernels/zo_depthwise.h"

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

#endif /* TFLM_ZO_OPS_KERNELS_ZO_DEPTHWISE_RUNS_H_ */
