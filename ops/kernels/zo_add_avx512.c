/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx512.h"
#include "ops/kernels/zo_x86.h"

enum { kLanes = 16 };

/* x * multiplier with its two roundings, of lifted x, the shift being 0 at most. */
static inline __m512i scaled(__m512i lifted, zo_multiplier multiplier) {
  const zo_avx512_multiplier m = zo_avx512_multiplier_of(_mm512_set1_epi32(multiplier.value));
  const __m512i high = zo_avx512_high(lifted, &m);
  if (multiplier.shift == 0) return high;
  const __m512i less = _mm512_add_epi32(high, _mm512_srai_epi32(high, 31));
  const __m512i part = _mm512_sra_epi32(less, _mm_cvtsi32_si128(-multiplier.shift - 1));
  return _mm512_srai_epi32(_mm512_add_epi32(part, _mm512_set1_epi32(1)), 1);
}

static inline __m512i term(const int8_t* x, int32_t offset, zo_multiplier multiplier) {
  const __m512i wide = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)(const void*)x));
  /* What lifts is 2^11 before the shift. */
  const __m512i lifted =
      _mm512_slli_epi32(_mm512_add_epi32(wide, _mm512_set1_epi32(offset + 2048)), 20);
  return scaled(lifted, multiplier);
}

void zo_avx512_add(const zo_add* add) {
  const __m128i min = _mm_set1_epi8((char)add->min), max = _mm_set1_epi8((char)add->max);
  size_t i = 0;
  for (; i + kLanes <= add->count; i += kLanes) {
    const __m512i sum = _mm512_add_epi32(term(add->x[0] + i, add->offset[0], add->input[0]),
                                         term(add->x[1] + i, add->offset[1], add->input[1]));
    const __m512i y = _mm512_add_epi32(scaled(zo_avx512_lift(sum), add->output),
                                       _mm512_set1_epi32(add->zero_point));
    const __m128i bytes = _mm512_cvtsepi32_epi8(y);
    _mm_storeu_si128((__m128i*)(void*)(add->y + i), _mm_min_epi8(_mm_max_epi8(bytes, min), max));
  }
  for (; i < add->count; ++i) add->y[i] = zo_add_one(add, add->x[0][i], add->x[1][i]);
}
