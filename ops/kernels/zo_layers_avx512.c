/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx512.h"
#include "ops/kernels/zo_layers.h"

/* Adds up the sixteen sums of each of four vectors. */
static inline __m128i totals(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/* 32 values, or the 16 that a run has left and zeros. */
static inline __m512i load(const int16_t* values, __mmask16 pairs) { return _mm512_maskz_loadu_epi32(pairs, values); }

#define ZO_DOTS16
static void zo_dots16(const int16_t* const* x, const int16_t* const* y, const zo_run* runs, size_t count,
                      int32_t sums[kZoDotRows][kZoDotColumns]) {
  __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0, s8 = s0, s9 = s0,
          s10 = s0, s11 = s0;
  for (const zo_run* run = runs; run < runs + count; ++run) {
    const int16_t *p = y[0] + run->y, *q = y[1] + run->y, *v = y[2] + run->y, *w = y[3] + run->y;
    for (size_t i = 0; i < run->length; i += 2u * kZoRun) {
      const __mmask16 pairs = run->length - i < 2u * kZoRun ? 0xFF : 0xFFFF;
      const __m512i a = load(x[0] + run->x + i, pairs), b = load(x[1] + run->x + i, pairs),
                    c = load(x[2] + run->x + i, pairs);
      const __m512i e = load(p + i, pairs), f = load(q + i, pairs), g = load(v + i, pairs), h = load(w + i, pairs);
      zo_avx512_add_twos(&s0, a, e), zo_avx512_add_twos(&s4, b, e), zo_avx512_add_twos(&s8, c, e);
      zo_avx512_add_twos(&s1, a, f), zo_avx512_add_twos(&s5, b, f), zo_avx512_add_twos(&s9, c, f);
      zo_avx512_add_twos(&s2, a, g), zo_avx512_add_twos(&s6, b, g), zo_avx512_add_twos(&s10, c, g);
      zo_avx512_add_twos(&s3, a, h), zo_avx512_add_twos(&s7, b, h), zo_avx512_add_twos(&s11, c, h);
    }
  }
  _mm_storeu_si128((__m128i*)(void*)sums[0], totals(s0, s1, s2, s3));
  _mm_storeu_si128((__m128i*)(void*)sums[1], totals(s4, s5, s6, s7));
  _mm_storeu_si128((__m128i*)(void*)sums[2], totals(s8, s9, s10, s11));
}

#include "ops/kernels/zo_layers_loops.h"

const zo_layers zo_avx512_layers = {backprop, add_gradients};
