/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * TFLM's requantization of 8 sums at once, as zo_avx512.h has it of 16.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_AVX2_H_
#define TFLM_ZO_OPS_KERNELS_ZO_AVX2_H_

#include <immintrin.h>

#include "ops/kernels/zo_output.h"

static inline __m256i zo_avx2_load(const void* from) { return _mm256_loadu_si256((const __m256i*)from); }

static inline void zo_avx2_store(void* to, __m256i value) { _mm256_storeu_si256((__m256i*)to, value); }

/* floor((sum * multiplier + 2^30) / 2^31). */
static inline __m256i zo_avx2_high(__m256i sums, __m256i multiplier) {
  const __m256i half = _mm256_set1_epi64x(INT64_C(1) << 30);
  const __m256i low = _mm256_add_epi64(_mm256_mul_epi32(sums, multiplier), half);
  const __m256i high =
      _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(sums, 32), _mm256_srli_epi64(multiplier, 32)), half);
  return _mm256_blend_epi32(_mm256_srli_epi64(low, 31), _mm256_slli_epi64(high, 1), 0xAA);
}

/* Outputs of 8 sums, from this channel on, not yet clamped. */
static inline __m256i zo_avx2_scaled(__m256i sums, const zo_output* o, int32_t channel) {
  const __m256i right = _mm256_sub_epi32(zo_avx2_load(o->right + channel), _mm256_set1_epi32(1));
  __m256i h = zo_avx2_high(sums, zo_avx2_load(o->multiplier + channel));
  h = _mm256_add_epi32(h, _mm256_srai_epi32(h, 31));
  h = _mm256_add_epi32(_mm256_srav_epi32(h, right), _mm256_set1_epi32(2 * o->zero_point + 1));
  return _mm256_srai_epi32(h, 1);
}

/* 16 outputs that were packed to 16 bits within halves of vectors of 8: low halves first. */
static inline __m128i zo_avx2_bytes(__m256i packed, int32_t min, int32_t max) {
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(packed), _mm256_extracti128_si256(packed, 1));
  return _mm_min_epi8(_mm_max_epi8(bytes, _mm_set1_epi8((char)min)), _mm_set1_epi8((char)max));
}

/* Stores the first `valid` bytes, 16 at most. */
static inline void zo_avx2_store_bytes(int8_t* y, __m128i bytes, int32_t valid) {
  if (valid >= 16) {
    _mm_storeu_si128((__m128i*)(void*)y, bytes);
    return;
  }
  int8_t all[16];
  _mm_storeu_si128((__m128i*)(void*)all, bytes);
  for (int32_t i = 0; i < valid; ++i) y[i] = all[i];
}

/* 16 outputs of sums of neighbouring channels, the first `valid` of which are stored. */
void zo_avx2_finish(const zo_output* output, int32_t channel, __m256i low, __m256i high, int8_t* y, int32_t valid);

#endif /* TFLM_ZO_OPS_KERNELS_ZO_AVX2_H_ */
