/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Errors of nodes with vectors of MVE (Cortex-M55, M85): along random signs, where lanes are four
 * samples, whose words of signs give a node's errors, one node after the other; and on their way
 * into sums. zo_node_gradient.c includes this file. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_ERRORS_MVE_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_ERRORS_MVE_H_

#include <arm_mve.h>

#include "ops/core/kernels/zo_dense_sums.h"
#include "ops/core/zo_types.h"

/* Samples of a vector. */
#define ZO_SIGN_SAMPLES 4u

/* Queries, at most: bounds stack use (32 bytes each). */
#define ZO_SIGN_QUERIES 8u

/* The evidence of a query for four samples: minus twice their differences, and their words, shifted
 * so that the sign of the last node is the uppermost bit. */
typedef struct zo_sign_query {
  int32_t twice[ZO_SIGN_SAMPLES];
  uint32_t words[ZO_SIGN_SAMPLES];
} zo_sign_query;

/* Writes errors[node * apart + sample] = sum over queries of +-difference / 2^shift, half up, for
 * `count` nodes and `samples` samples, ZO_SIGN_SAMPLES at most. `all` has the sums of differences;
 * words are used up. */
static inline void zo_sign_errors(int16_t* errors, uint32_t apart, uint32_t count, uint32_t samples, const int32_t* all,
                                  zo_sign_query* queries, uint32_t number, uint32_t shift) {
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
static inline void zo_clear_clamped(int16_t* errors, uint32_t apart, uint32_t count, const uint8_t* route,
                                    uint8_t clamped) {
  const uint16x8_t offsets = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)apart);
  for (uint32_t j = 0; j < count; j += 8u) {
    const mve_pred16_t there = vctp16q(count - j);
    const uint16x8_t routes = vldrbq_z_u16(route + j, there);
    vstrhq_scatter_shifted_offset_p_s16(errors + j * apart, offsets, vdupq_n_s16(0),
                                        vcmpeqq_m_n_u16(routes, clamped, there));
  }
}

/* Sets a channel's errors, of as many samples as a call has. */
static inline void zo_dense_set_errors(zo_dense_block* block, uint32_t channel, const int16_t* errors,
                                       uint32_t samples) {
  int16_t* const to = block->errors[channel];
  int16x8_t last = vdupq_n_s16(0);
  vstrhq_s16(to, vldrhq_z_s16(errors, vctp16q(samples)));
  if (samples > 8u) { /* the last eight samples, but for those of the first vector */
    const mve_pred16_t others = vctp16q(ZO_DENSE_SAMPLES - samples);
    last = vldrhq_z_s16(errors + samples - 8u, vpnot(others));
  }
  vstrhq_s16(to + 8, last);
}

/* Sums of errors and of their magnitudes, which are returned. */
static inline int32_t zo_dense_sum_errors(const int16_t* errors, uint32_t samples, int32_t* sum) {
  uint32_t magnitudes = 0;
  *sum = 0;
  for (uint32_t i = 0; i < samples; i += 8u) {
    const int16x8_t e = vldrhq_z_s16(errors + i, vctp16q(samples - i));
    *sum = vaddvaq_s16(*sum, e);
    magnitudes = vaddvaq_u16(magnitudes, vreinterpretq_u16_s16(vabsq_s16(e)));
  }
  return (int32_t)magnitudes;
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_ERRORS_MVE_H_ */
