/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* zo_apply_row_8 by instructions of the DSP extension, four weights at a time, as far as bytes
 * suffice and nothing is clipped. zo_apply_row.c includes this file and does the rest. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_DSP_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_DSP_H_

#include <arm_acle.h>
#include <string.h>

#include "ops/core/random/zo_stream.h"

/* Steps and limits that bytes suffice for: at most 126 LSB up or down, which rounding makes 127 at
 * most, and a limit whose distance from 127 fits twice. */
#define ZO_BYTES_STEP_MAX (INT32_C(126) << ZO_COEFFICIENT_BITS)
#define ZO_BYTES_LIMIT_MIN 64

static inline int zo_bytes_suffice(int32_t limit, int32_t largest) {
  return largest <= ZO_BYTES_STEP_MAX && limit >= ZO_BYTES_LIMIT_MIN;
}

/* Moves weights, four at a time, up to the first ones of which any would be clipped or to `end`.
 * Returns where it stopped. */
static inline int8_t* zo_apply_words(int8_t* weights, const int8_t* end, const int32_t* steps,
                                     int32_t limit, uint32_t* stream) {
  const uint32_t each = UINT32_C(0x01010101);
  const int8x4_t up = (int8x4_t)(each * (uint32_t)(127 - limit));
  const int8x4_t down = (int8x4_t)(each * (uint32_t)(255 - 2 * limit));
  const int8x4_t back = (int8x4_t)(each * (uint32_t)(128 - limit));
  uint32_t state = *stream;
  for (; weights != end; weights += 4, steps += 4) {
    const uint32_t word = zo_stream_next(state);
    const uint32_t s0 = (uint32_t)steps[0] + (word & 0xFFFFu);
    const uint32_t s1 = (uint32_t)steps[1] + (zo_turned(word) & 0xFFFFu);
    const uint32_t s2 = (uint32_t)steps[2] + (word >> 16);
    const uint32_t s3 = (uint32_t)steps[3] + (zo_turned(word) >> 16);
    /* Their whole parts, a byte each. */
    const uint32_t even = ((s2 & UINT32_C(0xFFFF0000)) | s0 >> 16) & UINT32_C(0x00FF00FF);
    const uint32_t odd = ((s3 & UINT32_C(0xFFFF0000)) | s1 >> 16) & UINT32_C(0x00FF00FF);
    const uint32_t whole = even | odd << 8;
    uint32_t before;
    memcpy(&before, weights, sizeof before);
    /* Saturated with 127 - limit added, then with 128 - limit subtracted. */
    int8x4_t clipped = __qadd8((int8x4_t)before, (int8x4_t)whole);
    clipped = __qsub8(__qadd8(clipped, up), down);
    clipped = __qadd8(clipped, back);
    if ((uint32_t)clipped != __uadd8(before, whole)) break;
    memcpy(weights, &clipped, sizeof clipped);
    state = word;
  }
  *stream = state;
  return weights;
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_DSP_H_ */
