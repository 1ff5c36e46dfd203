/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx2.h"
#include "ops/kernels/zo_layers.h"

typedef __m256i zo_vector;
#define ZO_VECTOR 16u

static inline zo_vector load(const int16_t* values, size_t left) {
  (void)left; /* a vector at least */
  return zo_avx2_load(values);
}

static inline void add_pairs(zo_vector* sums, zo_vector x, zo_vector y) {
  *sums = _mm256_add_epi32(*sums, _mm256_madd_epi16(x, y));
}

/* Adds up the eight sums of each of four vectors. */
static inline void totals(zo_vector a, zo_vector b, zo_vector c, zo_vector d, int32_t* sums) {
  const __m256i all = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
  _mm_storeu_si128((__m128i*)(void*)sums, _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
}

#include "ops/kernels/zo_layers_loops.h"

const zo_layers zo_avx2_layers = {backprop, add_gradients};
