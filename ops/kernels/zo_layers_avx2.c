/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx2.h"
#include "ops/kernels/zo_layers.h"

/* Adds up the eight sums of each of four vectors. */
static inline __m128i totals(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i all = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
  return _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}

static inline __m256i add_pairs(__m256i sums, __m256i x, const int16_t* y) {
  return _mm256_add_epi32(sums, _mm256_madd_epi16(x, zo_avx2_load(y)));
}

/* Compilers add up the parts of each vector after each run, which are short. */
#define ZO_DOTS16
static void zo_dots16(const int16_t* const* x, const int16_t* const* y, const zo_run* runs, size_t count,
                      int32_t sums[kZoDotRows][kZoDotColumns]) {
  __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0, s8 = s0, s9 = s0,
          s10 = s0, s11 = s0;
  for (const zo_run* run = runs; run < runs + count; ++run) {
    const int16_t *p = y[0] + run->y, *q = y[1] + run->y, *v = y[2] + run->y, *w = y[3] + run->y;
    for (size_t i = 0; i < run->length; i += kZoRun) {
      const __m256i a = zo_avx2_load(x[0] + run->x + i), b = zo_avx2_load(x[1] + run->x + i),
                    c = zo_avx2_load(x[2] + run->x + i);
      s0 = add_pairs(s0, a, p + i), s4 = add_pairs(s4, b, p + i), s8 = add_pairs(s8, c, p + i);
      s1 = add_pairs(s1, a, q + i), s5 = add_pairs(s5, b, q + i), s9 = add_pairs(s9, c, q + i);
      s2 = add_pairs(s2, a, v + i), s6 = add_pairs(s6, b, v + i), s10 = add_pairs(s10, c, v + i);
      s3 = add_pairs(s3, a, w + i), s7 = add_pairs(s7, b, w + i), s11 = add_pairs(s11, c, w + i);
    }
  }
  _mm_storeu_si128((__m128i*)(void*)sums[0], totals(s0, s1, s2, s3));
  _mm_storeu_si128((__m128i*)(void*)sums[1], totals(s4, s5, s6, s7));
  _mm_storeu_si128((__m128i*)(void*)sums[2], totals(s8, s9, s10, s11));
}

#include "ops/kernels/zo_layers_loops.h"

const zo_layers zo_avx2_layers = {backprop, add_gradients};
