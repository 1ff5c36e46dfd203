/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx2.h"
#include "ops/kernels/zo_weights.h"
#include "ops/kernels/zo_x86.h"

static inline __m256i next(__m256i state) {
  state = _mm256_xor_si256(state, _mm256_slli_epi32(state, 13));
  state = _mm256_xor_si256(state, _mm256_srli_epi32(state, 17));
  return _mm256_xor_si256(state, _mm256_slli_epi32(state, 5));
}

/* Four words of two of the places, which are 16 words apart: the first one and the fourth behind
 * it. */
static inline void store_fours(uint32_t* words, __m256i fours) {
  _mm_storeu_si128((__m128i*)(void*)words, _mm256_castsi256_si128(fours));
  _mm_storeu_si128((__m128i*)(void*)(words + 64), _mm256_extracti128_si256(fours, 1));
}

/* The words of eight of the places. */
static inline void draw_half(uint32_t* words, uint32_t state, int first) {
  __m256i a = _mm256_setzero_si256();
  for (int j = 0; j < 32; ++j) {
    const __m256i has = _mm256_set1_epi32(-(int32_t)(state >> j & 1u));
    a = _mm256_xor_si256(a, _mm256_and_si256(has, zo_avx2_load(zo_stream_jumps[j] + first)));
  }
  for (uint32_t* to = words + 16 * first; to != words + 16 * first + 16; to += 4) {
    a = next(a);
    const __m256i b = next(a), c = next(b), d = next(c);
    const __m256i ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d);
    const __m256i high_ab = _mm256_unpackhi_epi32(a, b), high_cd = _mm256_unpackhi_epi32(c, d);
    store_fours(to, _mm256_unpacklo_epi64(ab, cd));
    store_fours(to + 16, _mm256_unpackhi_epi64(ab, cd));
    store_fours(to + 32, _mm256_unpacklo_epi64(high_ab, high_cd));
    store_fours(to + 48, _mm256_unpackhi_epi64(high_ab, high_cd));
    a = d;
  }
}

static void draw(uint32_t* words, uint32_t state) {
  for (int first = 0; first < 16; first += 8) draw_half(words, state, first);
}

static void draw_signs(uint32_t* signs, uint32_t count, const uint32_t* states) {
  __m256i low = zo_avx2_load(states), high = zo_avx2_load(states + 8);
  for (uint32_t w = 0; w < count; ++w) {
    zo_avx2_store(signs + kZoSigns * w, low = next(low));
    zo_avx2_store(signs + kZoSigns * w + 8, high = next(high));
  }
}

/* All bits of each byte whose bit of the word is set. */
static inline __m256i bytes_of_bits(uint32_t word) {
  const __m256i copies =
      _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0x0000000000000000);
  const __m256i own = _mm256_set1_epi64x((long long)0x8040201008040201LL);
  const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int)word), copies);
  return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, own), own);
}

static void add_signs(int8_t* weights, uint32_t count, const uint32_t* signs, int32_t delta) {
  const __m256i plus = _mm256_set1_epi8((char)delta);
  for (uint32_t i = 0; i < count; i += 32, signs += kZoSigns) {
    const __m256i minus = bytes_of_bits(signs[0]);
    const __m256i added = _mm256_sub_epi8(_mm256_xor_si256(plus, minus), minus);
    zo_avx2_store(weights + i, _mm256_add_epi8(zo_avx2_load(weights + i), added));
  }
}

static void add_bytes(int8_t* weights, uint32_t count, const uint32_t* words, const uint8_t* table) {
  __m256i part[8];
#pragma GCC unroll 8
  for (int p = 0; p < 8; ++p) {
    part[p] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)(const void*)(table + 16 * p)));
  }
  for (uint32_t i = 0; i < count; i += 32) {
    const __m256i bytes = zo_avx2_load((const uint8_t*)words + i);
    const __m256i index = _mm256_and_si256(bytes, _mm256_set1_epi8(0x7F));
    __m256i found = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int p = 0; p < 8; ++p) { /* of another part, bit 7 is set, and nothing is found */
      const __m256i own =
          _mm256_adds_epu8(_mm256_xor_si256(index, _mm256_set1_epi8((char)(16 * p))), _mm256_set1_epi8(0x70));
      found = _mm256_or_si256(found, _mm256_shuffle_epi8(part[p], own));
    }
    const __m256i minus = _mm256_cmpgt_epi8(_mm256_setzero_si256(), bytes);
    found = _mm256_sub_epi8(_mm256_xor_si256(found, minus), minus);
    zo_avx2_store(weights + i, _mm256_add_epi8(zo_avx2_load(weights + i), found));
  }
}

/* k z of 16 weights. */
static inline __m256i of_halves(__m256i halves, zo_distribution distribution, int32_t k) {
  const __m256i byte = _mm256_srai_epi16(halves, 8);
  const __m256i low = _mm256_and_si256(halves, _mm256_set1_epi16(0xFF));
  const __m256i none = _mm256_or_si256(_mm256_cmpgt_epi16(_mm256_set1_epi16(distribution.p_zero), low),
                                       _mm256_cmpeq_epi16(byte, _mm256_set1_epi16(-128)));
  const __m256i scaled = _mm256_mullo_epi16(byte, _mm256_set1_epi16((short)(2 * distribution.mu + 1)));
  const __m256i z = _mm256_srai_epi16(_mm256_add_epi16(scaled, _mm256_set1_epi16(128)), 8);
  return _mm256_mullo_epi16(_mm256_andnot_si256(none, z), _mm256_set1_epi16((short)k));
}

static void add_halves(int8_t* weights, uint32_t count, const uint32_t* words, zo_distribution distribution,
                       int32_t k) {
  const __m256i lowest = _mm256_set1_epi16(0xFF);
  for (uint32_t i = 0; i < count; i += 32, words += 16) {
    const __m256i a = of_halves(zo_avx2_load(words), distribution, k);
    const __m256i b = of_halves(zo_avx2_load(words + 8), distribution, k);
    const __m256i packed = _mm256_packus_epi16(_mm256_and_si256(a, lowest), _mm256_and_si256(b, lowest));
    const __m256i added = _mm256_permute4x64_epi64(packed, 0xD8);
    zo_avx2_store(weights + i, _mm256_add_epi8(zo_avx2_load(weights + i), added));
  }
}

static void sum_signs(int32_t* steps, uint32_t count, const uint32_t* signs, const int32_t* coefficients,
                      uint32_t streams) {
  const __m256i places = _mm256_set_epi32(24, 25, 26, 27, 28, 29, 30, 31);
  for (uint32_t i = 0; i < count; i += 32, signs += kZoSigns) {
    __m256i sums[4];
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) sums[p] = _mm256_setzero_si256();
    for (uint32_t s = 0; s < streams; ++s) {
      const __m256i plus = _mm256_set1_epi32(coefficients[s]);
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) { /* a weight's bit becomes the sign of its lane */
        const __m256i lanes = _mm256_sllv_epi32(_mm256_set1_epi32((int)(signs[s] >> (8 * p))), places);
        const __m256i minus = _mm256_srai_epi32(lanes, 31);
        sums[p] = _mm256_add_epi32(sums[p], _mm256_sub_epi32(_mm256_xor_si256(plus, minus), minus));
      }
    }
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) zo_avx2_store(steps + i + 8 * p, sums[p]);
  }
}

static inline __m256i widened(const int8_t* values) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)(const void*)values));
}

static void add_values(int32_t* steps, uint32_t count, const int8_t* values, int32_t coefficient) {
  const __m256i factor = _mm256_set1_epi32(coefficient);
  for (uint32_t i = 0; i < count; i += 8) {
    const __m256i product = _mm256_mullo_epi32(widened(values + i), factor);
    zo_avx2_store(steps + i, _mm256_add_epi32(zo_avx2_load(steps + i), product));
  }
}

/* Stores 32 values of int8, in four vectors. */
static inline void narrow(int8_t* to, const __m256i* v) {
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
  zo_avx2_store(to, _mm256_permutevar8x32_epi32(bytes, _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0)));
}

/* The sum of the lanes' downward counts from 0. */
static inline uint32_t counted(__m256i lanes) {
  int32_t each[8], sum = 0;
  zo_avx2_store(each, lanes);
  for (int i = 0; i < 8; ++i) sum -= each[i];
  return (uint32_t)sum;
}

/* Values within +-limit; counts down the unchanged ones. */
static inline __m256i clip(__m256i values, __m256i low, __m256i high, __m256i* kept) {
  const __m256i inside = _mm256_min_epi32(_mm256_max_epi32(values, low), high);
  *kept = _mm256_add_epi32(*kept, _mm256_cmpeq_epi32(inside, values));
  return inside;
}

static uint32_t round_8(int8_t* weights, uint32_t count, const int32_t* steps, int32_t limit, const uint32_t* words) {
  const __m256i low = _mm256_set1_epi32(-limit), high = _mm256_set1_epi32(limit);
  /* Of each word its two lowest bytes, the two in the middle, the two highest, the two outermost.
   */
  const __m256i halves = _mm256_set_epi32((int)0x80800407u, (int)0x80800706u, (int)0x80800605u, (int)0x80800504u,
                                          (int)0x80800003u, (int)0x80800302u, (int)0x80800201u, (int)0x80800100u);
  __m256i kept = _mm256_setzero_si256();
  for (uint32_t i = 0; i < count; i += 32) {
    __m256i inside[4];
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p, words += 2) {
      long long two;
      __builtin_memcpy(&two, words, sizeof two);
      const __m256i random = _mm256_shuffle_epi8(_mm256_set1_epi64x(two), halves);
      const __m256i step = _mm256_add_epi32(zo_avx2_load(steps + i + 8 * p), random);
      const __m256i moved =
          _mm256_add_epi32(widened(weights + i + 8 * p), _mm256_srai_epi32(step, ZO_COEFFICIENT_BITS));
      inside[p] = clip(moved, low, high, &kept);
    }
    narrow(weights + i, inside);
  }
  return count - counted(kept);
}

static uint32_t round_16(int8_t* weights, int8_t* fraction, uint32_t count, const int32_t* steps, int32_t limit) {
  const __m256i low = _mm256_set1_epi32(-256 * limit), high = _mm256_set1_epi32(256 * limit);
  const __m256i half = _mm256_set1_epi32(128);
  __m256i kept = _mm256_setzero_si256();
  for (uint32_t i = 0; i < count; i += 32) {
    __m256i whole[4], fine[4];
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) {
      const uint32_t at = i + 8u * (uint32_t)p;
      const __m256i step = _mm256_add_epi32(zo_avx2_load(steps + at), half);
      const __m256i from = _mm256_add_epi32(_mm256_slli_epi32(widened(weights + at), 8), widened(fraction + at));
      const __m256i inside =
          clip(_mm256_add_epi32(from, _mm256_srai_epi32(step, ZO_COEFFICIENT_BITS - 8)), low, high, &kept);
      whole[p] = _mm256_srai_epi32(_mm256_add_epi32(inside, half), 8);
      fine[p] = _mm256_srai_epi32(_mm256_slli_epi32(inside, 24), 24);
    }
    narrow(weights + i, whole);
    narrow(fraction + i, fine);
  }
  return count - counted(kept);
}

static uint32_t move(int16_t* values, uint32_t count, const uint32_t* signs, const int16_t* moves, int32_t limit) {
  const __m256i plus = _mm256_set1_epi16(moves[0]), minus = _mm256_set1_epi16(moves[1]);
  const __m256i low = _mm256_set1_epi16((short)-limit), high = _mm256_set1_epi16((short)limit);
  const __m256i own = _mm256_set_epi16((short)0x8000, 0x4000, 0x2000, 0x1000, 0x0800, 0x0400, 0x0200, 0x0100, 0x0080,
                                       0x0040, 0x0020, 0x0010, 0x0008, 0x0004, 0x0002, 0x0001);
  __m256i kept = _mm256_setzero_si256(); /* in 16 bits: count is a tile's at most */
  for (uint32_t i = 0; i < count; i += 32, signs += kZoSigns) {
#pragma GCC unroll 2
    for (uint32_t p = 0; p < 2; ++p) {
      const __m256i bits = _mm256_and_si256(_mm256_set1_epi16((short)(signs[0] >> (16 * p))), own);
      const __m256i by = _mm256_blendv_epi8(plus, minus, _mm256_cmpeq_epi16(bits, own));
      const __m256i moved = _mm256_adds_epi16(zo_avx2_load(values + i + 16 * p), by);
      const __m256i inside = _mm256_min_epi16(_mm256_max_epi16(moved, low), high);
      kept = _mm256_add_epi16(kept, _mm256_cmpeq_epi16(inside, moved));
      zo_avx2_store(values + i + 16 * p, inside);
    }
  }
  return count - counted(_mm256_madd_epi16(kept, _mm256_set1_epi16(1)));
}

/* 16 values of a row, less the zero point. */
static inline __m256i row_of(const int8_t* row, __m256i zero_point) {
  const __m128i values = _mm_loadu_si128((const __m128i*)(const void*)row);
  return _mm256_sub_epi16(_mm256_cvtepi8_epi16(values), zero_point);
}

static inline void add_to(int32_t* sums, __m256i added) {
  zo_avx2_store(sums, _mm256_add_epi32(zo_avx2_load(sums), added));
}

static uint32_t add_products(int32_t* sums, uint32_t count, const zo_product* products, uint32_t number, size_t offset,
                             int32_t zero_point) {
  const __m256i zero = _mm256_set1_epi16((short)zero_point);
  const uint32_t whole = count / 16u * 16u;
  for (uint32_t i = 0; i < whole; i += 16) {
    __m256i low = _mm256_setzero_si256(), high = low;
    for (uint32_t k = 0; k < number; k += 2) { /* of an odd number, the last one with 0, too */
      const zo_product *one = products + k, *other = k + 1u < number ? one + 1 : one;
      const uint32_t of_other = k + 1u < number ? (uint32_t)other->factor << 16 : 0u;
      const __m256i factors = _mm256_set1_epi32((int)(of_other | ((uint32_t)one->factor & 0xFFFFu)));
      const __m256i a = row_of(one->row + offset + i, zero);
      const __m256i b = row_of(other->row + offset + i, zero);
      low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), factors));
      high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), factors));
    }
    add_to(sums + i, _mm256_permute2x128_si256(low, high, 0x20));
    add_to(sums + i + 8, _mm256_permute2x128_si256(low, high, 0x31));
  }
  return whole;
}

const zo_weight_loops zo_avx2_weights = {draw,       draw_signs, add_signs, add_bytes, add_halves,   sum_signs,
                                         add_values, round_8,    round_16,  move,      add_products, zo_move_nodes};
