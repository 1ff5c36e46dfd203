/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Errors of nodes along random signs with vectors of MVE (Cortex-M55, M85): lanes are four samples,
 * whose words of signs give a node's errors, one node after the other. zo_node_gradient.c includes
 * this file. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_ERRORS_MVE_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_ERRORS_MVE_H_

#include <arm_mve.h>

#include "ops/core/zo_types.h"

/* Samples of a vector. */
#define ZO_SIGN_SAMPLES 4u

/* Queries, at most: bounds stack use (32 bytes each). */
#define ZO_SIGN_QUERIES 8u

/* What a query says of four samples: minus twice their differences, and their words, moved so that
 * the sign of the last node is the uppermost bit. */
typedef struct zo_sign_query {
  int32_t twice[ZO_SIGN_SAMPLES];
  uint32_t words[ZO_SIGN_SAMPLES];
} zo_sign_query;

/* Writes errors[node * apart + sample] = sum over queries of +-difference / 2^shift, half up, for
 * `count` nodes and `samples` samples, ZO_SIGN_SAMPLES at most. `all` has the sums of differences;
 * words are used up. */
static inline void zo_sign_errors(int16_t* errors, uint32_t apart, uint32_t count, uint32_t samples,
                                  const int32_t* all, zo_sign_query* queries, uint32_t number,
                                  uint32_t shift) {
  const mve_pred16_t there = vctp32q(samples);
  const int32x4_t begin = vldrwq_s32(all);
  zo_sign_query* const end = queries + number;
  for (int16_t* to = errors + (size_t)count * apart; to != errors;) {
    int32x4_t sums = begin;
    for (zo_sign_query* q = queries; q != end; ++q) {
      const int32x4_t words = vreinterpretq_s32_u32(vldrwq_u32(q->words));
      sums = vaddq_s32(sums, vandq_s32(vshrq_n_s32(words, 31), vldrwq_s32(q->twice)));
      vstrwq_u32(q->words, vreinterpretq_u32_s32(vshlq_n_s32(words, 1)));
    }
    to -= apart;
    vstrhq_p_s32(to, vrshlq_n_s32(sums, -(int32_t)shift), there);
  }
}

/* Errors of a sample that its route clamps become 0: those of `count` nodes, so many values apart.
 */
static inline void zo_clear_clamped(int16_t* errors, uint32_t apart, uint32_t count,
                                    const uint8_t* route, uint8_t clamped) {
  const uint16x8_t offsets = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)apart);
  for (uint32_t j = 0; j < count; j += 8u) {
    const mve_pred16_t there = vctp16q(count - j);
    const uint16x8_t routes = vldrbq_z_u16(route + j, there);
    vstrhq_scatter_shifted_offset_p_s16(errors + j * apart, offsets, vdupq_n_s16(0),
                                        vcmpeqq_m_n_u16(routes, clamped, there));
  }
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_ERRORS_MVE_H_ */
