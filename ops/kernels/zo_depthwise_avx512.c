/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx512.h"
#include "ops/kernels/zo_x86.h"

enum { kLanes = 32, kMostRuns = 4 };

/* Outputs of a block if some channel shifts left or not at all. */
static void finish_slowly(const zo_output* output, int32_t first, __m512i low, __m512i high, int8_t* y, int32_t valid) {
  int32_t places[kLanes];
  _mm512_storeu_si512(places, zo_avx512_lift(low));
  _mm512_storeu_si512(places + 16, zo_avx512_lift(high));
  for (int32_t i = 0; i < valid; ++i) {
    const int32_t place = zo_depthwise_place(i, kLanes);
    y[i] = zo_output_of(output, first + place, places[place]);
  }
}

/* A block of so many runs. */
static inline __attribute__((always_inline)) void block_of(const zo_depthwise* d, const int16_t* const* x,
                                                           int8_t* const* y, int32_t at, int32_t block,
                                                           const int runs) {
  const int32_t first = block * kLanes;
  const int16_t* filters = d->filters + (size_t)first * (size_t)d->taps;
  __m512i sums[kMostRuns][2];
#pragma GCC unroll 4
  for (int r = 0; r < runs; ++r) {
    sums[r][0] = zo_avx512_lift(_mm512_loadu_si512(d->output->start + first));
    sums[r][1] = zo_avx512_lift(_mm512_loadu_si512(d->output->start + first + 16));
  }
  for (int32_t tap = 0; tap < d->taps; tap += 2, filters += 2 * kLanes) {
    const __m512i low = _mm512_loadu_si512(filters);
    const __m512i high = _mm512_loadu_si512(filters + kLanes);
    const ptrdiff_t a = at + d->tap_at[tap], b = at + d->tap_at[tap + 1];
#pragma GCC unroll 4
    for (int r = 0; r < runs; ++r) {
      const __m512i xa = _mm512_loadu_si512(x[r] + a), xb = _mm512_loadu_si512(x[r] + b);
      zo_avx512_add_twos(&sums[r][0], _mm512_unpacklo_epi16(xa, xb), low);
      zo_avx512_add_twos(&sums[r][1], _mm512_unpackhi_epi16(xa, xb), high);
    }
  }
  const zo_output* out = d->output;
  const int32_t left = d->length - at;
  if (!out->shifts_right) {
#pragma GCC unroll 4
    for (int r = 0; r < runs; ++r) {
      finish_slowly(out, first, sums[r][0], sums[r][1], y[r] + at, left < kLanes ? left : kLanes);
    }
    return;
  }
  const zo_avx512_output low = zo_avx512_output_of(out, first);
  const zo_avx512_output high = zo_avx512_output_of(out, first + 16);
  const __m256i min = _mm256_set1_epi8((char)out->min), max = _mm256_set1_epi8((char)out->max);
  const __mmask32 mask = left >= kLanes ? 0xFFFFFFFFu : (1u << left) - 1u;
#pragma GCC unroll 4
  for (int r = 0; r < runs; ++r) {
    /* Packing halves of vectors reverses the unpacking. */
    const __m512i both = _mm512_packs_epi32(zo_avx512_scaled(sums[r][0], &low), zo_avx512_scaled(sums[r][1], &high));
    const __m256i bytes = _mm512_cvtsepi16_epi8(both);
    _mm256_mask_storeu_epi8(y[r] + at, mask, _mm256_min_epi8(_mm256_max_epi8(bytes, min), max));
  }
}

ZO_DEPTHWISE_RUNS(four_runs, kMostRuns, kLanes)
ZO_DEPTHWISE_RUNS(one_run, 1, kLanes)

void zo_avx512_depthwise(const zo_depthwise* depthwise) {
  zo_depthwise_by_runs(depthwise, kMostRuns, four_runs, one_run);
}
