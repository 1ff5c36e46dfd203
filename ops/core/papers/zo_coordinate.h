/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* ZO_COORDINATE: which weight of a tensor a direction moves (see zo_stream.h). */
#ifndef TFLM_ZO_OPS_CORE_PAPERS_ZO_COORDINATE_H_
#define TFLM_ZO_OPS_CORE_PAPERS_ZO_COORDINATE_H_

#include "ops/core/random/zo_stream.h"
#include "ops/core/weights/zo_mask.h"

/* Its number; size where the mask selects nothing. */
static inline uint32_t zo_coordinate(const zo_tensor* tensor, uint32_t seed) {
  uint32_t index = zo_stream_key(seed, tensor->stream) % tensor->size;
  for (uint32_t i = 0; i < tensor->size; ++i) {
    if (zo_mask_has(tensor->mask, index)) return index;
    index = index + 1u < tensor->size ? index + 1u : 0u;
  }
  return tensor->size;
}

#endif /* TFLM_ZO_OPS_CORE_PAPERS_ZO_COORDINATE_H_ */
