/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Four weights and their steps in registers, by instructions of the DSP extension (Cortex-M4, M7,
 * M33, M55), for zo_step_signs_dsp.c and zo_apply_row_dsp.h. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_DSP_LANES_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_DSP_LANES_H_

#include <arm_acle.h>
#include <string.h>

#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/zo_types.h"

/* Not an array: its parts are to be registers. */
typedef struct four_steps {
  uint32_t s0;
  uint32_t s1;
  uint32_t s2;
  uint32_t s3;
} four_steps;

/* The instructions on lanes of a word; ACLE's types for them are signed or not as they please. */
static inline uint32_t add_8_saturated(uint32_t a, uint32_t b) { return (uint32_t)__qadd8((int8x4_t)a, (int8x4_t)b); }

static inline uint32_t subtract_8_saturated(uint32_t a, uint32_t b) {
  return (uint32_t)__qsub8((int8x4_t)a, (int8x4_t)b);
}

static inline uint32_t add_16_saturated(uint32_t a, uint32_t b) {
  return (uint32_t)__qadd16((int16x2_t)a, (int16x2_t)b);
}

/* Compilers do not agree on whether the bytes are signed. */
static inline uint32_t bytes_0_2(uint32_t a) {
#if defined(__clang__)
  return (uint32_t)__uxtb16((int8x4_t)a);
#else
  return __uxtb16(a);
#endif
}

static inline uint32_t signed_bytes_0_2(uint32_t a) { return (uint32_t)__sxtb16((int8x4_t)a); }

static inline uint32_t load_4(const int8_t* at) {
  uint32_t packed;
  memcpy(&packed, at, sizeof packed);
  return packed;
}

static inline void store_4(int8_t* at, uint32_t packed) { memcpy(at, &packed, sizeof packed); }

/* Instructions without an intrinsic that compilers do not generate. */

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
static inline uint32_t interleave_bytes(uint32_t even, uint32_t odd) { return bytes_0_2(even) | bytes_0_2(odd) << 8; }

/* Two loads for the steps of four weights. */
static inline four_steps load_four(const uint32_t* at) {
  four_steps f;
  __asm__("ldrd %0, %1, [%4]\n\tldrd %2, %3, [%4, #8]"
          : "=&r"(f.s0), "=&r"(f.s1), "=&r"(f.s2), "=&r"(f.s3)
          : "r"(at), "m"(*(const uint32_t (*)[4])at));
  return f;
}

/* Adds four rounding terms: overlapping halves of a word. */
static inline four_steps add_rounding(four_steps f, uint32_t word) {
  f.s0 += word & 0xFFFFu;
  f.s1 = add_half_at_1(f.s1, word);
  f.s2 += word >> 16;
  f.s3 = add_half_at_3(f.s3, word);
  return f;
}

/* The moves of four weights: the whole parts of their steps, a byte each. */
static inline uint32_t whole_parts(four_steps f) {
  return interleave_bytes(high_halves(f.s2, f.s0), high_halves(f.s3, f.s1));
}

/* Four weights and their fractions, 16 bits each: of weights 0 and 2, and of 1 and 3. */
typedef struct four_values {
  uint32_t even;
  uint32_t odd;
} four_values;

/* Weights with fractions, moved by at most 127 LSB, to which a fraction can be added. */
static inline four_values move_four_values(const int8_t* weights, const int8_t* fraction, uint32_t even, uint32_t odd) {
  /* The rest is loaded later: there are not enough registers. */
  __asm__ volatile("" : "+r"(even), "+r"(odd) : : "memory");
  const uint32_t r = load_4(fraction);
  even = __uadd16(even, signed_bytes_0_2(r));
  odd = __uadd16(odd, signed_bytes_0_2(r >> 8 | r << 24));
  const uint32_t w = load_4(weights);
  four_values v;
  v.even = add_16_saturated(bytes_0_2(w) << 8, even);
  v.odd = add_16_saturated(w & UINT32_C(0xFF00FF00), odd);
  return v;
}

/* Not 0 if one of them is beyond the limit, which is in both halves. */
static inline uint32_t beyond_limit(four_values v, uint32_t limit) {
  return __uqsub16(__uadd16(v.even, limit), 2u * limit) | __uqsub16(__uadd16(v.odd, limit), 2u * limit);
}

/* Takes them apart. Saturated values stay beyond the limit for the clipping that follows. */
static inline void store_four_values(int8_t* weights, int8_t* fraction, four_values v) {
  store_4(fraction, interleave_bytes(v.even, v.odd));
  v.even = add_16_saturated(v.even, UINT32_C(0x00800080));
  v.odd = add_16_saturated(v.odd, UINT32_C(0x00800080));
  store_4(weights, bytes_0_2(v.even >> 8 | v.even << 24) | (v.odd & UINT32_C(0xFF00FF00)));
}

/* --- Moves that end within the limit -----------------------------------------------------------
 */

/* Whether bytes suffice: for steps of at most 127 LSB up or down, rounded, and a limit whose
 * distance from 127 fits twice. */
static inline int bytes_suffice(int32_t limit, int32_t largest) {
  return largest <= INT32_C(127) << ZO_COEFFICIENT_BITS && limit >= 64;
}

/* The distance of the limit from 127 in every byte, that from -128, and both. */
typedef struct byte_limits {
  uint32_t up;
  uint32_t back;
  uint32_t down;
} byte_limits;

static inline byte_limits byte_limits_of(int32_t limit) {
  const uint32_t each = UINT32_C(0x01010101);
  const byte_limits limits = {each * (uint32_t)(127 - limit), each * (uint32_t)(128 - limit),
                              each * (uint32_t)(255 - 2 * limit)};
  return limits;
}

/* Moves four weights; returns how many were clipped. */
static inline uint32_t move_within_8(int8_t* weights, uint32_t moves, byte_limits limits) {
  const uint32_t before = load_4(weights);
  uint32_t inside = add_8_saturated(add_8_saturated(before, moves), limits.up);
  inside = add_8_saturated(subtract_8_saturated(inside, limits.down), limits.back);
  store_4(weights, inside);
  /* The sum modulo 2^8 is another one if it was clipped or saturated. */
  uint32_t changed = inside ^ __uadd8(before, moves), clipped = 0;
  for (; changed != 0u; changed >>= 8) clipped += (uint32_t)((changed & 0xFFu) != 0u);
  return clipped;
}

/* Steps in units of 2^-24 LSB, with half of their rounding unit, 2^-8 LSB. */
static inline four_steps in_fractions(four_steps f) {
  uint32_t half = UINT32_C(1) << 15;
  __asm__("" : "+r"(half)); /* a register, to which a shifted one is added at once */
  f.s0 = half + (f.s0 << 8);
  f.s1 = half + (f.s1 << 8);
  f.s2 = half + (f.s2 << 8);
  f.s3 = half + (f.s3 << 8);
  return f;
}

/* Brings halves of a word to within +-limit; returns how many it has clipped. */
static inline uint32_t clip_halves(uint32_t* halves, int32_t limit) {
  const int32_t low = (int16_t)*halves, high = (int16_t)(*halves >> 16);
  const int32_t low_inside = zo_clamp(low, -limit, limit);
  const int32_t high_inside = zo_clamp(high, -limit, limit);
  *halves = (uint32_t)high_inside << 16 | (uint16_t)low_inside;
  return (uint32_t)(low != low_inside) + (uint32_t)(high != high_inside);
}

/* move_within_8 with fractions, by steps that are in_fractions. */
static inline uint32_t move_within_16(int8_t* weights, int8_t* fraction, four_steps f, int32_t limit) {
  uint32_t clipped = 0;
  four_values v = move_four_values(weights, fraction, high_halves(f.s2, f.s0), high_halves(f.s3, f.s1));
  if (beyond_limit(v, UINT32_C(0x01000100) * (uint32_t)limit) != 0u) {
    clipped = clip_halves(&v.even, 256 * limit) + clip_halves(&v.odd, 256 * limit);
  }
  store_four_values(weights, fraction, v);
  return clipped;
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_DSP_LANES_H_ */
