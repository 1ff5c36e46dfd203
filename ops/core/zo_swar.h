/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Several int8 weights in one machine word (SIMD within a register): the portable fast path, for
 * any core, without alignment demands. Byte 0 is the first weight in memory, so these loads and
 * stores are for little-endian targets; the callers fall back to single weights elsewhere.
 */
#ifndef TFLM_ZO_OPS_CORE_ZO_SWAR_H_
#define TFLM_ZO_OPS_CORE_ZO_SWAR_H_

#include <string.h>

#include "zo_types.h"

#if defined(__BYTE_ORDER__) && (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
#define ZO_SWAR 1
#else
#define ZO_SWAR 0
#endif

/* ZO_LANES weights: eight where registers have 64 bits, four elsewhere. */
#if UINTPTR_MAX > UINT32_MAX
typedef uint64_t zo_lanes;
#define ZO_LANES 8u
#else
typedef uint32_t zo_lanes;
#define ZO_LANES 4u
#endif

/* 0x01 in every byte. */
#define ZO_ONES ((zo_lanes)~(zo_lanes)0 / 0xFFu)

static inline zo_lanes zo_load_lanes(const int8_t *weights) {
  zo_lanes packed;
  memcpy(&packed, weights, sizeof packed);
  return packed;
}

static inline void zo_store_lanes(int8_t *weights, zo_lanes packed) {
  memcpy(weights, &packed, sizeof packed);
}

/* Bytewise a + b modulo 256. */
static inline zo_lanes zo_add_lanes(zo_lanes a, zo_lanes b) {
  const zo_lanes low = ZO_ONES * 0x7Fu;
  return ((a & low) + (b & low)) ^ ((a ^ b) & ~low);
}

/* Spreads the lowest ZO_LANES bits to bit 0 of one byte each. */
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

/* Bytes of +delta where the bit is clear, -delta where it is set. `delta` holds delta modulo 256,
 * which must not be 0, in every byte. */
static inline zo_lanes zo_signed_lanes(zo_lanes delta, uint32_t bits) {
  const zo_lanes ones = zo_spread_bits(bits);
  return (delta ^ (ones * 0xFFu)) + ones;
}

#endif /* TFLM_ZO_OPS_CORE_ZO_SWAR_H_ */
