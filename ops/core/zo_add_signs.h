/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of Rademacher perturbation: 32 weights move by +delta or -delta, by the 32 bits
 * of one word of the stream. It runs twice per query over all weights, so it exists once per
 * instruction set; every version gives the same bits, and the portable one is the reference.
 *
 *   SSE2      every x86-64 host
 *   portable  several weights in one machine word (SIMD within a register), any little-endian
 *             core, no alignment demands; define ZO_PORTABLE to force it
 *   plain     one weight at a time, big-endian cores
 */
#ifndef TFLM_ZO_OPS_CORE_ZO_ADD_SIGNS_H_
#define TFLM_ZO_OPS_CORE_ZO_ADD_SIGNS_H_

#include <string.h>

#include "zo_draw.h"
#include "zo_types.h"

/* weight + delta modulo 256: what makes perturbation reversible. The conversion to int8_t is
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

#if defined(__SSE2__) && !defined(ZO_PORTABLE)

#include <emmintrin.h>

/* -1 (all bits) in each byte whose bit is set, for 16 weights: `bytes` holds the byte of the word
 * that a weight's bit is in. */
static inline __m128i zo_bits_to_mask(__m128i bytes) {
  const __m128i own = _mm_set1_epi64x((long long)0x8040201008040201LL);
  return _mm_cmpeq_epi8(_mm_and_si128(bytes, own), own);
}

static inline void zo_add_16_signs(int8_t* weights, __m128i bytes, __m128i delta) {
  const __m128i mask = zo_bits_to_mask(bytes);
  const __m128i signed_delta = _mm_sub_epi8(_mm_xor_si128(delta, mask), mask);
  __m128i* at = (__m128i*)(void*)weights;
  _mm_storeu_si128(at, _mm_add_epi8(_mm_loadu_si128(at), signed_delta));
}

static inline void zo_add_32_signs(int8_t* weights, uint32_t word, int32_t delta) {
  const __m128i deltas = _mm_set1_epi8((char)delta);
  __m128i bytes = _mm_cvtsi32_si128((int)word);
  bytes = _mm_unpacklo_epi8(bytes, bytes);
  bytes = _mm_unpacklo_epi16(bytes, bytes); /* four copies of each byte */
  zo_add_16_signs(weights, _mm_shuffle_epi32(bytes, _MM_SHUFFLE(1, 1, 0, 0)), deltas);
  zo_add_16_signs(weights + 16, _mm_shuffle_epi32(bytes, _MM_SHUFFLE(3, 3, 2, 2)), deltas);
}

#elif defined(__BYTE_ORDER__) && (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

/* Eight weights where registers have 64 bits, four elsewhere. */
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

static inline void zo_add_32_signs(int8_t* weights, uint32_t word, int32_t delta) {
  const zo_lanes deltas = ((zo_lanes)(uint32_t)delta & 0xFFu) * ZO_ONES;
  for (uint32_t j = 0; j < 32u; j += (uint32_t)sizeof(zo_lanes)) {
    zo_lanes packed;
    memcpy(&packed, weights + j, sizeof packed);
    /* -delta is ~delta + 1 in each byte; delta is not 0 modulo 256, so nothing carries over. */
    const zo_lanes ones = zo_spread_bits(word >> j);
    packed = zo_add_lanes(packed, (deltas ^ (ones * 0xFFu)) + ones);
    memcpy(weights + j, &packed, sizeof packed);
  }
}

#else

static inline void zo_add_32_signs(int8_t* weights, uint32_t word, int32_t delta) {
  zo_add_signs(weights, 32u, word, delta);
}

#endif

#endif /* TFLM_ZO_OPS_CORE_ZO_ADD_SIGNS_H_ */
