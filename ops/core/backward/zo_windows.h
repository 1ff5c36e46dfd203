/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Which windows of a convolution or a pooling read a position of their input. */
#ifndef TFLM_ZO_OPS_CORE_BACKWARD_ZO_WINDOWS_H_
#define TFLM_ZO_OPS_CORE_BACKWARD_ZO_WINDOWS_H_

#include "ops/core/zo_types.h"

/* Windows along one side: that of output o begins at o * stride - pad and has `size` elements,
 * `dilation` apart. Numbers are at most 4,096. */
typedef struct zo_windows {
  uint32_t inputs, outputs;
  uint32_t size, stride, dilation, pad;
} zo_windows;

/* Whether element `i` of a window lies at the position, and whose. */
static inline int zo_window_of(const zo_windows* w, uint32_t position, uint32_t i, uint32_t* output) {
  const uint32_t at = position + w->pad;
  if (at < i * w->dilation) return 0;
  const uint32_t distance = at - i * w->dilation;
  *output = w->stride == 1u ? distance : distance / w->stride;
  return *output < w->outputs && *output * w->stride == distance;
}

/* The largest number of windows that read one position. */
static inline uint32_t zo_most_windows(const zo_windows* w) {
  uint32_t most = 0;
  for (uint32_t position = 0; position < w->inputs; ++position) {
    uint32_t count = 0, output;
    for (uint32_t i = 0; i < w->size; ++i) count += (uint32_t)zo_window_of(w, position, i, &output);
    if (count > most) most = count;
  }
  return most;
}

#endif /* TFLM_ZO_OPS_CORE_BACKWARD_ZO_WINDOWS_H_ */
