/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx2.h"
#include "ops/kernels/zo_x86.h"

enum { kStep = 16 };

static inline int32_t reduce(__m256i v) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1)));
}

static inline uint32_t dot(const zo_dots* d, const int8_t* w) {
  const int16_t* x = (const int16_t*)(const void*)d->row;
  const int32_t depth = d->depth;
  __m256i sums = _mm256_setzero_si256();
  int32_t at = 0;
  for (; at + kStep <= depth; at += kStep) {
    const __m256i own = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)(const void*)(w + at)));
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(zo_avx2_load(x + at), own));
  }
  uint32_t sum = (uint32_t)reduce(sums);
  for (; at < depth; ++at) sum += (uint32_t)(x[at] * w[at]);
  return sum;
}

static inline void finish(const zo_output* output, int32_t channel, const int32_t* sums, int8_t* y, int32_t valid) {
  zo_avx2_finish(output, channel, zo_avx2_load(sums), zo_avx2_load(sums + 8), y, valid);
}

void zo_avx2_dots(const zo_dots* dots) { zo_dots_by_channels(dots, 16, dot, finish); }
