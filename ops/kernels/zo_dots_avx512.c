/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx512.h"
#include "ops/kernels/zo_x86.h"

enum { kStep = 64, kChannels = 16, kAtOnce = 4 };

typedef struct four_sums {
  __m512i products[kAtOnce], filters[kAtOnce];
} four_sums;

static inline __attribute__((always_inline)) void add_step(four_sums* sums, __m512i x, const __m512i* w,
                                                           const bool corrected) {
  const __m512i ones = _mm512_set1_epi8(1);
#pragma GCC unroll 4
  for (int c = 0; c < kAtOnce; ++c) {
    zo_avx512_add_fours(&sums->products[c], x, w[c]);
    if (corrected) zo_avx512_add_fours(&sums->filters[c], ones, w[c]);
  }
}

/* Sums of four channels from this one on; the last channel stands in for missing ones. Behind a
 * ReLU zero points are -128, and sums need no correction. */
static inline __attribute__((always_inline)) __m128i four_channels(const zo_dots* d, int32_t channel,
                                                                   const bool corrected) {
  const int8_t* w[kAtOnce];
  four_sums sums;
#pragma GCC unroll 4
  for (int c = 0; c < kAtOnce; ++c) {
    const int32_t own = channel + c < d->channels ? channel + c : d->channels - 1;
    w[c] = d->filters + (ptrdiff_t)own * d->depth;
    sums.products[c] = sums.filters[c] = _mm512_setzero_si512();
  }
  int32_t at = 0;
  for (; at + kStep <= d->depth; at += kStep) {
    __m512i own[kAtOnce];
#pragma GCC unroll 4
    for (int c = 0; c < kAtOnce; ++c) own[c] = _mm512_loadu_si512(w[c] + at);
    add_step(&sums, _mm512_loadu_si512(d->row + at), own, corrected);
  }
  if (at < d->depth) {
    const __mmask64 mask = (UINT64_C(1) << (d->depth - at)) - 1u;
    __m512i own[kAtOnce];
#pragma GCC unroll 4
    for (int c = 0; c < kAtOnce; ++c) own[c] = _mm512_maskz_loadu_epi8(mask, w[c] + at);
    add_step(&sums, _mm512_maskz_loadu_epi8(mask, d->row + at), own, corrected);
  }
  if (corrected) {
    const __m512i correction = _mm512_set1_epi32(d->correction);
#pragma GCC unroll 4
    for (int c = 0; c < kAtOnce; ++c) {
      sums.products[c] = _mm512_add_epi32(sums.products[c], _mm512_mullo_epi32(sums.filters[c], correction));
    }
  }
  return zo_avx512_reduce_four(sums.products);
}

/* Sums of kChannels channels; those past the last one are the last one's. */
static inline __attribute__((always_inline)) __m512i all_channels(const zo_dots* d, int32_t first,
                                                                  const bool corrected) {
  __m512i sums = _mm512_castsi128_si512(four_channels(d, first, corrected));
  if (first + 4 < d->channels) {
    sums = _mm512_inserti32x4(sums, four_channels(d, first + 4, corrected), 1);
  }
  if (first + 8 < d->channels) {
    sums = _mm512_inserti32x4(sums, four_channels(d, first + 8, corrected), 2);
  }
  if (first + 12 < d->channels) {
    sums = _mm512_inserti32x4(sums, four_channels(d, first + 12, corrected), 3);
  }
  return sums;
}

void zo_avx512_dots(const zo_dots* dots) {
  const zo_dots* d = dots;
  const zo_output* out = d->output;
  for (int32_t first = 0; first < d->channels; first += kChannels) {
    const int32_t left = d->channels - first, valid = left < kChannels ? left : kChannels;
    __m512i sums = d->correction == 0 ? all_channels(d, first, false) : all_channels(d, first, true);
    sums = _mm512_add_epi32(sums, _mm512_loadu_si512(out->start + first));
    if (!out->shifts_right) {
      int32_t values[kChannels];
      _mm512_storeu_si512(values, sums);
      for (int32_t c = 0; c < valid; ++c) {
        d->y[first + c] = zo_output_of(out, first + c, values[c]);
      }
      continue;
    }
    const __mmask16 mask = (__mmask16)((1u << valid) - 1u);
    const zo_avx512_output o = zo_avx512_output_of(out, first);
    _mm_mask_storeu_epi8(d->y + first, mask,
                         zo_avx512_bytes(zo_avx512_scaled(zo_avx512_lift(sums), &o), zo_avx512_range_of(out)));
  }
}
