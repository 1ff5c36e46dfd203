/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <arm_neon.h>

#include "ops/kernels/zo_arm.h"
#include "ops/kernels/zo_weights.h"

static inline uint32x4_t next(uint32x4_t state) {
  state = veorq_u32(state, vshlq_n_u32(state, 13));
  state = veorq_u32(state, vshrq_n_u32(state, 17));
  return veorq_u32(state, vshlq_n_u32(state, 5));
}

/* The words of four of the places, which are 16 words apart. */
static inline void draw_quarter(uint32_t* words, uint32_t state, int first) {
  uint32x4_t a = vdupq_n_u32(0);
  for (int j = 0; j < 32; ++j) {
    const uint32x4_t has = vdupq_n_u32(0u - (state >> j & 1u));
    a = veorq_u32(a, vandq_u32(has, vld1q_u32(zo_stream_jumps[j] + first)));
  }
  for (uint32_t* to = words + 16 * first; to != words + 16 * first + 16; to += 4) {
    a = next(a);
    const uint32x4_t b = next(a), c = next(b), d = next(c);
    const uint64x2_t ab = vreinterpretq_u64_u32(vzip1q_u32(a, b));
    const uint64x2_t cd = vreinterpretq_u64_u32(vzip1q_u32(c, d));
    const uint64x2_t high_ab = vreinterpretq_u64_u32(vzip2q_u32(a, b));
    const uint64x2_t high_cd = vreinterpretq_u64_u32(vzip2q_u32(c, d));
    vst1q_u32(to, vreinterpretq_u32_u64(vzip1q_u64(ab, cd)));
    vst1q_u32(to + 16, vreinterpretq_u32_u64(vzip2q_u64(ab, cd)));
    vst1q_u32(to + 32, vreinterpretq_u32_u64(vzip1q_u64(high_ab, high_cd)));
    vst1q_u32(to + 48, vreinterpretq_u32_u64(vzip2q_u64(high_ab, high_cd)));
    a = d;
  }
}

static void draw(uint32_t* words, uint32_t state) {
  for (int first = 0; first < 16; first += 4) draw_quarter(words, state, first);
}

static void draw_signs(uint32_t* signs, uint32_t count, const uint32_t* states) {
  uint32x4_t state[4];
#pragma GCC unroll 4
  for (int p = 0; p < 4; ++p) state[p] = vld1q_u32(states + 4 * p);
  for (uint32_t w = 0; w < count; ++w, signs += kZoSigns) {
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) vst1q_u32(signs + 4 * p, state[p] = next(state[p]));
  }
}

/* All bits of each byte whose bit of the two lowest bytes of the word is set. */
static inline uint8x16_t bytes_of_bits(uint32_t word) {
  const uint8x8_t own = vcreate_u8(UINT64_C(0x8040201008040201));
  const uint8x16_t bytes = vcombine_u8(vdup_n_u8((uint8_t)word), vdup_n_u8((uint8_t)(word >> 8)));
  return vtstq_u8(bytes, vcombine_u8(own, own));
}

static void add_signs(int8_t* weights, uint32_t count, const uint32_t* signs, int32_t delta) {
  const int8x16_t plus = vdupq_n_s8((int8_t)(uint8_t)(uint32_t)delta), minus = vnegq_s8(plus);
  for (uint32_t i = 0; i < count; i += 32, signs += kZoSigns) {
    const int8x16_t low = vbslq_s8(bytes_of_bits(signs[0]), minus, plus);
    const int8x16_t high = vbslq_s8(bytes_of_bits(signs[0] >> 16), minus, plus);
    vst1q_s8(weights + i, vaddq_s8(vld1q_s8(weights + i), low));
    vst1q_s8(weights + i + 16, vaddq_s8(vld1q_s8(weights + i + 16), high));
  }
}

static void add_bytes(int8_t* weights, uint32_t count, const uint32_t* words, const uint8_t* table) {
  const uint8x16x4_t low = vld1q_u8_x4(table), high = vld1q_u8_x4(table + 64);
  for (uint32_t i = 0; i < count; i += 16) {
    const uint8x16_t bytes = vreinterpretq_u8_u32(vld1q_u32(words + i / 4u));
    const uint8x16_t index = vandq_u8(bytes, vdupq_n_u8(0x7F));
    /* Beyond a table 0 is found. */
    const int8x16_t found =
        vreinterpretq_s8_u8(vorrq_u8(vqtbl4q_u8(low, index), vqtbl4q_u8(high, vsubq_u8(index, vdupq_n_u8(64)))));
    const uint8x16_t minus = vcltzq_s8(vreinterpretq_s8_u8(bytes));
    vst1q_s8(weights + i, vaddq_s8(vld1q_s8(weights + i), vbslq_s8(minus, vnegq_s8(found), found)));
  }
}

static void add_halves(int8_t* weights, uint32_t count, const uint32_t* words, zo_distribution distribution,
                       int32_t k) {
  const int16_t factor = (int16_t)(2 * distribution.mu + 1);
  for (uint32_t i = 0; i < count; i += 8) {
    const int16x8_t halves = vreinterpretq_s16_u32(vld1q_u32(words + i / 2u));
    const int16x8_t byte = vshrq_n_s16(halves, 8), low = vandq_s16(halves, vdupq_n_s16(0xFF));
    const uint16x8_t keep =
        vbicq_u16(vcgeq_s16(low, vdupq_n_s16(distribution.p_zero)), vceqq_s16(byte, vdupq_n_s16(-128)));
    const int16x8_t scaled = vaddq_s16(vmulq_n_s16(byte, factor), vdupq_n_s16(128));
    const int16x8_t z = vandq_s16(vshrq_n_s16(scaled, 8), vreinterpretq_s16_u16(keep));
    const int8x8_t added = vmovn_s16(vmulq_n_s16(z, (int16_t)k));
    vst1_s8(weights + i, vadd_s8(vld1_s8(weights + i), added));
  }
}

static void sum_signs(int32_t* steps, uint32_t count, const uint32_t* signs, const int32_t* coefficients,
                      uint32_t streams) {
  static const uint32_t kOwn[4] = {1, 2, 4, 8};
  const uint32x4_t own = vld1q_u32(kOwn);
  for (uint32_t i = 0; i < count; i += 32, signs += kZoSigns) {
    int32x4_t sums[8];
#pragma GCC unroll 8
    for (int p = 0; p < 8; ++p) sums[p] = vdupq_n_s32(0);
    for (uint32_t s = 0; s < streams; ++s) {
      const int32x4_t plus = vdupq_n_s32(coefficients[s]), minus = vnegq_s32(plus);
      const uint32x4_t word = vdupq_n_u32(signs[s]);
#pragma GCC unroll 8
      for (int p = 0; p < 8; ++p) {
        const uint32x4_t bits = vshlq_u32(own, vdupq_n_s32(4 * p));
        sums[p] = vaddq_s32(sums[p], vbslq_s32(vtstq_u32(word, bits), minus, plus));
      }
    }
#pragma GCC unroll 8
    for (int p = 0; p < 8; ++p) vst1q_s32(steps + i + 4 * p, sums[p]);
  }
}

/* 8 values in two vectors. */
typedef struct eight {
  int32x4_t low, high;
} eight;

static inline eight widened(const int8_t* values) {
  const int16x8_t wide = vmovl_s8(vld1_s8(values));
  const eight e = {vmovl_s16(vget_low_s16(wide)), vmovl_s16(vget_high_s16(wide))};
  return e;
}

/* Stores the lowest bytes. */
static inline void narrow(int8_t* to, int32x4_t low, int32x4_t high) {
  vst1_s8(to, vmovn_s16(vcombine_s16(vmovn_s32(low), vmovn_s32(high))));
}

static void add_values(int32_t* steps, uint32_t count, const int8_t* values, int32_t coefficient) {
  for (uint32_t i = 0; i < count; i += 8) {
    const eight v = widened(values + i);
    vst1q_s32(steps + i, vmlaq_n_s32(vld1q_s32(steps + i), v.low, coefficient));
    vst1q_s32(steps + i + 4, vmlaq_n_s32(vld1q_s32(steps + i + 4), v.high, coefficient));
  }
}

/* Values within +-limit; counts down the unchanged ones. */
static inline int32x4_t clip(int32x4_t values, int32_t limit, uint32x4_t* kept) {
  const int32x4_t inside = vminq_s32(vmaxq_s32(values, vdupq_n_s32(-limit)), vdupq_n_s32(limit));
  *kept = vaddq_u32(*kept, vceqq_s32(inside, values));
  return inside;
}

static uint32_t round_8(int8_t* weights, uint32_t count, const int32_t* steps, int32_t limit, const uint32_t* words) {
  /* Of each word its two lowest bytes, the two in the middle, the two highest, the two outermost.
   */
  static const uint8_t kHalves[16] = {0, 1, 255, 255, 1, 2, 255, 255, 2, 3, 255, 255, 3, 0, 255, 255};
  const uint8x16_t first = vld1q_u8(kHalves);
  const uint8x16_t second = vqaddq_u8(first, vreinterpretq_u8_u16(vdupq_n_u16(0x0404)));
  uint32x4_t kept = vdupq_n_u32(0);
  for (uint32_t i = 0; i < count; i += 8, words += 2) {
    const uint8x16_t two = vreinterpretq_u8_u32(vcombine_u32(vld1_u32(words), vdup_n_u32(0)));
    const int32x4_t low = vaddq_s32(vld1q_s32(steps + i), vreinterpretq_s32_u8(vqtbl1q_u8(two, first)));
    const int32x4_t high = vaddq_s32(vld1q_s32(steps + i + 4), vreinterpretq_s32_u8(vqtbl1q_u8(two, second)));
    const eight w = widened(weights + i);
    narrow(weights + i, clip(vsraq_n_s32(w.low, low, ZO_COEFFICIENT_BITS), limit, &kept),
           clip(vsraq_n_s32(w.high, high, ZO_COEFFICIENT_BITS), limit, &kept));
  }
  return count + vaddvq_u32(kept);
}

static inline int32x4_t moved_16(int32x4_t weights, int32x4_t fraction, const int32_t* step) {
  const int32x4_t from = vaddq_s32(vshlq_n_s32(weights, 8), fraction);
  return vrsraq_n_s32(from, vld1q_s32(step), ZO_COEFFICIENT_BITS - 8);
}

static uint32_t round_16(int8_t* weights, int8_t* fraction, uint32_t count, const int32_t* steps, int32_t limit) {
  uint32x4_t kept = vdupq_n_u32(0);
  for (uint32_t i = 0; i < count; i += 8) {
    const eight w = widened(weights + i), f = widened(fraction + i);
    const int32x4_t low = clip(moved_16(w.low, f.low, steps + i), 256 * limit, &kept);
    const int32x4_t high = clip(moved_16(w.high, f.high, steps + i + 4), 256 * limit, &kept);
    narrow(weights + i, vrshrq_n_s32(low, 8), vrshrq_n_s32(high, 8));
    narrow(fraction + i, low, high);
  }
  return count + vaddvq_u32(kept);
}

static uint32_t move(int16_t* values, uint32_t count, const uint32_t* signs, const int16_t* moves, int32_t limit) {
  static const uint16_t kOwn[8] = {1, 2, 4, 8, 16, 32, 64, 128};
  const uint16x8_t own = vld1q_u16(kOwn);
  const int16x8_t plus = vdupq_n_s16(moves[0]), minus = vdupq_n_s16(moves[1]);
  const int16x8_t low = vdupq_n_s16((int16_t)-limit), high = vdupq_n_s16((int16_t)limit);
  uint16x8_t kept = vdupq_n_u16(0); /* in 16 bits: count is a tile's at most */
  for (uint32_t i = 0; i < count; i += 32, signs += kZoSigns) {
#pragma GCC unroll 4
    for (uint32_t p = 0; p < 32; p += 8) {
      const uint16x8_t is_minus = vtstq_u16(vdupq_n_u16((uint16_t)(signs[0] >> p)), own);
      const int16x8_t moved = vqaddq_s16(vld1q_s16(values + i + p), vbslq_s16(is_minus, minus, plus));
      const int16x8_t inside = vminq_s16(vmaxq_s16(moved, low), high);
      kept = vsubq_u16(kept, vceqq_s16(inside, moved));
      vst1q_s16(values + i + p, inside);
    }
  }
  return count - vaddlvq_u16(kept);
}

static uint32_t add_products(int32_t* sums, uint32_t count, const zo_product* products, uint32_t number, size_t offset,
                             int32_t zero_point) {
  const int16x8_t zero = vdupq_n_s16((int16_t)zero_point);
  const uint32_t whole = count / 8u * 8u;
  for (uint32_t i = 0; i < whole; i += 8) {
    int32x4_t low = vld1q_s32(sums + i), high = vld1q_s32(sums + i + 4);
    for (uint32_t k = 0; k < number; ++k) {
      const int16_t factor = (int16_t)products[k].factor;
      const int16x8_t row = vsubq_s16(vmovl_s8(vld1_s8(products[k].row + offset + i)), zero);
      low = vmlal_n_s16(low, vget_low_s16(row), factor);
      high = vmlal_high_n_s16(high, row, factor);
    }
    vst1q_s32(sums + i, low);
    vst1q_s32(sums + i + 4, high);
  }
  return whole;
}

const zo_weight_loops zo_neon_weights = {draw,       draw_signs, add_signs, add_bytes, add_halves,   sum_signs,
                                         add_values, round_8,    round_16,  move,      add_products, zo_move_nodes};
