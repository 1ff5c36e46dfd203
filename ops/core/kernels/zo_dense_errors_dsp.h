/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Errors of nodes on their way into sums, with the DSP extension (Cortex-M4, M7, M33).
 * zo_node_gradient.c includes this file. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_ERRORS_DSP_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_ERRORS_DSP_H_

#include <arm_acle.h>
#include <string.h>

#include "ops/core/kernels/zo_dense_sums.h"

/* Sets a channel's errors, of as many samples as a call has. */
static inline void zo_dense_set_errors(zo_dense_block* block, uint32_t channel, const int16_t* errors,
                                       uint32_t samples) {
  const uint32_t apart = sizeof block->halves[0].errors[0] / sizeof(int16_t);
  int16_t* to = block->halves[channel / 4u].errors[0][channel % 4u];
  int16_t* const end = to + ZO_DENSE_SAMPLES / 2u * apart;
  for (uint32_t pairs = samples / 2u; pairs > 0u; --pairs, errors += 2, to += apart) {
    memcpy(to, errors, 2u * sizeof *to);
  }
  if (samples % 2u != 0u) {
    to[0] = *errors;
    to[1] = 0;
    to += apart;
  }
  for (; to != end; to += apart) memset(to, 0, 2u * sizeof *to);
}

/* Sums of errors and of their magnitudes, which are returned. */
static inline int32_t zo_dense_sum_errors(const int16_t* errors, uint32_t samples, int32_t* sum) {
  int32_t whole = 0, magnitudes = 0;
  if (samples % 2u != 0u) {
    whole = *errors++;
    magnitudes = whole < 0 ? -whole : whole;
  }
  for (const int16_t* const end = errors + samples / 2u * 2u; errors != end; errors += 2) {
    int16x2_t both;
    memcpy(&both, errors, sizeof both);
    const int16x2_t opposite = __ssub16(0, both); /* says which halves __sel takes of it */
    whole = __smlad(both, 0x00010001, whole);
    magnitudes = __smlad((int16x2_t)__sel((uint8x4_t)opposite, (uint8x4_t)both), 0x00010001, magnitudes);
  }
  *sum = whole;
  return magnitudes;
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_ERRORS_DSP_H_ */
