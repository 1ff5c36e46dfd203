/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of Rademacher perturbation: weights move by +delta or -delta, by the bits of the
 * words of a stream, one term of a perturbation or two in one pass. It runs twice per query over
 * all weights, so it exists once per instruction set, each in a file of its own. All of them give
 * the bits of zo_add_signs() below, which is the reference.
 *
 *   zo_add_signs_sse2.h   every x86-64 host
 *   zo_add_signs_mve.h    Cortex-M55 and M85
 *   zo_add_signs_table.h  little-endian cores of 32 bits
 *   zo_add_signs_lanes.h  portable C for any little-endian core; define ZO_PORTABLE to force it
 *   this file             one weight at a time, on big-endian cores
 *
 * Each provides zo_signs, made of a delta once per tile of weights by zo_signs_of, which may take
 * a table of ZO_SIGNS_WORDS words; zo_add_32_signs, which moves 32 weights by a word of one term;
 * and zo_add_32_both, which moves them by those of two. An instruction set that has a faster way
 * for two terms, worth preparing once for a whole tensor, defines ZO_PAIR_WORDS and provides
 * zo_pair, zo_pair_of, which may take a table of that many words, and zo_add_32_pair.
 */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_H_

#include "ops/core/random/zo_draw.h"
#include "ops/core/zo_features.h"
#include "ops/core/zo_target.h"
#include "ops/core/zo_types.h"

/* weight + delta modulo 256, so that perturbation is reversible. The conversion to int8_t is
 * implementation-defined in C99 and two's complement on every compiler TFLite supports. */
static inline int8_t zo_add_modulo(int8_t weight, int32_t delta) {
  return (int8_t)(uint8_t)((uint32_t)(uint8_t)weight + (uint32_t)delta);
}

/* Any number of weights up to 32, one at a time. */
static inline void zo_add_signs(int8_t* weights, uint32_t count, uint32_t word, int32_t delta) {
  for (uint32_t j = 0; j < count; ++j) {
    weights[j] = zo_add_modulo(weights[j], delta * zo_draw_rademacher(word, j));
  }
}

/* Whether eight weights are loaded and stored by one instruction each, which the compiler does not
 * find by itself. */
#define ZO_PAIRS_OF_WORDS ZO_THUMB2

/* Whether a core reads words, or pairs of them, from aligned addresses alone, or is slow elsewhere.
 */
#if defined(__ARM_ARCH) && (!defined(__ARM_FEATURE_UNALIGNED) || ZO_PAIRS_OF_WORDS)
#define ZO_ALIGNED_ONLY 1
#elif defined(__riscv) && !defined(__riscv_misaligned_fast)
#define ZO_ALIGNED_ONLY 1
#else
#define ZO_ALIGNED_ONLY 0
#endif

/* Whether zo_add_32_signs takes weights at this address. */
static inline int zo_signs_fit(const int8_t* weights) { return !ZO_ALIGNED_ONLY || (uintptr_t)weights % 4u == 0u; }

/* Cortex-M0+ has too few registers for two terms at a time. */
#if ZO_THUMB1 || !ZO_WITH_FAST_STEPS
#define ZO_TERMS_AT_ONCE 1
#else
#define ZO_TERMS_AT_ONCE 2
#endif

#if defined(__SSE2__) && !defined(ZO_PORTABLE)
#include "ops/core/kernels/zo_add_signs_sse2.h"
#elif ZO_MVE
#include "ops/core/kernels/zo_add_signs_mve.h"
#elif ZO_LITTLE_ENDIAN && UINTPTR_MAX == UINT32_MAX && !defined(ZO_PORTABLE)
#include "ops/core/kernels/zo_add_signs_table.h"
#elif ZO_LITTLE_ENDIAN
#include "ops/core/kernels/zo_add_signs_lanes.h"
#else

typedef struct zo_signs {
  int32_t delta;
} zo_signs;

static inline zo_signs zo_signs_of(int32_t delta, uint32_t* table) {
  (void)table;
  zo_signs signs;
  signs.delta = delta;
  return signs;
}

static inline void zo_add_32_signs(int8_t* weights, uint32_t word, zo_signs signs) {
  zo_add_signs(weights, 32u, word, signs.delta);
}

static inline void zo_add_32_both(int8_t* weights, uint32_t word, zo_signs signs, uint32_t word_2, zo_signs signs_2) {
  zo_add_32_signs(weights, word, signs);
  zo_add_32_signs(weights, word_2, signs_2);
}

#endif

#ifndef ZO_SIGNS_WORDS
#define ZO_SIGNS_WORDS 1
#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_H_ */
