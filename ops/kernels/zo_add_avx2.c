/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx2.h"
#include "ops/kernels/zo_x86.h"

enum { kLanes = 16 };

/* x * multiplier with its two roundings, the shift being 0 at most. */
static inline __m256i scaled(__m256i x, zo_multiplier multiplier) {
  const __m256i high = zo_avx2_high(x, _mm256_set1_epi32(multiplier.value));
  if (multiplier.shift == 0) return high;
  const __m256i less = _mm256_add_epi32(high, _mm256_srai_epi32(high, 31));
  const __m256i part = _mm256_sra_epi32(less, _mm_cvtsi32_si128(-multiplier.shift - 1));
  return _mm256_srai_epi32(_mm256_add_epi32(part, _mm256_set1_epi32(1)), 1);
}

static inline __m256i term(const int8_t* x, int32_t offset, zo_multiplier multiplier) {
  const __m256i wide = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)(const void*)x));
  const __m256i value = _mm256_slli_epi32(_mm256_add_epi32(wide, _mm256_set1_epi32(offset)), 20);
  return scaled(value, multiplier);
}

static inline __m256i sum_of(const zo_add* add, size_t i) {
  const __m256i sum = _mm256_add_epi32(term(add->x[0] + i, add->offset[0], add->input[0]),
                                       term(add->x[1] + i, add->offset[1], add->input[1]));
  return _mm256_add_epi32(scaled(sum, add->output), _mm256_set1_epi32(add->zero_point));
}

void zo_avx2_add(const zo_add* add) {
  size_t i = 0;
  for (; i + kLanes <= add->count; i += kLanes) {
    const __m256i packed = _mm256_packs_epi32(sum_of(add, i), sum_of(add, i + 8));
    const __m256i ordered = _mm256_permute4x64_epi64(packed, 0xD8);
    zo_avx2_store_bytes(add->y + i, zo_avx2_bytes(ordered, add->min, add->max), kLanes);
  }
  for (; i < add->count; ++i) add->y[i] = zo_add_one(add, add->x[0][i], add->x[1][i]);
}
