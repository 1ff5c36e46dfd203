/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx512.h"
#include "ops/kernels/zo_x86.h"

enum { kStep = 64, kChannels = 16, kAtOnce = 4 };

/* 32-bit sums of the vectors. */
static inline void reduce(const __m512i v[kAtOnce], int32_t* sums) {
  const __m512i ab =
      _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
  const __m512i cd =
      _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
  const __m512i all =
      _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  const __m256i half =
      _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  const __m128i four =
      _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  _mm_storeu_si128((__m128i*)(void*)sums, four);
}

/* Sums of kAtOnce channels; pointers of missing ones are those of others. */
static inline __attribute__((always_inline)) void four_channels(const zo_dots* d,
                                                                const int8_t* const* w,
                                                                int32_t* sums) {
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i products[kAtOnce], filters[kAtOnce];
#pragma GCC unroll 4
  for (int c = 0; c < kAtOnce; ++c) products[c] = filters[c] = _mm512_setzero_si512();
  for (int32_t at = 0; at < d->depth; at += kStep) {
    const int32_t left = d->depth - at;
    const __mmask64 mask = left >= kStep ? ~UINT64_C(0) : (UINT64_C(1) << left) - 1u;
    const __m512i x = _mm512_maskz_loadu_epi8(mask, d->row + at);
#pragma GCC unroll 4
    for (int c = 0; c < kAtOnce; ++c) {
      const __m512i own = _mm512_maskz_loadu_epi8(mask, w[c] + at);
      zo_avx512_add_fours(&products[c], x, own);
      zo_avx512_add_fours(&filters[c], ones, own);
    }
  }
  const __m512i correction = _mm512_set1_epi32(d->correction);
#pragma GCC unroll 4
  for (int c = 0; c < kAtOnce; ++c) {
    products[c] = _mm512_add_epi32(products[c], _mm512_mullo_epi32(filters[c], correction));
  }
  reduce(products, sums);
}

void zo_avx512_dots(const zo_dots* dots) {
  const zo_dots* d = dots;
  for (int32_t first = 0; first < d->channels; first += kChannels) {
    int32_t sums[kChannels];
    const int32_t left = d->channels - first, valid = left < kChannels ? left : kChannels;
    for (int32_t c = 0; c < kChannels; c += kAtOnce) {
      const int8_t* w[kAtOnce];
      for (int32_t i = 0; i < kAtOnce; ++i) {
        const int32_t own = c + i < valid ? c + i : valid - 1;
        w[i] = d->filters + (ptrdiff_t)(first + own) * d->depth;
      }
      four_channels(d, w, sums + c);
      if (c + kAtOnce >= valid) break;
    }
    const zo_output* out = d->output;
    if (!out->shifts_right) {
      for (int32_t c = 0; c < valid; ++c) {
        const uint32_t sum = (uint32_t)sums[c] + (uint32_t)out->start[first + c];
        d->y[first + c] = zo_output_of(out, first + c, (int32_t)sum);
      }
      continue;
    }
    const __mmask16 mask = (__mmask16)((1u << valid) - 1u);
    const zo_avx512_output o = zo_avx512_output_of(out, first);
    const __m512i all = _mm512_add_epi32(_mm512_maskz_loadu_epi32(mask, sums),
                                         _mm512_loadu_si512(out->start + first));
    _mm_mask_storeu_epi8(d->y + first, mask, zo_avx512_finish(all, &o));
  }
}
