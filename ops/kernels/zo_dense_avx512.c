/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx512.h"
#include "ops/kernels/zo_columns_avx512.h"
#include "ops/kernels/zo_x86.h"

enum { kFour = 4, kVector = 64, kChannels = 8, kMostBlocks = 2 };

/* The sums of four filters of so many values. */
static __m128i filter_sums(const int8_t* const* filter, int32_t depth) {
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i sums[kFour];
  for (int f = 0; f < kFour; ++f) sums[f] = _mm512_setzero_si512();
  for (int32_t at = 0; at < depth; at += kVector) {
    const int32_t left = depth - at;
    const __mmask64 mask = left >= kVector ? ~UINT64_C(0) : (UINT64_C(1) << left) - 1u;
#pragma GCC unroll 4
    for (int f = 0; f < kFour; ++f) {
      zo_avx512_add_fours(&sums[f], ones, _mm512_maskz_loadu_epi8(mask, filter[f] + at));
    }
  }
  return zo_avx512_reduce_four(sums);
}

/* Initial sums of a tile's channels. */
static void load_starts(const zo_dense* d, const int8_t* const* filter, int32_t first, int32_t* start) {
  for (int c = 0; c < kChannels; ++c) start[c] = d->output->start[first + c];
  for (int c = 0; d->correction != 0 && c < kChannels; c += kFour) {
    const __m128i from = _mm_loadu_si128((const __m128i*)(const void*)(start + c));
    const __m128i more = _mm_mullo_epi32(filter_sums(filter + c, d->depth), _mm_set1_epi32(d->correction));
    _mm_storeu_si128((__m128i*)(void*)(start + c), _mm_add_epi32(from, more));
  }
}

static zo_avx512_output output_of_channel(const zo_output* output, int32_t channel) {
  zo_avx512_output o;
  o.multiplier = zo_avx512_multiplier_of(_mm512_set1_epi32(output->multiplier[channel]));
  o.right = _mm512_set1_epi32(output->right[channel] - 1);
  o.round = _mm512_set1_epi32(2 * output->zero_point + 1);
  return o;
}

/* Clamped outputs of four channels, [kZoSamples, 4]. */
static inline __m512i four_channels(__m512i a, __m512i b, __m512i c, __m512i d, zo_avx512_range range) {
  const __m512i order = _mm512_broadcast_i32x4(_mm_set_epi8(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0));
  const __m512i y = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
  const __m512i clamped = _mm512_min_epi8(_mm512_max_epi8(y, range.min), range.max);
  return _mm512_shuffle_epi8(clamped, order);
}

/* Outputs of vectors of sums if some channel shifts left or not at all. */
static __attribute__((noinline)) void finish_slowly(const zo_dense* d, int32_t first, const __m512i* lifted,
                                                    int32_t valid, int blocks) {
  for (int32_t i = 0; i < valid * blocks; ++i) {
    const int32_t channel = first + i / blocks, sample = i % blocks * kZoSamples;
    int32_t sums[kZoSamples];
    _mm512_storeu_si512(sums, zo_avx512_lift(lifted[i]));
    for (int32_t s = 0; s < kZoSamples && sample + s < d->samples; ++s) {
      d->y[(ptrdiff_t)(sample + s) * d->channels + channel] = zo_output_of(d->output, channel, sums[s]);
    }
  }
}

/* [kZoSamples, kChannels] outputs of a block of samples, of which so many channels are valid. */
static void store(const zo_dense* d, int32_t channel, int32_t sample, const int8_t* from, int32_t valid) {
  int8_t* to = d->y + (ptrdiff_t)sample * d->channels + channel;
  const int32_t left = d->samples - sample, count = left < kZoSamples ? left : kZoSamples;
  for (int32_t s = 0; s < count; ++s, from += kChannels, to += d->channels) {
    if (valid == kChannels) {
      __builtin_memcpy(to, from, kChannels);
    } else {
      for (int32_t c = 0; c < valid; ++c) to[c] = from[c];
    }
  }
}

static inline __attribute__((always_inline)) void finish(const zo_dense* d, int32_t first,
                                                         __m512i sums[kChannels][kMostBlocks], const int blocks,
                                                         int32_t valid) {
  if (!d->output->shifts_right) {
    __m512i stored[kChannels * kMostBlocks];
#pragma GCC unroll 16
    for (int i = 0; i < kChannels * blocks; ++i) stored[i] = sums[i / blocks][i % blocks];
    finish_slowly(d, first, stored, valid, blocks);
    return;
  }
  const zo_avx512_range range = zo_avx512_range_of(d->output);
#pragma GCC unroll 8
  for (int c = 0; c < kChannels; ++c) {
    const zo_avx512_output o = output_of_channel(d->output, first + c);
#pragma GCC unroll 2
    for (int b = 0; b < blocks; ++b) sums[c][b] = zo_avx512_scaled(sums[c][b], &o);
  }
  const __m512i begin = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i end = _mm512_add_epi32(begin, _mm512_set1_epi32(8));
#pragma GCC unroll 2
  for (int b = 0; b < blocks; ++b) {
    int8_t y[kZoSamples * kChannels];
    const __m512i low = four_channels(sums[0][b], sums[1][b], sums[2][b], sums[3][b], range);
    const __m512i high = four_channels(sums[4][b], sums[5][b], sums[6][b], sums[7][b], range);
    _mm512_storeu_si512(y, _mm512_permutex2var_epi32(low, begin, high));
    _mm512_storeu_si512(y + kVector, _mm512_permutex2var_epi32(low, end, high));
    store(d, first, b * kZoSamples, y, valid);
  }
}

/* Eight channels of one or two blocks of samples; the last channel stands in for missing ones. */
static inline __attribute__((always_inline)) void tile(const zo_dense* d, int32_t first, const int blocks) {
  const int32_t left = d->channels - first, valid = left < kChannels ? left : kChannels;
  const int8_t* filter[kChannels];
  int32_t start[kChannels];
  __m512i sums[kChannels][kMostBlocks];
#pragma GCC unroll 8
  for (int c = 0; c < kChannels; ++c) {
    const int32_t own = first + (c < valid ? c : valid - 1);
    filter[c] = d->filters + (ptrdiff_t)own * d->depth;
  }
  load_starts(d, filter, first, start);
#pragma GCC unroll 8
  for (int c = 0; c < kChannels; ++c) {
    sums[c][0] = zo_avx512_lift(_mm512_set1_epi32(start[c]));
    if (blocks == 2) sums[c][1] = sums[c][0];
  }
  const uint8_t* x = d->memory;
  const ptrdiff_t next_block = (ptrdiff_t)kZoSamples * d->depth;
  for (int32_t at = 0; at < d->depth; at += kFour, x += kVector) {
    const __m512i low = _mm512_loadu_si512(x);
    const __m512i high = blocks == 2 ? _mm512_loadu_si512(x + next_block) : low;
#pragma GCC unroll 8
    for (int c = 0; c < kChannels; ++c) {
      int32_t four;
      __builtin_memcpy(&four, filter[c] + at, sizeof four);
      const __m512i w = _mm512_set1_epi32(four);
      zo_avx512_add_fours(&sums[c][0], low, w);
      if (blocks == 2) zo_avx512_add_fours(&sums[c][1], high, w);
    }
  }
  finish(d, first, sums, blocks, valid);
}

static __attribute__((noinline)) void load_block(const zo_dense* d, int32_t block) {
  const int32_t first = block * kZoSamples, left = d->samples - first;
  const ptrdiff_t depth = d->depth;
  zo_avx512_columns(d->x + first * depth, depth, left < kZoSamples ? left : kZoSamples, d->depth, 0x80,
                    d->memory + first * depth);
}

void zo_avx512_dense(const zo_dense* dense) {
  const bool is_one = dense->samples <= kZoSamples;
  load_block(dense, 0);
  if (!is_one) load_block(dense, 1);
  for (int32_t c = 0; c < dense->channels; c += kChannels) {
    if (is_one) {
      tile(dense, c, 1);
    } else {
      tile(dense, c, 2);
    }
  }
}
