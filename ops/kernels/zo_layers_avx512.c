/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx512.h"
#include "ops/kernels/zo_layers.h"

typedef __m512i zo_vector;
#define ZO_VECTOR 32u

/* 32 values, or the 16 that a run has left and zeros. */
static inline zo_vector load(const int16_t* values, size_t left) {
  return _mm512_maskz_loadu_epi32(left < ZO_VECTOR ? 0xFF : 0xFFFF, values);
}

static inline __attribute__((always_inline)) void add_pairs(zo_vector* sums, zo_vector x, zo_vector y) {
  zo_avx512_add_twos(sums, x, y);
}

/* Adds up the sixteen sums of each of four vectors. */
static inline void totals(zo_vector a, zo_vector b, zo_vector c, zo_vector d, int32_t* sums) {
  const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  _mm_storeu_si128((__m128i*)(void*)sums,
                   _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
}

#include "ops/kernels/zo_layers_loops.h"

const zo_layers zo_avx512_layers = {backprop, add_gradients};
