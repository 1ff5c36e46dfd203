/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Rows of weights moved by instructions of the DSP extension (Cortex-M4, M7, M33), four weights at
 * a time. zo_apply_row.c includes this file and does the rest. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_DSP_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_DSP_H_

#include "ops/core/kernels/zo_dsp_lanes.h"
#include "ops/core/random/zo_stream.h"

/* Weights that are moved together, and the most that are in one call. */
#define ZO_ROW_TOGETHER 4u
#define ZO_ROW_MOST UINT32_C(0xFFFFFFFC)

static inline int zo_row_fits(int32_t limit, int32_t largest) {
  return bytes_suffice(limit, largest);
}

/* Moves the first weights of a row, `count` of them, a multiple of ZO_ROW_TOGETHER. Returns how
 * many were clipped. */
static inline uint32_t zo_move_vectors_8(int8_t* weights, const int32_t* steps, uint32_t count,
                                         int32_t limit, uint32_t* stream) {
  const byte_limits limits = byte_limits_of(limit);
  uint32_t clipped = 0, state = *stream;
  for (const int8_t* const end = weights + count; weights != end; weights += 4, steps += 4) {
    state = zo_stream_next(state);
    const four_steps f = add_rounding(load_four((const uint32_t*)steps), state);
    clipped += move_within_8(weights, whole_parts(f), limits);
  }
  *stream = state;
  return clipped;
}

#if !defined(__OPTIMIZE_SIZE__)
#define ZO_ROW_FRACTIONS 1

/* The same with fractions. */
static inline uint32_t zo_move_vectors_16(int8_t* weights, int8_t* fraction, const int32_t* steps,
                                          uint32_t count, int32_t limit) {
  uint32_t clipped = 0;
  for (const int8_t* const end = weights + count; weights != end;
       weights += 4, fraction += 4, steps += 4) {
    const four_steps f = in_fractions(load_four((const uint32_t*)steps));
    clipped += move_within_16(weights, fraction, f, limit);
  }
  return clipped;
}
#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_DSP_H_ */
