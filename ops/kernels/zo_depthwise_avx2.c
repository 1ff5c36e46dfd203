/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx2.h"
#include "ops/kernels/zo_x86.h"

enum { kLanes = 16, kMostRuns = 2 };

static void finish(const zo_output* output, int32_t first, __m256i low, __m256i high, int8_t* y, int32_t valid) {
  if (!output->shifts_right) {
    int32_t places[kLanes];
    zo_avx2_store(places, low);
    zo_avx2_store(places + 8, high);
    for (int32_t i = 0; i < valid; ++i) {
      const int32_t place = zo_depthwise_place(i, kLanes);
      y[i] = zo_output_of(output, first + place, places[place]);
    }
    return;
  }
  /* Packing halves of vectors reverses the unpacking. */
  const __m256i packed =
      _mm256_packs_epi32(zo_avx2_scaled(low, output, first), zo_avx2_scaled(high, output, first + 8));
  zo_avx2_store_bytes(y, zo_avx2_bytes(packed, output->min, output->max), valid);
}

static inline __attribute__((always_inline)) void block_of(const zo_depthwise* d, const int16_t* const* x,
                                                           int8_t* const* y, int32_t at, int32_t block,
                                                           const int runs) {
  const int32_t first = block * kLanes;
  const int16_t* filters = d->filters + (size_t)first * (size_t)d->taps;
  __m256i sums[kMostRuns][2];
#pragma GCC unroll 2
  for (int r = 0; r < runs; ++r) {
    sums[r][0] = zo_avx2_load(d->output->start + first);
    sums[r][1] = zo_avx2_load(d->output->start + first + 8);
  }
  for (int32_t tap = 0; tap < d->taps; tap += 2, filters += 2 * kLanes) {
    const __m256i low = zo_avx2_load(filters), high = zo_avx2_load(filters + kLanes);
    const ptrdiff_t a = at + d->tap_at[tap], b = at + d->tap_at[tap + 1];
#pragma GCC unroll 2
    for (int r = 0; r < runs; ++r) {
      const __m256i xa = zo_avx2_load(x[r] + a), xb = zo_avx2_load(x[r] + b);
      sums[r][0] = _mm256_add_epi32(sums[r][0], _mm256_madd_epi16(_mm256_unpacklo_epi16(xa, xb), low));
      sums[r][1] = _mm256_add_epi32(sums[r][1], _mm256_madd_epi16(_mm256_unpackhi_epi16(xa, xb), high));
    }
  }
  const int32_t left = d->length - at;
#pragma GCC unroll 2
  for (int r = 0; r < runs; ++r) {
    finish(d->output, first, sums[r][0], sums[r][1], y[r] + at, left < kLanes ? left : kLanes);
  }
}

ZO_DEPTHWISE_RUNS(two_runs, kMostRuns, kLanes)
ZO_DEPTHWISE_RUNS(one_run, 1, kLanes)

void zo_avx2_depthwise(const zo_depthwise* depthwise) { zo_depthwise_by_runs(depthwise, kMostRuns, two_runs, one_run); }
