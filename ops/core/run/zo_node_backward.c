/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/run/zo_node_backward.h"

zo_status zo_node_run_backward(const zo_node_run* run, const zo_backward* program, const int8_t* const* sources) {
  if (run == NULL || program == NULL || sources == NULL || run->stage != ZO_NODE_FORWARD ||
      run->step == run->settings.common.steps) {
    return ZO_ERROR_ARGUMENT;
  }
  /* Weights of a tail move between steps alone. */
  if (run->part == 0u) {
    const zo_status status = zo_backward_norms(program, sources);
    if (status != ZO_OK) return status;
  }
  const uint32_t batch = run->settings.common.batch;
  return zo_backward_run(program, run->part * batch, batch, sources);
}
