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
static inline __attribute__((always_inline)) void zo_avx512_add_fours(__m512i* sums, __m512i x, __m512i w) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(*sums) : "v"(x), "v"(w));
}

/* sums += two products of signed 16-bit values each. */
static inline __attribute__((always_inline)) void zo_avx512_add_twos(__m512i* sums, __m512i x, __m512i w) {
  __asm__("vpdpwssd %2, %1, %0" : "+v"(*sums) : "v"(x), "v"(w));
}

/* Sums that will be multiplied are lifted: they have 2^31 more than they are, and no sign. Then a
 * multiplier, which is below 2^31, can be doubled, and the high product is the high half of 64
 * bits. */
static inline __m512i zo_avx512_lift(__m512i sums) { return _mm512_xor_si512(sums, _mm512_set1_epi32(INT32_MIN)); }

/* Multipliers of 16 channels. */
typedef struct zo_avx512_multiplier {
  __m512i even, odd;           /* of channels 0, 2, … and 1, 3, …, doubled, in the low halves of 64 bits */
  __m512i even_rest, odd_rest; /* 2^31 - 2^32 multiplier: half, and the lifting addend */
} zo_avx512_multiplier;

static inline zo_avx512_multiplier zo_avx512_multiplier_of(__m512i multiplier) {
  const __m512i half = _mm512_set1_epi64(INT64_C(1) << 31);
  const __m512i negative = _mm512_sub_epi32(_mm512_setzero_si512(), multiplier);
  zo_avx512_multiplier result;
  result.even = _mm512_slli_epi32(multiplier, 1);
  result.odd = _mm512_srli_epi64(result.even, 32);
  result.even_rest = _mm512_or_si512(_mm512_slli_epi64(negative, 32), half);
  result.odd_rest = _mm512_mask_blend_epi32(0xAAAA, half, negative);
  return result;
}

/* floor((sum * multiplier + 2^30) / 2^31) of lifted sums: the rounding doubling high product. */
static inline __m512i zo_avx512_high(__m512i lifted, const zo_avx512_multiplier* m) {
  const __m512i even = _mm512_add_epi64(_mm512_mul_epu32(lifted, m->even), m->even_rest);
  const __m512i odd = _mm512_add_epi64(_mm512_mul_epu32(_mm512_srli_epi64(lifted, 32), m->odd), m->odd_rest);
  return _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
}

/* Constants of 16 channels. */
typedef struct zo_avx512_output {
  zo_avx512_multiplier multiplier;
  __m512i right; /* shifts less 1 */
  __m512i round; /* 2 zero point + 1 */
} zo_avx512_output;

static inline zo_avx512_output zo_avx512_output_of(const zo_output* output, int32_t channel) {
  const __m512i right = _mm512_loadu_si512(output->right + channel);
  zo_avx512_output result;
  result.multiplier = zo_avx512_multiplier_of(_mm512_loadu_si512(output->multiplier + channel));
  result.right = _mm512_sub_epi32(right, _mm512_set1_epi32(1));
  result.round = _mm512_set1_epi32(2 * output->zero_point + 1);
  return result;
}

/* Outputs of lifted sums, not yet clamped. With h the high product, n = 1 if it is negative and
 * r the shift, TFLM's division half away from zero is floor((h - n + 2^(r-1)) / 2^r), which is
 *
 *   floor((floor((h - n) / 2^(r-1)) + 1) / 2)
 *
 * and never leaves 32 bits; h - n does not, for |h| < 2^31. The zero point comes in before the
 * last halving. */
static inline __m512i zo_avx512_scaled(__m512i lifted, const zo_avx512_output* o) {
  __m512i h = zo_avx512_high(lifted, &o->multiplier);
  h = _mm512_add_epi32(h, _mm512_srai_epi32(h, 31));
  h = _mm512_add_epi32(_mm512_srav_epi32(h, o->right), o->round);
  return _mm512_srai_epi32(h, 1);
}

/* Where outputs are clamped to, as often as a vector holds them. */
typedef struct zo_avx512_range {
  __m512i min, max;
} zo_avx512_range;

static inline zo_avx512_range zo_avx512_range_of(const zo_output* output) {
  const zo_avx512_range range = {_mm512_set1_epi8((char)output->min), _mm512_set1_epi8((char)output->max)};
  return range;
}

static inline __m128i zo_avx512_bytes(__m512i scaled, zo_avx512_range range) {
  const __m128i y = _mm512_cvtsepi32_epi8(scaled);
  return _mm_min_epi8(_mm_max_epi8(y, _mm512_castsi512_si128(range.min)), _mm512_castsi512_si128(range.max));
}

/* Clamped outputs of four neighbouring vectors. Packing takes quarters of vectors by turns. */
static inline __m512i zo_avx512_four_bytes(__m512i a, __m512i b, __m512i c, __m512i d, zo_avx512_range range) {
  const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  const __m512i y = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
  const __m512i clamped = _mm512_min_epi8(_mm512_max_epi8(y, range.min), range.max);
  return _mm512_permutexvar_epi32(order, clamped);
}

/* The sums of four vectors, each of all its 32-bit values. */
static inline __m128i zo_avx512_reduce_four(const __m512i v[4]) {
  const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
  const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
  const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

#endif /* TFLM_ZO_OPS_KERNELS_ZO_AVX512_H_ */
