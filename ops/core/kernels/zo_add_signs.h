/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of Rademacher perturbation: weights move by +delta or -delta, by the bits of the
 * words of a stream, one term of a perturbation or two in one pass. It runs twice per query over
 * all weights, so it exists once per instruction set; every version gives the same bits, and the
 * portable one is the reference.
 *
 *   SSE2      every x86-64 host
 *   MVE       Cortex-M55 and M85: the bits are the predicate of a choice between two vectors
 *   table     little-endian cores of 32 bits: four weights in one word, a table of what 16
 *             combinations of four bits add to them; the addition is UADD8 where there is one
 *             (Cortex-M4, M7, M33)
 *   portable  several weights in one machine word (SIMD within a register), any little-endian
 *             core, no alignment demands; define ZO_PORTABLE to force it
 *   plain     one weight at a time, big-endian cores
 *
 * Each provides zo_signs, what is made of a delta once per block of weights, which may take a
 * table of ZO_SIGNS_WORDS words; zo_signs_of; zo_add_32_signs, which moves 32 weights by a word of
 * one term; and zo_add_32_both, by those of two. Where there is a faster way for two terms that is
 * worth preparing once for a whole tensor, ZO_PAIR_WORDS is defined: zo_pair, zo_pair_of, which may
 * take a table of so many words, and zo_add_32_pair.
 */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_H_

#include <string.h>

#include "ops/core/random/zo_draw.h"
#include "ops/core/zo_types.h"

/* weight + delta modulo 256: what makes perturbation reversible. The conversion to int8_t is
 * implementation-defined in C99 and two's complement on every compiler TFLite supports. */
static inline int8_t zo_add_modulo(int8_t weight, int32_t delta) {
  return (int8_t)(uint8_t)((uint32_t)(uint8_t)weight + (uint32_t)delta);
}

/* Any number of weights up to 32, one at a time. */
static inline void zo_add_signs(int8_t* weights, uint32_t count, uint32_t word, int32_t delta) {
  for (uint32_t j = 0; j < count; ++j) {
    weights[j] = zo_add_modulo(weights[j], delta * zo_draw_rademacher(word, j));
  }
}

#if defined(__BYTE_ORDER__) && (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
#define ZO_LITTLE_ENDIAN 1
#else
#define ZO_LITTLE_ENDIAN 0
#endif

/* Whether eight weights are loaded and stored by one instruction each, which the compiler does not
 * find by itself. */
#if defined(__thumb2__) && defined(__GNUC__) && !defined(ZO_PORTABLE)
#define ZO_PAIRS_OF_WORDS 1
#else
#define ZO_PAIRS_OF_WORDS 0
#endif

/* Whether a core reads words, or pairs of them, from aligned addresses alone. */
#if defined(__ARM_ARCH) && (!defined(__ARM_FEATURE_UNALIGNED) || ZO_PAIRS_OF_WORDS)
#define ZO_ALIGNED_ONLY 1
#else
#define ZO_ALIGNED_ONLY 0
#endif

/* Whether zo_add_32_signs takes weights at this address. */
static inline int zo_signs_fit(const int8_t* weights) {
  return !ZO_ALIGNED_ONLY || (uintptr_t)weights % 4u == 0u;
}

/* Cortex-M0+ has too few registers for two terms at a time. */
#if defined(__thumb__) && !defined(__thumb2__)
#define ZO_TERMS_AT_ONCE 1
#else
#define ZO_TERMS_AT_ONCE 2
#endif

#if defined(__SSE2__) && !defined(ZO_PORTABLE)

#include <emmintrin.h>

typedef struct zo_signs {
  __m128i delta;
} zo_signs;

static inline zo_signs zo_signs_of(int32_t delta, uint32_t* table) {
  (void)table;
  zo_signs signs;
  signs.delta = _mm_set1_epi8((char)delta);
  return signs;
}

/* -1 (all bits) in each byte whose bit is set, for 16 weights: `bytes` holds the byte of the word
 * that a weight's bit is in. */
static inline __m128i zo_bits_to_mask(__m128i bytes) {
  const __m128i own = _mm_set1_epi64x((long long)0x8040201008040201LL);
  return _mm_cmpeq_epi8(_mm_and_si128(bytes, own), own);
}

static inline __m128i zo_signed_delta(__m128i bytes, __m128i delta) {
  const __m128i mask = zo_bits_to_mask(bytes);
  return _mm_sub_epi8(_mm_xor_si128(delta, mask), mask);
}

static inline void zo_add_32_signs(int8_t* weights, uint32_t word, zo_signs signs) {
  __m128i bytes = _mm_cvtsi32_si128((int)word);
  bytes = _mm_unpacklo_epi8(bytes, bytes);
  bytes = _mm_unpacklo_epi16(bytes, bytes); /* four copies of each byte */
  __m128i* at = (__m128i*)(void*)weights;
  const __m128i low =
      zo_signed_delta(_mm_shuffle_epi32(bytes, _MM_SHUFFLE(1, 1, 0, 0)), signs.delta);
  const __m128i high =
      zo_signed_delta(_mm_shuffle_epi32(bytes, _MM_SHUFFLE(3, 3, 2, 2)), signs.delta);
  _mm_storeu_si128(at, _mm_add_epi8(_mm_loadu_si128(at), low));
  _mm_storeu_si128(at + 1, _mm_add_epi8(_mm_loadu_si128(at + 1), high));
}

static inline void zo_add_32_both(int8_t* weights, uint32_t word, zo_signs signs, uint32_t word_2,
                                  zo_signs signs_2) {
  zo_add_32_signs(weights, word, signs);
  zo_add_32_signs(weights, word_2, signs_2);
}

#elif defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1) && ZO_LITTLE_ENDIAN && \
    !defined(ZO_PORTABLE)

#include <arm_mve.h>

typedef struct zo_signs {
  int8x16_t plus;
  int8x16_t minus;
} zo_signs;

static inline zo_signs zo_signs_of(int32_t delta, uint32_t* table) {
  (void)table;
  zo_signs signs;
  signs.plus = vdupq_n_s8((int8_t)(uint8_t)delta);
  signs.minus = vdupq_n_s8((int8_t)(uint8_t)(0u - (uint32_t)delta));
  return signs;
}

typedef struct zo_pair {
  zo_signs signs;
  zo_signs signs_2;
} zo_pair;

/* 16 weights by the low half of a word. */
static inline int8x16_t zo_add_16_signs(int8x16_t packed, uint32_t word, zo_signs signs) {
  return vaddq_s8(packed, vpselq_s8(signs.minus, signs.plus, (mve_pred16_t)word));
}

static inline void zo_add_32_signs(int8_t* weights, uint32_t word, zo_signs signs) {
  vstrbq_s8(weights, zo_add_16_signs(vldrbq_s8(weights), word, signs));
  vstrbq_s8(weights + 16, zo_add_16_signs(vldrbq_s8(weights + 16), word >> 16, signs));
}

static inline void zo_add_32_both(int8_t* weights, uint32_t word, zo_signs signs, uint32_t word_2,
                                  zo_signs signs_2) {
  int8x16_t packed = zo_add_16_signs(vldrbq_s8(weights), word, signs);
  vstrbq_s8(weights, zo_add_16_signs(packed, word_2, signs_2));
  packed = zo_add_16_signs(vldrbq_s8(weights + 16), word >> 16, signs);
  vstrbq_s8(weights + 16, zo_add_16_signs(packed, word_2 >> 16, signs_2));
}

#define ZO_PAIR_WORDS 1

static inline zo_pair zo_pair_of(zo_signs signs, zo_signs signs_2, uint32_t* table) {
  const zo_pair pair = {signs, signs_2};
  (void)table;
  return pair;
}

static inline void zo_add_32_pair(int8_t* weights, uint32_t word, uint32_t word_2, zo_pair pair) {
  zo_add_32_both(weights, word, pair.signs, word_2, pair.signs_2);
}

#elif ZO_LITTLE_ENDIAN && UINTPTR_MAX == UINT32_MAX && !defined(ZO_PORTABLE)

#if defined(__ARM_FEATURE_SIMD32) && __ARM_FEATURE_SIMD32
#include <arm_acle.h>
#endif

#define ZO_SIGNS_WORDS 16

/* What each combination of four bits adds to four weights. */
typedef struct zo_signs {
  const uint32_t* added; /* [16] */
} zo_signs;

/* Bytewise a + b modulo 256. */
static inline uint32_t zo_add_bytes(uint32_t a, uint32_t b) {
#if defined(__ARM_FEATURE_SIMD32) && __ARM_FEATURE_SIMD32
  return __uadd8(a, b);
#else
  uint32_t low = UINT32_C(0x7F7F7F7F);
#if ZO_TERMS_AT_ONCE == 1 && defined(__GNUC__)
  __asm__("" : "+r"(low)); /* one constant, not two: registers are few */
#endif
  return ((a & low) + (b & low)) ^ ((a ^ b) & ~low);
#endif
}

static inline zo_signs zo_signs_of(int32_t delta, uint32_t* table) {
  zo_signs signs;
  const uint32_t plus = ((uint32_t)delta & 0xFFu) * UINT32_C(0x01010101);
  for (uint32_t bits = 0; bits < 16u; ++bits) {
    /* -delta is ~delta + 1 in each byte; delta is not 0 modulo 256, so nothing carries over. */
    const uint32_t ones = (bits * UINT32_C(0x00204081)) & UINT32_C(0x01010101);
    table[bits] = (plus ^ (ones * 0xFFu)) + ones;
  }
  signs.added = table;
  return signs;
}

/* Four weights in one access; where ZO_ALIGNED_ONLY, zo_signs_fit has seen to it. */
static inline uint32_t zo_load_4(const int8_t* weights) {
  uint32_t packed;
#if ZO_ALIGNED_ONLY
  memcpy(&packed, __builtin_assume_aligned(weights, 4), sizeof packed);
#else
  memcpy(&packed, weights, sizeof packed);
#endif
  return packed;
}

static inline void zo_store_4(int8_t* weights, uint32_t packed) {
#if ZO_ALIGNED_ONLY
  memcpy(__builtin_assume_aligned(weights, 4), &packed, sizeof packed);
#else
  memcpy(weights, &packed, sizeof packed);
#endif
}

static inline uint32_t zo_add_4_signs(uint32_t packed, uint32_t word, zo_signs signs) {
  return zo_add_bytes(packed, signs.added[word & 15u]);
}

#if ZO_PAIRS_OF_WORDS

typedef struct zo_eight {
  int8_t of[8];
} zo_eight;

/* Eight weights at weights + j, j a constant, aligned to a word. */
#define ZO_LOAD_8(weights, j, first, second) \
  __asm__("ldrd %0, %1, [%2, %3]"            \
          : "=&r"(first), "=&r"(second)      \
          : "r"(weights), "i"(j), "m"(*((const zo_eight*)(const void*)((weights) + (j)))))
#define ZO_STORE_8(weights, j, first, second)            \
  __asm__("strd %1, %2, [%3, %4]"                        \
          : "=m"(*((zo_eight*)(void*)((weights) + (j)))) \
          : "r"(first), "r"(second), "r"(weights), "i"(j))

#endif

/* Unrolled by hand: the place of four bits in a word is then a constant, which costs nothing. */
static inline void zo_add_32_signs(int8_t* weights, uint32_t word, zo_signs signs) {
#if ZO_PAIRS_OF_WORDS
#define ZO_ADD_8(j)                                           \
  do {                                                        \
    uint32_t first, second;                                   \
    ZO_LOAD_8(weights, j, first, second);                     \
    first = zo_add_4_signs(first, word >> (j), signs);        \
    second = zo_add_4_signs(second, word >> (j) >> 4, signs); \
    ZO_STORE_8(weights, j, first, second);                    \
  } while (0)
  ZO_ADD_8(0);
  ZO_ADD_8(8);
  ZO_ADD_8(16);
  ZO_ADD_8(24);
#undef ZO_ADD_8
#else
#define ZO_ADD_4(j) \
  zo_store_4(weights + (j), zo_add_4_signs(zo_load_4(weights + (j)), word >> (j), signs))
  ZO_ADD_4(0), ZO_ADD_4(4), ZO_ADD_4(8), ZO_ADD_4(12);
  ZO_ADD_4(16), ZO_ADD_4(20), ZO_ADD_4(24), ZO_ADD_4(28);
#undef ZO_ADD_4
#endif
}

static inline void zo_add_32_both(int8_t* weights, uint32_t word, zo_signs signs, uint32_t word_2,
                                  zo_signs signs_2) {
#define ZO_ADD_4(j)                                                                       \
  zo_store_4(weights + (j),                                                               \
             zo_add_4_signs(zo_add_4_signs(zo_load_4(weights + (j)), word >> (j), signs), \
                            word_2 >> (j), signs_2))
  ZO_ADD_4(0), ZO_ADD_4(4), ZO_ADD_4(8), ZO_ADD_4(12);
  ZO_ADD_4(16), ZO_ADD_4(20), ZO_ADD_4(24), ZO_ADD_4(28);
#undef ZO_ADD_4
}

#define ZO_PAIR_WORDS 256

/* What each combination of four bits of either word adds to four weights. */
typedef struct zo_pair {
  const uint32_t* added; /* [256], the second word's bits above */
} zo_pair;

static inline zo_pair zo_pair_of(zo_signs signs, zo_signs signs_2, uint32_t* table) {
  zo_pair pair;
  for (uint32_t bits = 0; bits < ZO_PAIR_WORDS; ++bits) {
    table[bits] = zo_add_bytes(signs.added[bits & 15u], signs_2.added[bits >> 4]);
  }
  pair.added = table;
  return pair;
}

#if ZO_PAIRS_OF_WORDS

static inline void zo_add_32_pair(int8_t* weights, uint32_t word, uint32_t word_2, zo_pair pair) {
  const uint32_t low = UINT32_C(0x0F0F0F0F);
  const uint32_t firsts = (word & low) | (word_2 & low) << 4;
  const uint32_t seconds = (word >> 4 & low) | (word_2 & ~low);
#define ZO_ADD_8(j)                                                       \
  do {                                                                    \
    uint32_t first, second;                                               \
    ZO_LOAD_8(weights, j, first, second);                                 \
    first = zo_add_bytes(first, pair.added[(uint8_t)(firsts >> (j))]);    \
    second = zo_add_bytes(second, pair.added[(uint8_t)(seconds >> (j))]); \
    ZO_STORE_8(weights, j, first, second);                                \
  } while (0)
  ZO_ADD_8(0);
  ZO_ADD_8(8);
  ZO_ADD_8(16);
  ZO_ADD_8(24);
#undef ZO_ADD_8
}

#else

/* Cortex-M0+ keeps what this needs in registers only if there is nothing else. */
#if ZO_TERMS_AT_ONCE == 1 && defined(__GNUC__)
#define ZO_ALONE static __attribute__((noinline, unused))
#else
#define ZO_ALONE static inline
#endif

/* Four weights of every eight, by one byte of `bytes` each. */
ZO_ALONE void zo_add_4_of_8(int8_t* weights, uint32_t bytes, zo_pair pair) {
#define ZO_ADD_4(j, k)      \
  zo_store_4(weights + (j), \
             zo_add_bytes(zo_load_4(weights + (j)), pair.added[(uint8_t)(bytes >> (k))]))
  ZO_ADD_4(0, 0), ZO_ADD_4(8, 8), ZO_ADD_4(16, 16), ZO_ADD_4(24, 24);
#undef ZO_ADD_4
}

static inline void zo_add_32_pair(int8_t* weights, uint32_t word, uint32_t word_2, zo_pair pair) {
  const uint32_t low = UINT32_C(0x0F0F0F0F);
  zo_add_4_of_8(weights, (word & low) | (word_2 & low) << 4, pair);
  zo_add_4_of_8(weights + 4, (word >> 4 & low) | (word_2 & ~low), pair);
}

#endif

#elif ZO_LITTLE_ENDIAN

/* Eight weights where registers have 64 bits, four elsewhere. */
#if UINTPTR_MAX > UINT32_MAX
typedef uint64_t zo_lanes;
#else
typedef uint32_t zo_lanes;
#endif

/* 0x01 in every byte. */
#define ZO_ONES ((zo_lanes) ~(zo_lanes)0 / 0xFFu)

/* Bytewise a + b modulo 256. */
static inline zo_lanes zo_add_lanes(zo_lanes a, zo_lanes b) {
  const zo_lanes low = ZO_ONES * 0x7Fu;
  return ((a & low) + (b & low)) ^ ((a ^ b) & ~low);
}

/* Spreads the lowest bits to bit 0 of one byte each. */
static inline zo_lanes zo_spread_bits(uint32_t bits) {
#if UINTPTR_MAX > UINT32_MAX
  /* A copy of the bits in each byte, of which the byte keeps its own; adding 0x7F carries any bit
   * into bit 7, and no byte overflows. */
  const zo_lanes own = (ZO_ONES * (bits & 0xFFu)) & UINT64_C(0x8040201008040201);
  return ((own + ZO_ONES * 0x7Fu) >> 7) & ZO_ONES;
#else
  return ((bits & 0xFu) * UINT32_C(0x00204081)) & ZO_ONES;
#endif
}

typedef struct zo_signs {
  zo_lanes deltas;
} zo_signs;

static inline zo_signs zo_signs_of(int32_t delta, uint32_t* table) {
  (void)table;
  zo_signs signs;
  signs.deltas = ((zo_lanes)(uint32_t)delta & 0xFFu) * ZO_ONES;
  return signs;
}

static inline void zo_add_32_signs(int8_t* weights, uint32_t word, zo_signs signs) {
  for (uint32_t j = 0; j < 32u; j += (uint32_t)sizeof(zo_lanes)) {
    zo_lanes packed;
    memcpy(&packed, weights + j, sizeof packed);
    /* -delta is ~delta + 1 in each byte; delta is not 0 modulo 256, so nothing carries over. */
    const zo_lanes ones = zo_spread_bits(word >> j);
    packed = zo_add_lanes(packed, (signs.deltas ^ (ones * 0xFFu)) + ones);
    memcpy(weights + j, &packed, sizeof packed);
  }
}

static inline void zo_add_32_both(int8_t* weights, uint32_t word, zo_signs signs, uint32_t word_2,
                                  zo_signs signs_2) {
  zo_add_32_signs(weights, word, signs);
  zo_add_32_signs(weights, word_2, signs_2);
}

#else

typedef struct zo_signs {
  int32_t delta;
} zo_signs;

static inline zo_signs zo_signs_of(int32_t delta, uint32_t* table) {
  (void)table;
  zo_signs signs;
  signs.delta = delta;
  return signs;
}

static inline void zo_add_32_signs(int8_t* weights, uint32_t word, zo_signs signs) {
  zo_add_signs(weights, 32u, word, signs.delta);
}

static inline void zo_add_32_both(int8_t* weights, uint32_t word, zo_signs signs, uint32_t word_2,
                                  zo_signs signs_2) {
  zo_add_32_signs(weights, word, signs);
  zo_add_32_signs(weights, word_2, signs_2);
}

#endif

#ifndef ZO_SIGNS_WORDS
#define ZO_SIGNS_WORDS 1
#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_H_ */
