/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Four weights and their steps in registers, by instructions of the DSP extension (Cortex-M4, M7,
 * M33, M55): what zo_step_signs_dsp.c and zo_apply_row_dsp.h are made of. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_DSP_LANES_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_DSP_LANES_H_

#include <arm_acle.h>
#include <string.h>

#include "ops/core/zo_types.h"

/* Not an array: its parts are to be registers. */
typedef struct four_steps {
  uint32_t s0;
  uint32_t s1;
  uint32_t s2;
  uint32_t s3;
} four_steps;

/* The instructions on lanes of a word; ACLE's types for them are signed or not as they please. */
static inline uint32_t add_8_saturated(uint32_t a, uint32_t b) {
  return (uint32_t)__qadd8((int8x4_t)a, (int8x4_t)b);
}

static inline uint32_t subtract_8_saturated(uint32_t a, uint32_t b) {
  return (uint32_t)__qsub8((int8x4_t)a, (int8x4_t)b);
}

static inline uint32_t add_16_saturated(uint32_t a, uint32_t b) {
  return (uint32_t)__qadd16((int16x2_t)a, (int16x2_t)b);
}

static inline uint32_t signed_bytes_0_2(uint32_t a) { return (uint32_t)__sxtb16((int8x4_t)a); }

static inline uint32_t load_4(const int8_t* at) {
  uint32_t packed;
  memcpy(&packed, at, sizeof packed);
  return packed;
}

static inline void store_4(int8_t* at, uint32_t packed) { memcpy(at, &packed, sizeof packed); }

/* What the compiler has no intrinsic for and does not find by itself. */

/* The high halves of two words, one beside the other. */
static inline uint32_t high_halves(uint32_t high, uint32_t low) {
  uint32_t result;
  __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(result) : "r"(high), "r"(low));
  return result;
}

/* sum + the low half of the word turned right by a byte, or by three. */
static inline uint32_t add_half_at_1(uint32_t sum, uint32_t word) {
  uint32_t result;
  __asm__("uxtah %0, %1, %2, ror #8" : "=r"(result) : "r"(sum), "r"(word));
  return result;
}

static inline uint32_t add_half_at_3(uint32_t sum, uint32_t word) {
  uint32_t result;
  __asm__("uxtah %0, %1, %2, ror #24" : "=r"(result) : "r"(sum), "r"(word));
  return result;
}

/* Bytes 0 and 2 of `even` at their places, those of `odd` at 1 and 3. */
static inline uint32_t interleave(uint32_t even, uint32_t odd) {
  return __uxtb16(even) | __uxtb16(odd) << 8;
}

/* Two loads for the steps of four weights. */
static inline four_steps load_four(const uint32_t* at) {
  four_steps f;
  __asm__("ldrd %0, %1, [%4]\n\tldrd %2, %3, [%4, #8]"
          : "=&r"(f.s0), "=&r"(f.s1), "=&r"(f.s2), "=&r"(f.s3)
          : "r"(at), "m"(*(const uint32_t (*)[4])at));
  return f;
}

static inline four_steps add_four(four_steps a, four_steps b) {
  a.s0 += b.s0;
  a.s1 += b.s1;
  a.s2 += b.s2;
  a.s3 += b.s3;
  return a;
}

/* Adds four rounding terms: overlapping halves of a word. */
static inline four_steps add_rounding(four_steps f, uint32_t word) {
  f.s0 += word & 0xFFFFu;
  f.s1 = add_half_at_1(f.s1, word);
  f.s2 += word >> 16;
  f.s3 = add_half_at_3(f.s3, word);
  return f;
}

/* What four weights move by: the whole parts of their steps, a byte each. */
static inline uint32_t whole_parts(four_steps f) {
  return interleave(high_halves(f.s2, f.s0), high_halves(f.s3, f.s1));
}

/* Four weights and their fractions, 16 bits each: of weights 0 and 2, and of 1 and 3. */
typedef struct four_values {
  uint32_t even;
  uint32_t odd;
} four_values;

/* Weights with fractions, moved by at most 127 LSB, to which a fraction can be added. */
static inline four_values move_four_values(const int8_t* weights, const int8_t* fraction,
                                           uint32_t even, uint32_t odd) {
  /* What follows is loaded afterwards: there are no registers for all of it. */
  __asm__ volatile("" : "+r"(even), "+r"(odd) : : "memory");
  const uint32_t r = load_4(fraction);
  even = __uadd16(even, signed_bytes_0_2(r));
  odd = __uadd16(odd, signed_bytes_0_2(r >> 8 | r << 24));
  const uint32_t w = load_4(weights);
  four_values v;
  v.even = add_16_saturated(__uxtb16(w) << 8, even);
  v.odd = add_16_saturated(w & UINT32_C(0xFF00FF00), odd);
  return v;
}

/* Not 0 where one of them is beyond the limit, which is in both halves. */
static inline uint32_t beyond_limit(four_values v, uint32_t limit) {
  return __uqsub16(__uadd16(v.even, limit), 2u * limit) |
         __uqsub16(__uadd16(v.odd, limit), 2u * limit);
}

/* Takes them apart. Saturated, what is beyond the limit stays so for the clipping that follows. */
static inline void store_four_values(int8_t* weights, int8_t* fraction, four_values v) {
  store_4(fraction, interleave(v.even, v.odd));
  v.even = add_16_saturated(v.even, UINT32_C(0x00800080));
  v.odd = add_16_saturated(v.odd, UINT32_C(0x00800080));
  store_4(weights, __uxtb16(v.even >> 8 | v.even << 24) | (v.odd & UINT32_C(0xFF00FF00)));
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_DSP_LANES_H_ */
