/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * FULLY_CONNECTED of one sample with filters as they lie: if they may change between invokes,
 * packing them, or only looking whether they have changed, takes as long as using them.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_DOTS_H_
#define TFLM_ZO_OPS_KERNELS_ZO_DOTS_H_

#include <stddef.h>

#include "ops/kernels/zo_output.h"

typedef struct zo_dots {
  const uint8_t* row; /* [depth], in the layout of the set's gemm */
  int32_t depth;
  const int8_t* filters; /* [channels, depth] */
  int32_t channels;
  int32_t correction;      /* of a sum, for each unit of the sum of its filter; 0 if rows are int16 */
  const zo_output* output; /* starts without the correction */
  int8_t* y;               /* [channels] */
} zo_dots;

typedef void zo_dots_function(const zo_dots* dots);

/* Channels at once at most, of zo_dots_by_channels. */
enum { kZoDots = 16 };

/* The sum of products with a filter, and the correction term. */
typedef uint32_t zo_dot_function(const zo_dots* dots, const int8_t* filter);

/* Outputs of sums of neighbouring channels, of which so many are valid. */
typedef void zo_dots_finish(const zo_output* output, int32_t channel, const int32_t* sums, int8_t* y, int32_t valid);

/* A filter at a time; outputs of `at_once` channels, kZoDots at most, together. */
static inline __attribute__((always_inline)) void zo_dots_by_channels(const zo_dots* d, const int32_t at_once,
                                                                      zo_dot_function* dot, zo_dots_finish* finish) {
  for (int32_t first = 0; first < d->channels; first += at_once) {
    int32_t sums[kZoDots] = {0};
    const int32_t left = d->channels - first, valid = left < at_once ? left : at_once;
    for (int32_t c = 0; c < valid; ++c) {
      const int8_t* filter = d->filters + (ptrdiff_t)(first + c) * d->depth;
      sums[c] = (int32_t)(dot(d, filter) + (uint32_t)d->output->start[first + c]);
    }
    finish(d->output, first, sums, d->y + first, valid);
  }
}

#endif /* TFLM_ZO_OPS_KERNELS_ZO_DOTS_H_ */
