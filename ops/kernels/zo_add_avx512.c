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

/* Half: the input with the larger scale, whose factor is 2^30 / 2^31. */
static inline __attribute__((always_inline)) __m512i term(const int8_t* x, int32_t offset, zo_multiplier multiplier,
                                                          const bool is_half) {
  const __m512i wide = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)(const void*)x));
  if (is_half) return _mm512_slli_epi32(_mm512_add_epi32(wide, _mm512_set1_epi32(offset)), 19);
  /* The lifting addend is 2^11 before the shift. */
  const __m512i lifted = _mm512_slli_epi32(_mm512_add_epi32(wide, _mm512_set1_epi32(offset + 2048)), 20);
  return scaled(lifted, multiplier);
}

/* As many values as make whole vectors of bytes. */
static inline __attribute__((always_inline)) size_t add_vectors(const zo_add* add, const bool first_is_half,
                                                                const bool second_is_half) {
  const __m512i zero_point = _mm512_set1_epi32(add->zero_point);
  const zo_avx512_range range = {_mm512_set1_epi8((char)add->min), _mm512_set1_epi8((char)add->max)};
  size_t i = 0;
  for (; i + 4 * kLanes <= add->count; i += 4 * kLanes) {
    __m512i y[4];
#pragma GCC unroll 4
    for (size_t v = 0; v < 4; ++v) {
      const size_t at = i + kLanes * v;
      const __m512i sum = _mm512_add_epi32(term(add->x[0] + at, add->offset[0], add->input[0], first_is_half),
                                           term(add->x[1] + at, add->offset[1], add->input[1], second_is_half));
      y[v] = _mm512_add_epi32(scaled(zo_avx512_lift(sum), add->output), zero_point);
    }
    _mm512_storeu_si512(add->y + i, zo_avx512_four_bytes(y[0], y[1], y[2], y[3], range));
  }
  return i;
}

static bool is_half(zo_multiplier multiplier) { return multiplier.value == INT32_C(1) << 30 && multiplier.shift == 0; }

void zo_avx512_add(const zo_add* add) {
  size_t i;
  if (is_half(add->input[0])) {
    i = add_vectors(add, true, false);
  } else if (is_half(add->input[1])) {
    i = add_vectors(add, false, true);
  } else {
    i = add_vectors(add, false, false);
  }
  for (; i < add->count; ++i) add->y[i] = zo_add_one(add, add->x[0][i], add->x[1][i]);
}
