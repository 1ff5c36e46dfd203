/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/run/zo_node_backward.h"

zo_status zo_node_run_backward(const zo_node_run* run, const zo_backward* program, uint32_t begin, uint32_t end,
                               const int8_t* const* sources) {
  if (run == NULL || program == NULL || sources == NULL || run->step == run->settings.common.steps) {
    return ZO_ERROR_ARGUMENT;
  }
  const uint32_t batch = run->settings.common.batch;
  const int updates = run->stage == ZO_NODE_UPDATE && batch * run->settings.common.parts == 1u;
  if (run->stage != ZO_NODE_FORWARD && !updates) return ZO_ERROR_ARGUMENT;
  /* Before any weight moves. */
  if (begin == 0u && run->part == 0u) {
    const zo_status status = zo_backward_norms(program, sources);
    if (status != ZO_OK) return status;
  }
#if ZO_KERNEL_SETS
  return zo_backward_run_divided(program, begin, end, run->part * batch, batch, sources, run->workers);
#else
  return zo_backward_run(program, begin, end, run->part * batch, batch, sources);
#endif
}
