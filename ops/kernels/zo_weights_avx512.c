/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx512.h"
#include "ops/kernels/zo_move_nodes.h"
#include "ops/kernels/zo_weights.h"
#include "ops/kernels/zo_x86.h"

static inline __m512i next(__m512i state) {
  state = _mm512_xor_si512(state, _mm512_slli_epi32(state, 13));
  state = _mm512_xor_si512(state, _mm512_srli_epi32(state, 17));
  return _mm512_xor_si512(state, _mm512_slli_epi32(state, 5));
}

/* Four words of four of the places, which are kPlace words apart. */
static inline void store_fours(uint32_t* words, __m512i fours) {
  enum { kPlace = 16 };
  _mm_storeu_si128((__m128i*)(void*)words, _mm512_castsi512_si128(fours));
  _mm_storeu_si128((__m128i*)(void*)(words + 4 * kPlace), _mm512_extracti32x4_epi32(fours, 1));
  _mm_storeu_si128((__m128i*)(void*)(words + 8 * kPlace), _mm512_extracti32x4_epi32(fours, 2));
  _mm_storeu_si128((__m128i*)(void*)(words + 12 * kPlace), _mm512_extracti32x4_epi32(fours, 3));
}

static void draw(uint32_t* words, uint32_t state) {
  __m512i a = _mm512_setzero_si512();
  for (int j = 0; j < 32; ++j) {
    const __m512i has = _mm512_set1_epi32(-(int32_t)(state >> j & 1u));
    a = _mm512_xor_si512(a, _mm512_and_si512(has, _mm512_loadu_si512(zo_stream_jumps[j])));
  }
  for (int i = 0; i < 16; i += 4) {
    a = next(a);
    const __m512i b = next(a), c = next(b), d = next(c);
    const __m512i ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
    const __m512i high_ab = _mm512_unpackhi_epi32(a, b), high_cd = _mm512_unpackhi_epi32(c, d);
    store_fours(words + i, _mm512_unpacklo_epi64(ab, cd));
    store_fours(words + i + 16, _mm512_unpackhi_epi64(ab, cd));
    store_fours(words + i + 32, _mm512_unpacklo_epi64(high_ab, high_cd));
    store_fours(words + i + 48, _mm512_unpackhi_epi64(high_ab, high_cd));
    a = d;
  }
}

static void draw_signs(uint32_t* signs, uint32_t count, const uint32_t* states) {
  __m512i state = _mm512_loadu_si512(states);
  for (uint32_t w = 0; w < count; ++w) {
    _mm512_storeu_si512(signs + kZoSigns * w, state = next(state));
  }
}

static void add_signs(int8_t* weights, uint32_t count, const uint32_t* signs, int32_t delta) {
  const __m512i plus = _mm512_set1_epi8((char)delta), minus = _mm512_set1_epi8((char)-delta);
  for (uint32_t i = 0; i < count; i += 64, signs += 2 * kZoSigns) {
    const __mmask64 mask = (uint64_t)signs[kZoSigns] << 32 | signs[0];
    const __m512i w = _mm512_loadu_si512(weights + i);
    _mm512_storeu_si512(weights + i, _mm512_add_epi8(w, _mm512_mask_mov_epi8(plus, mask, minus)));
  }
}

static void add_bytes(int8_t* weights, uint32_t count, const uint32_t* words, const uint8_t* table) {
  __m512i part[8];
#pragma GCC unroll 8
  for (int p = 0; p < 8; ++p) {
    part[p] = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)(const void*)(table + 16 * p)));
  }
  for (uint32_t i = 0; i < count; i += 64) {
    const __m512i bytes = _mm512_loadu_si512((const uint8_t*)words + i);
    const __m512i high = _mm512_and_si512(bytes, _mm512_set1_epi8(0x70));
    const __m512i low = _mm512_and_si512(bytes, _mm512_set1_epi8(0x0F));
    __m512i found = _mm512_shuffle_epi8(part[0], low);
#pragma GCC unroll 8
    for (int p = 1; p < 8; ++p) {
      const __mmask64 own = _mm512_cmpeq_epi8_mask(high, _mm512_set1_epi8((char)(16 * p)));
      found = _mm512_mask_shuffle_epi8(found, own, part[p], low);
    }
    found = _mm512_mask_sub_epi8(found, _mm512_movepi8_mask(bytes), _mm512_setzero_si512(), found);
    const __m512i w = _mm512_loadu_si512(weights + i);
    _mm512_storeu_si512(weights + i, _mm512_add_epi8(w, found));
  }
}

static void add_halves(int8_t* weights, uint32_t count, const uint32_t* words, zo_distribution distribution,
                       int32_t k) {
  const __m512i factor = _mm512_set1_epi16((short)(2 * distribution.mu + 1));
  const __m512i times = _mm512_set1_epi16((short)k), half = _mm512_set1_epi16(128);
  const __m512i zeros = _mm512_set1_epi16(distribution.p_zero);
  for (uint32_t i = 0; i < count; i += 32) {
    const __m512i halves = _mm512_loadu_si512(words + i / 2u);
    const __m512i byte = _mm512_srai_epi16(halves, 8);
    const __m512i low = _mm512_and_si512(halves, _mm512_set1_epi16(0xFF));
    const __mmask32 keep =
        _mm512_cmpge_epi16_mask(low, zeros) & _mm512_cmpneq_epi16_mask(byte, _mm512_set1_epi16(-128));
    const __m512i scaled = _mm512_add_epi16(_mm512_mullo_epi16(byte, factor), half);
    const __m512i z = _mm512_maskz_srai_epi16(keep, scaled, 8);
    const __m256i added = _mm512_cvtepi16_epi8(_mm512_mullo_epi16(z, times));
    const __m256i w = _mm256_loadu_si256((const __m256i*)(const void*)(weights + i));
    _mm256_storeu_si256((__m256i*)(void*)(weights + i), _mm256_add_epi8(w, added));
  }
}

static void sum_signs(int32_t* steps, uint32_t count, const uint32_t* signs, const int32_t* coefficients,
                      uint32_t streams) {
  for (uint32_t i = 0; i < count; i += 32, signs += kZoSigns) {
    __m512i low = _mm512_setzero_si512(), high = low;
    for (uint32_t s = 0; s < streams; ++s) {
      const __m512i plus = _mm512_set1_epi32(coefficients[s]);
      const __m512i minus = _mm512_set1_epi32(-coefficients[s]);
      const uint32_t word = signs[s];
      low = _mm512_add_epi32(low, _mm512_mask_mov_epi32(plus, (__mmask16)word, minus));
      high = _mm512_add_epi32(high, _mm512_mask_mov_epi32(plus, (__mmask16)(word >> 16), minus));
    }
    _mm512_storeu_si512(steps + i, low);
    _mm512_storeu_si512(steps + i + 16, high);
  }
}

static inline __m512i widened(const int8_t* values) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)(const void*)values));
}

static inline void narrow(int8_t* to, __m512i values) {
  _mm_storeu_si128((__m128i*)(void*)to, _mm512_cvtepi32_epi8(values));
}

static void add_values(int32_t* steps, uint32_t count, const int8_t* values, int32_t coefficient) {
  const __m512i factor = _mm512_set1_epi32(coefficient);
  for (uint32_t i = 0; i < count; i += 16) {
    const __m512i product = _mm512_mullo_epi32(widened(values + i), factor);
    _mm512_storeu_si512(steps + i, _mm512_add_epi32(_mm512_loadu_si512(steps + i), product));
  }
}

/* Values within +-limit; adds to `clipped` how many were not. */
static inline __m512i clip(__m512i values, __m512i low, __m512i high, uint32_t* clipped) {
  const __m512i inside = _mm512_min_epi32(_mm512_max_epi32(values, low), high);
  *clipped += (uint32_t)__builtin_popcount(_mm512_cmpneq_epi32_mask(inside, values));
  return inside;
}

/* 16 steps and their rounding terms, whose upper halves are whole LSB. */
static inline __m512i rounded(const int32_t* steps, const uint32_t* words, __m512i halves) {
  const __m512i four = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)(const void*)words));
  return _mm512_add_epi32(_mm512_loadu_si512(steps), _mm512_shuffle_epi8(four, halves));
}

static uint32_t round_8(int8_t* weights, uint32_t count, const int32_t* steps, int32_t limit, const uint32_t* words) {
  const __m512i low = _mm512_set1_epi16((short)-limit), high = _mm512_set1_epi16((short)limit);
  /* Of each word its two lowest bytes, the two in the middle, the two highest, the two outermost.
   */
  const __m512i first = _mm512_set4_epi32((int)0x80800003u, (int)0x80800302u, (int)0x80800201u, (int)0x80800100u);
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i word = _mm512_and_si512(lane, _mm512_set1_epi32(12));
  const __m512i halves = _mm512_add_epi32(first, _mm512_mullo_epi32(word, _mm512_set1_epi32(0x0101)));
  /* 1, 3, …, 63: the upper half of each step of two vectors. */
  const __m512i uppers =
      _mm512_add_epi32(_mm512_mullo_epi32(lane, _mm512_set1_epi32(0x00040004)), _mm512_set1_epi32(0x00030001));
  uint32_t clipped = 0;
  for (uint32_t i = 0; i < count; i += 32, words += 8) {
    const __m512i steps_a = rounded(steps + i, words, halves);
    const __m512i steps_b = rounded(steps + i + 16, words + 4, halves);
    const __m512i step = _mm512_permutex2var_epi16(steps_a, uppers, steps_b);
    const __m256i w = _mm256_loadu_si256((const __m256i*)(const void*)(weights + i));
    const __m512i moved = _mm512_add_epi16(_mm512_cvtepi8_epi16(w), step);
    const __m512i inside = _mm512_min_epi16(_mm512_max_epi16(moved, low), high);
    clipped += (uint32_t)__builtin_popcount(_mm512_cmpneq_epi16_mask(inside, moved));
    _mm256_storeu_si256((__m256i*)(void*)(weights + i), _mm512_cvtepi16_epi8(inside));
  }
  return clipped;
}

static uint32_t round_16(int8_t* weights, int8_t* fraction, uint32_t count, const int32_t* steps, int32_t limit) {
  const __m512i low = _mm512_set1_epi32(-256 * limit), high = _mm512_set1_epi32(256 * limit);
  const __m512i half = _mm512_set1_epi32(128);
  uint32_t clipped = 0;
  for (uint32_t i = 0; i < count; i += 16) {
    const __m512i step = _mm512_add_epi32(_mm512_loadu_si512(steps + i), half);
    const __m512i fine = _mm512_add_epi32(_mm512_slli_epi32(widened(weights + i), 8), widened(fraction + i));
    const __m512i moved = _mm512_add_epi32(fine, _mm512_srai_epi32(step, ZO_COEFFICIENT_BITS - 8));
    const __m512i inside = clip(moved, low, high, &clipped);
    narrow(weights + i, _mm512_srai_epi32(_mm512_add_epi32(inside, half), 8));
    narrow(fraction + i, inside); /* the lowest byte, as int8 */
  }
  return clipped;
}

static uint32_t move(int16_t* values, uint32_t count, const uint32_t* signs, const int16_t* moves, int32_t limit) {
  const __m512i plus = _mm512_set1_epi16(moves[0]), minus = _mm512_set1_epi16(moves[1]);
  const __m512i low = _mm512_set1_epi16((short)-limit), high = _mm512_set1_epi16((short)limit);
  uint32_t clipped = 0;
  for (uint32_t i = 0; i < count; i += 32, signs += kZoSigns) {
    const __m512i by = _mm512_mask_mov_epi16(plus, signs[0], minus);
    const __m512i moved = _mm512_adds_epi16(_mm512_loadu_si512(values + i), by);
    const __m512i inside = _mm512_min_epi16(_mm512_max_epi16(moved, low), high);
    clipped += (uint32_t)__builtin_popcount(_mm512_cmpneq_epi16_mask(inside, moved));
    _mm512_storeu_si512(values + i, inside);
  }
  return clipped;
}

/* 32 values of a row, less the zero point. */
static inline __m512i row_of(const int8_t* row, __mmask32 mask, __m512i zero_point) {
  return _mm512_sub_epi16(_mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(mask, row)), zero_point);
}

static inline void add_to(int32_t* sums, __mmask16 mask, __m512i added) {
  const __m512i own = _mm512_maskz_loadu_epi32(mask, sums);
  _mm512_mask_storeu_epi32(sums, mask, _mm512_add_epi32(own, added));
}

static uint32_t add_products(int32_t* sums, uint32_t count, const zo_product* products, uint32_t number, size_t offset,
                             int32_t zero_point) {
  const __m512i zero = _mm512_set1_epi16((short)zero_point);
  /* Unpacking has left quarters of the first 16 sums, and of the others, in two vectors. */
  const __m512i first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
  const __m512i second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
  for (uint32_t i = 0; i < count; i += 32) {
    const __mmask32 mask = count - i >= 32u ? 0xFFFFFFFFu : (1u << (count - i)) - 1u;
    __m512i low = _mm512_setzero_si512(), high = low;
    for (uint32_t k = 0; k < number; k += 2) { /* of an odd number, the last one with 0, too */
      const zo_product *one = products + k, *other = k + 1u < number ? one + 1 : one;
      const uint32_t of_other = k + 1u < number ? (uint32_t)other->factor << 16 : 0u;
      const __m512i factors = _mm512_set1_epi32((int)(of_other | ((uint32_t)one->factor & 0xFFFFu)));
      const __m512i a = row_of(one->row + offset + i, mask, zero);
      const __m512i b = row_of(other->row + offset + i, mask, zero);
      zo_avx512_add_twos(&low, _mm512_unpacklo_epi16(a, b), factors);
      zo_avx512_add_twos(&high, _mm512_unpackhi_epi16(a, b), factors);
    }
    add_to(sums + i, (__mmask16)mask, _mm512_permutex2var_epi64(low, first, high));
    if (mask >> 16 != 0u) {
      add_to(sums + i + 16, (__mmask16)(mask >> 16), _mm512_permutex2var_epi64(low, second, high));
    }
  }
  return count;
}

static void move_nodes(const zo_node_block* block, uint32_t count, const int8_t* from, const int8_t* moves,
                       int8_t* to) {
  zo_move_nodes(block, count, from, moves, to);
}

const zo_weight_loops zo_avx512_weights = {draw,       draw_signs, add_signs, add_bytes, add_halves,   sum_signs,
                                           add_values, round_8,    round_16,  move,      add_products, move_nodes};
