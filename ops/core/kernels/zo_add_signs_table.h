/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Rademacher signs on little-endian cores of 32 bits: four weights are one word, and a table has
 * the addend for each of 16 combinations of four bits. With the DSP extension (Cortex-M4, M7, M33)
 * the addition is UADD8. Thumb-2 loads and stores eight weights by one instruction each, which
 * compilers do not generate. zo_add_signs.h includes this file and documents its functions. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_TABLE_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_TABLE_H_

#include <string.h>

#include "ops/core/zo_features.h"
#include "ops/core/zo_target.h"
#include "ops/core/zo_types.h"

#if ZO_DSP
#include <arm_acle.h>
#endif

#define ZO_SIGNS_WORDS 16

/* The addend of four weights for each combination of four bits. */
typedef struct zo_signs {
  const uint32_t* added; /* [16] */
} zo_signs;

/* Bytewise a + b modulo 256. */
static inline uint32_t zo_add_bytes(uint32_t a, uint32_t b) {
#if ZO_DSP
  return __uadd8(a, b);
#else
  uint32_t low = UINT32_C(0x7F7F7F7F);
#if ZO_THUMB1
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

/* Four weights in one access; if ZO_ALIGNED_ONLY, zo_signs_fit has seen to it. */
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
#if defined(__OPTIMIZE_SIZE__)
  for (uint32_t j = 0; j < 32u; j += 4u, word >>= 4) {
    zo_store_4(weights + j, zo_add_4_signs(zo_load_4(weights + j), word, signs));
  }
#elif ZO_PAIRS_OF_WORDS
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
#define ZO_ADD_4(j) zo_store_4(weights + (j), zo_add_4_signs(zo_load_4(weights + (j)), word >> (j), signs))
  ZO_ADD_4(0), ZO_ADD_4(4), ZO_ADD_4(8), ZO_ADD_4(12);
  ZO_ADD_4(16), ZO_ADD_4(20), ZO_ADD_4(24), ZO_ADD_4(28);
#undef ZO_ADD_4
#endif
}

static inline void zo_add_32_both(int8_t* weights, uint32_t word, zo_signs signs, uint32_t word_2, zo_signs signs_2) {
#define ZO_ADD_4(j)         \
  zo_store_4(weights + (j), \
             zo_add_4_signs(zo_add_4_signs(zo_load_4(weights + (j)), word >> (j), signs), word_2 >> (j), signs_2))
  ZO_ADD_4(0), ZO_ADD_4(4), ZO_ADD_4(8), ZO_ADD_4(12);
  ZO_ADD_4(16), ZO_ADD_4(20), ZO_ADD_4(24), ZO_ADD_4(28);
#undef ZO_ADD_4
}

#if ZO_WITH_FAST_STEPS
#define ZO_PAIR_WORDS 256

/* The addend of four weights for each combination of four bits of either word. */
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

/* Cortex-M0+ has just enough registers for this loop, and for nothing else. */
#if ZO_THUMB1
#define ZO_ALONE static __attribute__((noinline, unused))
#else
#define ZO_ALONE static inline
#endif

/* Four weights of every eight, by one byte of `bytes` each. */
ZO_ALONE void zo_add_4_of_8(int8_t* weights, uint32_t bytes, zo_pair pair) {
#define ZO_ADD_4(j, k) \
  zo_store_4(weights + (j), zo_add_bytes(zo_load_4(weights + (j)), pair.added[(uint8_t)(bytes >> (k))]))
  ZO_ADD_4(0, 0), ZO_ADD_4(8, 8), ZO_ADD_4(16, 16), ZO_ADD_4(24, 24);
#undef ZO_ADD_4
}

static inline void zo_add_32_pair(int8_t* weights, uint32_t word, uint32_t word_2, zo_pair pair) {
  const uint32_t low = UINT32_C(0x0F0F0F0F);
  zo_add_4_of_8(weights, (word & low) | (word_2 & low) << 4, pair);
  zo_add_4_of_8(weights + 4, (word >> 4 & low) | (word_2 & ~low), pair);
}

#endif /* ZO_PAIRS_OF_WORDS */

#endif /* ZO_WITH_FAST_STEPS */

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_SIGNS_TABLE_H_ */
