/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Rademacher signs on Cortex-M55 and M85: 16 weights in a vector of MVE, whose predicate is the
 * bits of a word. zo_add_signs.h includes this file and documents its functions. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_MVE_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_MVE_H_

#include <arm_mve.h>

#include "ops/core/zo_features.h"
#include "ops/core/zo_types.h"

typedef struct zo_signs {
  int8x16_t plus;
  int8x16_t minus;
} zo_signs;

static inline zo_signs zo_signs_of(int32_t delta, uint32_t* table) {
  (void)table;
  zo_signs signs;
  signs.plus = vdupq_n_s8((int8_t)(uint8_t)delta);
  signs.minus = vdupq_n_s8((int8_t)(uint8_t)(0u - (uint32_t)delta));
  return signs;
}

/* 16 weights by the low half of a word. */
static inline int8x16_t zo_add_16_signs(int8x16_t packed, uint32_t word, zo_signs signs) {
  return vaddq_s8(packed, vpselq_s8(signs.minus, signs.plus, (mve_pred16_t)word));
}

static inline void zo_add_32_signs(int8_t* weights, uint32_t word, zo_signs signs) {
  vstrbq_s8(weights, zo_add_16_signs(vldrbq_s8(weights), word, signs));
  vstrbq_s8(weights + 16, zo_add_16_signs(vldrbq_s8(weights + 16), word >> 16, signs));
}

static inline void zo_add_32_both(int8_t* weights, uint32_t word, zo_signs signs, uint32_t word_2, zo_signs signs_2) {
  int8x16_t packed = zo_add_16_signs(vldrbq_s8(weights), word, signs);
  vstrbq_s8(weights, zo_add_16_signs(packed, word_2, signs_2));
  packed = zo_add_16_signs(vldrbq_s8(weights + 16), word >> 16, signs);
  vstrbq_s8(weights + 16, zo_add_16_signs(packed, word_2 >> 16, signs_2));
}

#if ZO_WITH_FAST_STEPS
#define ZO_PAIR_WORDS 1

typedef struct zo_pair {
  zo_signs signs;
  zo_signs signs_2;
} zo_pair;

static inline zo_pair zo_pair_of(zo_signs signs, zo_signs signs_2, uint32_t* table) {
  const zo_pair pair = {signs, signs_2};
  (void)table;
  return pair;
}

static inline void zo_add_32_pair(int8_t* weights, uint32_t word, uint32_t word_2, zo_pair pair) {
  zo_add_32_both(weights, word, pair.signs, word_2, pair.signs_2);
}

#endif /* ZO_WITH_FAST_STEPS */

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_MVE_H_ */
