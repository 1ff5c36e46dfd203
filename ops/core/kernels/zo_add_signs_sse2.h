/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Rademacher signs on x86-64 hosts: 16 weights in a vector of SSE2. zo_add_signs.h includes this
 * file and documents its functions. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_SSE2_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_SSE2_H_

#include <emmintrin.h>

#include "ops/core/zo_types.h"

typedef struct zo_signs {
  __m128i delta;
} zo_signs;

static inline zo_signs zo_signs_of(int32_t delta, uint32_t* table) {
  (void)table;
  zo_signs signs;
  signs.delta = _mm_set1_epi8((char)delta);
  return signs;
}

/* Returns 16 masks, each -1 if the sign bit of weight k is set, else 0. Byte k of `bytes` is the byte that
 * contains the bit. */
static inline __m128i zo_bits_to_mask(__m128i bytes) {
  const __m128i own = _mm_set1_epi64x((long long)0x8040201008040201LL);
  return _mm_cmpeq_epi8(_mm_and_si128(bytes, own), own);
}

static inline __m128i zo_signed_delta(__m128i bytes, __m128i delta) {
  const __m128i mask = zo_bits_to_mask(bytes);
  return _mm_sub_epi8(_mm_xor_si128(delta, mask), mask);
}

static inline void zo_add_32_signs(int8_t* weights, uint32_t word, zo_signs signs) {
  __m128i bytes = _mm_cvtsi32_si128((int)word);
  bytes = _mm_unpacklo_epi8(bytes, bytes);
  bytes = _mm_unpacklo_epi16(bytes, bytes); /* four copies of each byte */
  __m128i* at = (__m128i*)(void*)weights;
  const __m128i low = zo_signed_delta(_mm_shuffle_epi32(bytes, _MM_SHUFFLE(1, 1, 0, 0)), signs.delta);
  const __m128i high = zo_signed_delta(_mm_shuffle_epi32(bytes, _MM_SHUFFLE(3, 3, 2, 2)), signs.delta);
  _mm_storeu_si128(at, _mm_add_epi8(_mm_loadu_si128(at), low));
  _mm_storeu_si128(at + 1, _mm_add_epi8(_mm_loadu_si128(at + 1), high));
}

static inline void zo_add_32_both(int8_t* weights, uint32_t word, zo_signs signs, uint32_t word_2, zo_signs signs_2) {
  zo_add_32_signs(weights, word, signs);
  zo_add_32_signs(weights, word_2, signs_2);
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_SSE2_H_ */
