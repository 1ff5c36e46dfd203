/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Rademacher signs in portable C: several weights in one machine word (SIMD within a register), on
 * any little-endian core, at any address. zo_add_signs.h includes this file and documents its
 * functions. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_LANES_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_LANES_H_

#include <string.h>

#include "ops/core/zo_types.h"

/* Eight weights if registers have 64 bits, four otherwise. */
#if UINTPTR_MAX > UINT32_MAX
typedef uint64_t zo_lanes;
#else
typedef uint32_t zo_lanes;
#endif

/* 0x01 in every byte. */
#define ZO_ONES ((zo_lanes) ~(zo_lanes)0 / 0xFFu)

/* Bytewise a + b modulo 256. */
static inline zo_lanes zo_add_lanes(zo_lanes a, zo_lanes b) {
  const zo_lanes low = ZO_ONES * 0x7Fu;
  return ((a & low) + (b & low)) ^ ((a ^ b) & ~low);
}

/* Spreads the lowest bits to bit 0 of one byte each. */
static inline zo_lanes zo_spread_bits(uint32_t bits) {
#if UINTPTR_MAX > UINT32_MAX
  /* A copy of the bits in each byte, of which the byte keeps its own; adding 0x7F carries any bit
   * into bit 7, and no byte overflows. */
  const zo_lanes own = (ZO_ONES * (bits & 0xFFu)) & UINT64_C(0x8040201008040201);
  return ((own + ZO_ONES * 0x7Fu) >> 7) & ZO_ONES;
#else
  return ((bits & 0xFu) * UINT32_C(0x00204081)) & ZO_ONES;
#endif
}

typedef struct zo_signs {
  zo_lanes deltas;
} zo_signs;

static inline zo_signs zo_signs_of(int32_t delta, uint32_t* table) {
  (void)table;
  zo_signs signs;
  signs.deltas = ((zo_lanes)(uint32_t)delta & 0xFFu) * ZO_ONES;
  return signs;
}

static inline void zo_add_32_signs(int8_t* weights, uint32_t word, zo_signs signs) {
  for (uint32_t j = 0; j < 32u; j += (uint32_t)sizeof(zo_lanes)) {
    zo_lanes packed;
    memcpy(&packed, weights + j, sizeof packed);
    /* -delta is ~delta + 1 in each byte; delta is not 0 modulo 256, so nothing carries over. */
    const zo_lanes ones = zo_spread_bits(word >> j);
    packed = zo_add_lanes(packed, (signs.deltas ^ (ones * 0xFFu)) + ones);
    memcpy(weights + j, &packed, sizeof packed);
  }
}

static inline void zo_add_32_both(int8_t* weights, uint32_t word, zo_signs signs, uint32_t word_2, zo_signs signs_2) {
  zo_add_32_signs(weights, word, signs);
  zo_add_32_signs(weights, word_2, signs_2);
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_LANES_H_ */
