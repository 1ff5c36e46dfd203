/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx2.h"
#include "ops/kernels/zo_x86.h"

enum { kStep = 16, kChannels = 16 };

static inline int32_t reduce(__m256i v) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1)));
}

static inline int32_t dot(const int16_t* x, const int8_t* w, int32_t depth) {
  __m256i sums = _mm256_setzero_si256();
  int32_t at = 0;
  for (; at + kStep <= depth; at += kStep) {
    const __m256i own =
        _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)(const void*)(w + at)));
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(zo_avx2_load(x + at), own));
  }
  uint32_t sum = (uint32_t)reduce(sums);
  for (; at < depth; ++at) sum += (uint32_t)(x[at] * w[at]);
  return (int32_t)sum;
}

void zo_avx2_dots(const zo_dots* dots) {
  const zo_dots* d = dots;
  const int16_t* x = (const int16_t*)(const void*)d->row;
  for (int32_t first = 0; first < d->channels; first += kChannels) {
    int32_t sums[kChannels] = {0};
    const int32_t left = d->channels - first, valid = left < kChannels ? left : kChannels;
    for (int32_t c = 0; c < valid; ++c) {
      const int8_t* w = d->filters + (ptrdiff_t)(first + c) * d->depth;
      sums[c] = (int32_t)((uint32_t)dot(x, w, d->depth) + (uint32_t)d->output->start[first + c]);
    }
    if (!d->output->shifts_right) {
      for (int32_t c = 0; c < valid; ++c) {
        d->y[first + c] = zo_output_of(d->output, first + c, sums[c]);
      }
      continue;
    }
    const __m256i packed =
        _mm256_packs_epi32(zo_avx2_scaled(zo_avx2_load(sums), d->output, first),
                           zo_avx2_scaled(zo_avx2_load(sums + 8), d->output, first + 8));
    const __m256i ordered = _mm256_permute4x64_epi64(packed, 0xD8);
    zo_avx2_store_bytes(d->y + first, zo_avx2_bytes(ordered, d->output->min, d->output->max),
                        valid);
  }
}
