/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The inner loop of Gaussian perturbation on Cortex-M: a table has a weight's move for each byte of
 * the random stream. zo_perturb.c has the portable form, which is the reference and serves rows
 * of a few weights and all other cores. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_GAUSSIAN_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_GAUSSIAN_H_

#include "ops/core/kernels/zo_add_signs.h"
#include "ops/core/zo_features.h"

/* Not if sizes are optimized; define ZO_PORTABLE to do without. */
#if ZO_WITH_FAST_STEPS && ZO_WITH_GAUSSIAN && ZO_LITTLE_ENDIAN && defined(__ARM_ARCH) && UINTPTR_MAX == UINT32_MAX && \
    !defined(__OPTIMIZE_SIZE__) && !defined(ZO_PORTABLE)
#define ZO_ADD_GAUSSIAN 1
#else
#define ZO_ADD_GAUSSIAN 0
#endif

#if ZO_ADD_GAUSSIAN

/* Weights from which on the table pays, and which are moved together. */
#define ZO_GAUSSIAN_MIN 256u
#define ZO_GAUSSIAN_TOGETHER 16u

#define ZO_GAUSSIAN_BYTES 256u

/* A weight's move, modulo 256. */
static inline void zo_make_gaussian_table(uint8_t* table, uint32_t mu, int32_t k) {
  for (uint32_t i = 0; i < ZO_GAUSSIAN_BYTES / 2u; ++i) {
    const int32_t z = zo_gaussian_quantiles[i];
    const uint32_t moved = (uint32_t)(k * zo_gaussian_perturbation(z, mu));
    table[i] = (uint8_t)moved;
    table[i + ZO_GAUSSIAN_BYTES / 2u] = (uint8_t)(0u - moved);
  }
}

#if ZO_MVE

static inline uint32_t zo_add_16_gaussian(int8_t* weights, uint32_t state, const uint8_t* table) {
  const uint32_t w0 = zo_stream_next(state), w1 = zo_stream_next(w0);
  const uint32_t w2 = zo_stream_next(w1), w3 = zo_stream_next(w2);
  const uint32x4_t words = {w0, w1, w2, w3};
  const uint8x16_t moves = vldrbq_gather_offset_u8(table, vreinterpretq_u8_u32(words));
  vstrbq_s8(weights, vaddq_s8(vldrbq_s8(weights), vreinterpretq_s8_u8(moves)));
  return w3;
}

#else

static inline uint32_t zo_add_4_gaussian(int8_t* weights, uint32_t state, const uint8_t* table) {
  state = zo_stream_next(state);
  uint32_t packed;
  memcpy(&packed, weights, sizeof packed);
  const uint32_t moves = (uint32_t)table[state & 0xFFu] | (uint32_t)table[state >> 8 & 0xFFu] << 8 |
                         (uint32_t)table[state >> 16 & 0xFFu] << 16 | (uint32_t)table[state >> 24] << 24;
  packed = zo_add_bytes(packed, moves);
  memcpy(weights, &packed, sizeof packed);
  return state;
}

static inline uint32_t zo_add_16_gaussian(int8_t* weights, uint32_t state, const uint8_t* table) {
  state = zo_add_4_gaussian(weights, state, table);
  state = zo_add_4_gaussian(weights + 4, state, table);
  state = zo_add_4_gaussian(weights + 8, state, table);
  return zo_add_4_gaussian(weights + 12, state, table);
}

#endif

#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_GAUSSIAN_H_ */
