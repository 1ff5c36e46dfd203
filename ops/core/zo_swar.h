/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/*
 * Four int8 weights in one uint32_t (SIMD within a register): the portable fast path, for any
 * core, without alignment demands. Byte 0 is the first weight in memory, so these loads and
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

static inline uint32_t zo_load4(const int8_t *weights) {
  uint32_t packed;
  memcpy(&packed, weights, sizeof packed);
  return packed;
}

static inline void zo_store4(int8_t *weights, uint32_t packed) {
  memcpy(weights, &packed, sizeof packed);
}

/* Bytewise a + b modulo 256. */
static inline uint32_t zo_add4(uint32_t a, uint32_t b) {
  const uint32_t low = UINT32_C(0x7F7F7F7F);
  return ((a & low) + (b & low)) ^ ((a ^ b) & ~low);
}

/* Spreads bits 0..3 of `nibble` to bit 0 of bytes 0..3. */
static inline uint32_t zo_spread4(uint32_t nibble) {
  return ((nibble & 0xFu) * UINT32_C(0x00204081)) & UINT32_C(0x01010101);
}

/* Bytes of +delta where the nibble's bit is clear, -delta where it is set; delta4 holds delta in
 * every byte, delta in 1..255 (modulo 256, so negative deltas work too). */
static inline uint32_t zo_signed4(uint32_t delta4, uint32_t nibble) {
  const uint32_t ones = zo_spread4(nibble);
  return (delta4 ^ (ones * 0xFFu)) + ones;
}

#endif /* TFLM_ZO_OPS_CORE_ZO_SWAR_H_ */
