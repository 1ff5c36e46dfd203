/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * TFLM's requantization of 16 sums at once.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_AVX512_H_
#define TFLM_ZO_OPS_KERNELS_ZO_AVX512_H_

#include <immintrin.h>

#include "ops/kernels/zo_output.h"

/* sums += four products of unsigned and signed bytes each. GCC 12 moves the sums of its own
 * intrinsic to another register and back, each time. */
static inline __attribute__((always_inline)) void zo_avx512_add_fours(__m512i* sums, __m512i x,
                                                                      __m512i w) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(*sums) : "v"(x), "v"(w));
}

/* sums += two products of signed 16-bit values each. */
static inline __attribute__((always_inline)) void zo_avx512_add_twos(__m512i* sums, __m512i x,
                                                                     __m512i w) {
  __asm__("vpdpwssd %2, %1, %0" : "+v"(*sums) : "v"(x), "v"(w));
}

/* Constants of 16 channels. */
typedef struct zo_avx512_output {
  __m512i even, odd; /* multipliers of channels 0, 2, … and 1, 3, …, in the low halves of 64 bits */
  __m512i right;     /* shifts less 1 */
  __m512i round;     /* 2 zero point + 1 */
  __m128i min, max;
} zo_avx512_output;

static inline zo_avx512_output zo_avx512_output_of(const zo_output* output, int32_t channel) {
  const __m512i multiplier = _mm512_loadu_si512(output->multiplier + channel);
  const __m512i right = _mm512_loadu_si512(output->right + channel);
  zo_avx512_output result;
  result.even = multiplier;
  result.odd = _mm512_srli_epi64(multiplier, 32);
  result.right = _mm512_sub_epi32(right, _mm512_set1_epi32(1));
  result.round = _mm512_set1_epi32(2 * output->zero_point + 1);
  result.min = _mm_set1_epi8((char)output->min);
  result.max = _mm_set1_epi8((char)output->max);
  return result;
}

/* floor((sum * multiplier + 2^30) / 2^31): the rounding doubling high product. */
static inline __m512i zo_avx512_high(__m512i sums, __m512i even, __m512i odd) {
  const __m512i half = _mm512_set1_epi64(INT64_C(1) << 30);
  const __m512i low = _mm512_add_epi64(_mm512_mul_epi32(sums, even), half);
  const __m512i high = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(sums, 32), odd), half);
  return _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(low, 31), _mm512_slli_epi64(high, 1));
}

/* Outputs of sums, not yet clamped. With h the high product, n = 1 where it is negative and r the
 * shift, TFLM's division half away from zero is floor((h - n + 2^(r-1)) / 2^r), which is
 *
 *   floor((floor((h - n) / 2^(r-1)) + 1) / 2)
 *
 * and never leaves 32 bits; h - n does not, for |h| < 2^31. The zero point comes in before the
 * last halving. */
static inline __m512i zo_avx512_scaled(__m512i sums, const zo_avx512_output* o) {
  __m512i h = zo_avx512_high(sums, o->even, o->odd);
  h = _mm512_add_epi32(h, _mm512_srai_epi32(h, 31));
  h = _mm512_add_epi32(_mm512_srav_epi32(h, o->right), o->round);
  return _mm512_srai_epi32(h, 1);
}

static inline __m128i zo_avx512_finish(__m512i sums, const zo_avx512_output* o) {
  const __m128i y = _mm512_cvtsepi32_epi8(zo_avx512_scaled(sums, o));
  return _mm_min_epi8(_mm_max_epi8(y, o->min), o->max);
}

#endif /* TFLM_ZO_OPS_KERNELS_ZO_AVX512_H_ */
