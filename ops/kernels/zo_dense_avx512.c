/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx512.h"
#include "ops/kernels/zo_x86.h"

enum { kFour = 4, kVector = 64, kMostRows = 8, kMostBlocks = 2 };

/* v[i] of 16 vectors has row i; afterwards it has column i. */
static inline __attribute__((always_inline)) void transpose(__m512i v[kZoSamples]) {
  __m512i t[kZoSamples];
#pragma GCC unroll 8
  for (int i = 0; i < kZoSamples; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
  /* v[4 i + c]: column c of each quarter, of rows 4 i to 4 i + 3. */
#pragma GCC unroll 4
  for (int i = 0; i < kZoSamples; i += 4) {
    v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512i first = _mm512_shuffle_i32x4(v[c], v[4 + c], 0x44);
    const __m512i second = _mm512_shuffle_i32x4(v[c], v[4 + c], 0xEE);
    const __m512i third = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0x44);
    const __m512i fourth = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0xEE);
    t[c] = _mm512_shuffle_i32x4(first, third, 0x88);
    t[4 + c] = _mm512_shuffle_i32x4(first, third, 0xDD);
    t[8 + c] = _mm512_shuffle_i32x4(second, fourth, 0x88);
    t[12 + c] = _mm512_shuffle_i32x4(second, fourth, 0xDD);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kZoSamples; ++i) v[i] = t[i];
}

/* [steps, kZoSamples, 4] of one block of samples, without a sign; the last sample stands in for
 * missing ones. */
static void load_block(const zo_dense* d, int32_t first, uint8_t* to) {
  const __m512i flip = _mm512_set1_epi8(INT8_MIN);
  for (int32_t at = 0; at < d->depth; at += kVector) {
    const int32_t left = d->depth - at < kVector ? d->depth - at : kVector;
    const __mmask64 mask = left == kVector ? ~UINT64_C(0) : (UINT64_C(1) << left) - 1u;
    __m512i v[kZoSamples];
#pragma GCC unroll 16
    for (int32_t s = 0; s < kZoSamples; ++s) {
      const int32_t own = first + s < d->samples ? first + s : d->samples - 1;
      const int8_t* from = d->x + (ptrdiff_t)own * d->depth + at;
      v[s] = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, from), flip);
    }
    transpose(v);
    for (int32_t i = 0; i < left / kFour; ++i, to += kVector) _mm512_storeu_si512(to, v[i]);
  }
}

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

/* What the sums of some channels start with. */
static inline __attribute__((always_inline)) void load_starts(const zo_dense* d,
                                                              const int8_t* const* filter,
                                                              int32_t first, const int rows,
                                                              int32_t* start) {
  for (int r = 0; r < rows; ++r) start[r] = d->output->start[first + r];
  if (d->correction == 0) return;
  for (int r = 0; r < rows; r += kFour) {
    const __m128i from = _mm_loadu_si128((const __m128i*)(const void*)(start + r));
    const __m128i more =
        _mm_mullo_epi32(filter_sums(filter + r, d->depth), _mm_set1_epi32(d->correction));
    _mm_storeu_si128((__m128i*)(void*)(start + r), _mm_add_epi32(from, more));
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
static inline __m512i four_channels(__m512i a, __m512i b, __m512i c, __m512i d,
                                    zo_avx512_range range) {
  const __m512i order =
      _mm512_broadcast_i32x4(_mm_set_epi8(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0));
  const __m512i y = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
  const __m512i clamped = _mm512_min_epi8(_mm512_max_epi8(y, range.min), range.max);
  return _mm512_shuffle_epi8(clamped, order);
}

/* Outputs where some channel shifts left or not at all. */
static void finish_slowly(const zo_dense* d, int32_t channel, int32_t sample, __m512i lifted) {
  int32_t sums[kZoSamples];
  _mm512_storeu_si512(sums, zo_avx512_lift(lifted));
  for (int32_t s = 0; s < kZoSamples && sample + s < d->samples; ++s) {
    d->y[(ptrdiff_t)(sample + s) * d->channels + channel] =
        zo_output_of(d->output, channel, sums[s]);
  }
}

/* [kZoSamples, rows] bytes of a block of samples, of which so many are valid. */
static inline __attribute__((always_inline)) void store(const zo_dense* d, int32_t channel,
                                                        int32_t sample, const int8_t* from,
                                                        const int rows, int32_t valid) {
  int8_t* to = d->y + (ptrdiff_t)sample * d->channels + channel;
  const int32_t left = d->samples - sample, count = left < kZoSamples ? left : kZoSamples;
  if (valid == rows) {
    for (int32_t s = 0; s < count; ++s, from += rows, to += d->channels) {
      __builtin_memcpy(to, from, (size_t)rows);
    }
    return;
  }
  for (int32_t s = 0; s < count; ++s, from += rows, to += d->channels) {
    for (int32_t r = 0; r < valid; ++r) to[r] = from[r];
  }
}

static inline __attribute__((always_inline)) void finish(const zo_dense* d, int32_t first,
                                                         __m512i sums[kMostRows][kMostBlocks],
                                                         const int rows, const int blocks,
                                                         int32_t valid) {
  if (!d->output->shifts_right) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      if (r >= valid) break;
#pragma GCC unroll 2
      for (int b = 0; b < blocks; ++b) finish_slowly(d, first + r, b * kZoSamples, sums[r][b]);
    }
    return;
  }
  const zo_avx512_range range = zo_avx512_range_of(d->output);
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    const zo_avx512_output o = output_of_channel(d->output, first + r);
#pragma GCC unroll 2
    for (int b = 0; b < blocks; ++b) sums[r][b] = zo_avx512_scaled(sums[r][b], &o);
  }
#pragma GCC unroll 2
  for (int b = 0; b < blocks; ++b) {
    int8_t y[kZoSamples * kMostRows];
    const __m512i low = four_channels(sums[0][b], sums[1][b], sums[2][b], sums[3][b], range);
    if (rows == kFour) {
      _mm512_storeu_si512(y, low);
    } else {
      const __m512i high = four_channels(sums[4][b], sums[5][b], sums[6][b], sums[7][b], range);
      const __m512i begin =
          _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
      const __m512i end = _mm512_add_epi32(begin, _mm512_set1_epi32(8));
      _mm512_storeu_si512(y, _mm512_permutex2var_epi32(low, begin, high));
      _mm512_storeu_si512(y + kVector, _mm512_permutex2var_epi32(low, end, high));
    }
    store(d, first, b * kZoSamples, y, rows, valid);
  }
}

/* Some channels of one or two blocks of samples; the last channel stands in for missing ones. */
static inline __attribute__((always_inline)) void tile(const zo_dense* d, int32_t first,
                                                       const int rows, const int blocks) {
  const int32_t left = d->channels - first, valid = left < rows ? left : rows;
  const int8_t* filter[kMostRows];
  int32_t start[kMostRows];
  __m512i sums[kMostRows][kMostBlocks];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    const int32_t own = first + (r < valid ? r : valid - 1);
    filter[r] = d->filters + (ptrdiff_t)own * d->depth;
  }
  load_starts(d, filter, first, rows, start);
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    sums[r][0] = zo_avx512_lift(_mm512_set1_epi32(start[r]));
    if (blocks == 2) sums[r][1] = sums[r][0];
  }
  const uint8_t* x = d->memory;
  const ptrdiff_t next_block = (ptrdiff_t)kZoSamples * d->depth;
  for (int32_t at = 0; at < d->depth; at += kFour, x += kVector) {
    const __m512i low = _mm512_loadu_si512(x);
    const __m512i high = blocks == 2 ? _mm512_loadu_si512(x + next_block) : low;
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      int32_t four;
      __builtin_memcpy(&four, filter[r] + at, sizeof four);
      const __m512i w = _mm512_set1_epi32(four);
      zo_avx512_add_fours(&sums[r][0], low, w);
      if (blocks == 2) zo_avx512_add_fours(&sums[r][1], high, w);
    }
  }
  finish(d, first, sums, rows, blocks, valid);
}

static void one_block(const zo_dense* d) {
  int32_t c = 0;
  for (; c + kFour < d->channels; c += kMostRows) tile(d, c, kMostRows, 1);
  if (c < d->channels) tile(d, c, kFour, 1);
}

static void two_blocks(const zo_dense* d) {
  int32_t c = 0;
  for (; c + kFour < d->channels; c += kMostRows) tile(d, c, kMostRows, 2);
  if (c < d->channels) tile(d, c, kFour, 2);
}

void zo_avx512_dense(const zo_dense* dense) {
  load_block(dense, 0, dense->memory);
  if (dense->samples <= kZoSamples) {
    one_block(dense);
    return;
  }
  load_block(dense, kZoSamples, dense->memory + (ptrdiff_t)kZoSamples * dense->depth);
  two_blocks(dense);
}
