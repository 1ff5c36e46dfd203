/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The loops of zo_step_signs.h for up to four queries, with vectors of MVE (Cortex-M55, M85). */
#include "ops/core/kernels/zo_step_run.h"

#if ZO_STEP_SIGNS && ZO_STEP_VECTORS

#include <arm_mve.h>

#include "ops/core/random/zo_stream.h"

#define CHUNK ZO_STEP_SIGNS_CHUNK

/* The signs of a weight by all queries are an index of four bits. */
#define SUMS 16u

/* A weight's move for each index: with 8 bits the whole part of its step, and the largest rounding
 * term that does not carry into it; with 16 bits its move in units of 2^-8 LSB. */
typedef struct move_tables {
  uint16_t halves[SUMS];
  uint8_t whole[SUMS];
} move_tables;

/* A query that there is none of has the plus sign: its stream's state is 0 and stays so. */
static void make_moves(move_tables* to, const zo_step_run* run) {
  const zo_two_steps* first = run->tables->pairs[0];
  for (uint32_t i = 0; i < SUMS; ++i) {
    uint32_t sum;
    if (run->count == 1u && run->fraction != NULL) {
      sum = first[15u * (i & 1u)].first << 16;
    } else if (run->count == 1u) {
      sum = first[2u * (i & 1u)].first;
    } else {
      sum = first[(i & 1u) | (i & 2u) << 1].first;
      if (run->count > 2u) sum += first[16u + ((i >> 2 & 1u) | (i >> 3) << 2)].first;
    }
    to->whole[i] = (uint8_t)(sum >> 16);
    to->halves[i] = (uint16_t)(run->fraction != NULL ? sum >> 16 : ~sum);
  }
}

/* Not vcreateq_u32(), whose halves GCC 12 swaps. */
ZO_ALWAYS_INLINE uint32x4_t words_of(uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3) {
  uint32x4_t words;
  __asm__("vmov %q0[2], %q0[0], %1, %3\n\tvmov %q0[3], %q0[1], %2, %4"
          : "=&w"(words)
          : "r"(w0), "r"(w1), "r"(w2), "r"(w3));
  return words;
}

/* --- Predicates, which no vector of the compiler's is behind in these functions -------------- */

/* `on` if a bit of the word's lower half is set, else `off`. */
ZO_ALWAYS_INLINE uint8x16_t select_by(uint32_t word, uint8x16_t on, uint8x16_t off) {
  uint8x16_t result;
  __asm__("vmsr p0, %1\n\tvpsel %q0, %q2, %q3" : "=w"(result) : "r"(word), "w"(on), "w"(off));
  return result;
}

/* Adds `by` if a bit is set. */
ZO_ALWAYS_INLINE uint8x16_t add_by(uint8x16_t to, uint32_t word, uint32_t by) {
  __asm__("vmsr p0, %1\n\tvpst\n\tvaddt.i8 %q0, %q0, %2" : "+w"(to) : "r"(word), "r"(by));
  return to;
}

/* Adds `one` to the bytes of halves of words whose rounding terms carry. */
ZO_ALWAYS_INLINE uint8x16_t add_carries(uint8x16_t to, uint16x8_t random, uint16x8_t most, uint8x16_t one) {
  __asm__("vpt.u16 hi, %q1, %q2\n\tvaddt.i8 %q0, %q0, %q3" : "+w"(to) : "w"(random), "w"(most), "w"(one));
  return to;
}

/* --- 16 weights ----------------------------------------------------------------------------- */

/* Signs of 16 weights, in the lower halves of words. */
ZO_ALWAYS_INLINE uint8x16_t index_of(const uint32_t* words, uint32_t shift, int single) {
  const uint8x16_t index = select_by(words[0] >> shift, vdupq_n_u8(1), vdupq_n_u8(0));
  if (single) return index;
  return add_by(add_by(add_by(index, words[1] >> shift, 2), words[2] >> shift, 4), words[3] >> shift, 8);
}

ZO_ALWAYS_INLINE uint8x16_t move_16_of_8(int8_t* weights, uint8x16_t index, uint32_t* random, const move_tables* moves,
                                         uint8x16_t largest) {
  const uint32_t w0 = zo_stream_next(*random), w1 = zo_stream_next(w0);
  const uint32_t w2 = zo_stream_next(w1), w3 = zo_stream_next(w2);
  *random = w3;
  /* Halves of words are for even weights, those of words turned by a byte for odd ones. */
  const uint32x4_t words = words_of(w0, w1, w2, w3);
  const uint32x4_t turned = vsliq_n_u32(vshrq_n_u32(words, 8), words, 24);
  const uint16x8_t even = vldrhq_gather_shifted_offset_u16(moves->halves, vmovlbq_u8(index));
  const uint16x8_t odd = vldrhq_gather_shifted_offset_u16(moves->halves, vmovltq_u8(index));
  const uint8x16_t low = vreinterpretq_u8_u16(vdupq_n_u16(1));
  const uint8x16_t high = vreinterpretq_u8_u16(vdupq_n_u16(256));
  uint8x16_t by = vldrbq_gather_offset_u8(moves->whole, index);
  by = add_carries(by, vreinterpretq_u16_u32(words), even, low);
  by = add_carries(by, vreinterpretq_u16_u32(turned), odd, high);
  /* Values that saturate at 127 or -128 are beyond the limit, too, which is 126 at most. */
  const int8x16_t moved = vqaddq_s8(vldrbq_s8(weights), vreinterpretq_s8_u8(by));
  vstrbq_s8(weights, moved);
  return vmaxaq_s8(largest, moved);
}

/* With fractions, whose sums with moves are within 16 bits. */
ZO_ALWAYS_INLINE uint16x8_t move_16_of_16(int8_t* weights, int8_t* fraction, uint8x16_t index, const move_tables* moves,
                                          uint16x8_t largest) {
  const int16_t* table = (const int16_t*)(const void*)moves->halves;
  int16x8_t even = vldrhq_gather_shifted_offset_s16(table, vmovlbq_u8(index));
  int16x8_t odd = vldrhq_gather_shifted_offset_s16(table, vmovltq_u8(index));
  const int8x16_t r = vldrbq_s8(fraction), w = vldrbq_s8(weights);
  even = vqaddq_s16(vaddq_s16(even, vmovlbq_s8(r)), vshlq_n_s16(vreinterpretq_s16_s8(w), 8));
  odd = vqaddq_s16(vaddq_s16(odd, vmovltq_s8(r)), vbicq_n_s16(vreinterpretq_s16_s8(w), 255));
  /* Saturated values stay beyond the limit for the clipping that follows. */
  vstrbq_s8(weights, vqrshrntq_n_s16(vqrshrnbq_n_s16(w, even, 8), odd, 8));
  vstrbq_s8(fraction, vreinterpretq_s8_s16(vsliq_n_s16(even, odd, 8)));
  return vmaxaq_s16(vmaxaq_s16(largest, even), odd);
}

/* --- Chunks ---------------------------------------------------------------------------------- */

ZO_ALWAYS_INLINE uint32_t run_vectors(zo_step_run* run, int single, int has_fraction) {
  move_tables moves;
  make_moves(&moves, run);
  uint32_t states[4] = {0, 0, 0, 0};
  for (uint32_t q = 0; q < run->count; ++q) states[q] = run->states[q];
  uint32_t clipped = 0, random = *run->rounding;
  int8_t *weights = run->weights, *fraction = run->fraction;
  for (const int8_t* const end = weights + CHUNK * run->chunks; weights != end; weights += CHUNK) {
    for (uint32_t q = 0; q < (single ? 1u : 4u); ++q) states[q] = zo_stream_next(states[q]);
    const uint8x16_t index = index_of(states, 0, single), other = index_of(states, 16, single);
    uint8x16_t largest = vdupq_n_u8(0);
    uint16x8_t largest_16 = vdupq_n_u16(0);
    if (has_fraction) {
      largest_16 = move_16_of_16(weights, fraction, index, &moves, largest_16);
      largest_16 = move_16_of_16(weights + 16, fraction + 16, other, &moves, largest_16);
      if (vmaxvq_u16(0, largest_16) > 256u * (uint32_t)run->limit) {
        clipped += zo_step_clip_16(weights, fraction, run->limit);
      }
      fraction += CHUNK;
    } else {
      largest = move_16_of_8(weights, index, &random, &moves, largest);
      /* The rest begins here: mixed with the first half it does not fit the registers. */
      __asm__ volatile("" : "+r"(random) : : "memory");
      largest = move_16_of_8(weights + 16, other, &random, &moves, largest);
      if (vmaxvq_u8(0, largest) > (uint32_t)run->limit) {
        clipped += zo_step_clip_8(weights, run->limit);
      }
    }
  }
  for (uint32_t q = 0; q < run->count; ++q) run->states[q] = states[q];
  *run->rounding = random;
  return clipped;
}

/* --- One query, 8 bits: without tables ------------------------------------------------------- */

/* Constants of a run's vectors for its coefficient c. */
typedef struct mve_step {
  uint8x16_t whole;    /* floor(c / 2^16) */
  uint16x8_t fraction; /* the rest */
} mve_step;

/* Moves 16 weights. If the sign is minus, floor((r - c) / 2^16) = -floor((~r + c) / 2^16), all
 * 16 bits of r turned over: so every weight moves by +-(whole + carry of fraction + r). */
ZO_ALWAYS_INLINE uint32_t move_16_mve(int8_t* weights, uint32_t signs, uint32_t random, mve_step step,
                                      uint8x16_t* largest) {
  const uint32_t w0 = zo_stream_next(random), w1 = zo_stream_next(w0);
  const uint32_t w2 = zo_stream_next(w1), w3 = zo_stream_next(w2);
  /* Halves of words are for even weights, those of words turned by a byte for odd ones. */
  const uint32x4_t words = words_of(w0, w1, w2, w3);
  const uint32x4_t turned = vsliq_n_u32(vshrq_n_u32(words, 8), words, 24);
  const int8x16_t minus = vpselq_s8(vdupq_n_s8(-1), vdupq_n_s8(0), (mve_pred16_t)signs);
  uint16x8_t even = veorq_u16(vreinterpretq_u16_u32(words), vreinterpretq_u16_s16(vmovlbq_s8(minus)));
  uint16x8_t odd = veorq_u16(vreinterpretq_u16_u32(turned), vreinterpretq_u16_s16(vmovltq_s8(minus)));
  even = vshrq_n_u16(vhaddq_u16(even, step.fraction), 15);
  odd = vshrq_n_u16(vhaddq_u16(odd, step.fraction), 15);
  const uint8x16_t carries = vreinterpretq_u8_u16(vsliq_n_u16(even, odd, 8));
  const int8x16_t moves = vreinterpretq_s8_u8(vaddq_u8(carries, step.whole));
  const int8x16_t moved = vqaddq_s8(vldrbq_s8(weights), vsubq_s8(veorq_s8(moves, minus), minus));
  vstrbq_s8(weights, moved);
  *largest = vmaxaq_s8(*largest, moved);
  return w3;
}

ZO_NOINLINE static uint32_t single_8(zo_step_run* run) {
  /* The entry of two plus signs. */
  const int32_t coefficient = (int32_t)run->tables->pairs[0][0].first;
  mve_step step;
  step.whole = vdupq_n_u8((uint8_t)((uint32_t)coefficient >> 16));
  step.fraction = vdupq_n_u16((uint16_t)coefficient);
  uint32_t clipped = 0;
  uint32_t state = run->states[0], random = *run->rounding;
  int8_t* weights = run->weights;
  for (const int8_t* const end = weights + CHUNK * run->chunks; weights != end; weights += CHUNK) {
    state = zo_stream_next(state);
    uint8x16_t largest = vdupq_n_u8(0);
    random = move_16_mve(weights, state & 0xFFFFu, random, step, &largest);
    random = move_16_mve(weights + 16, state >> 16, random, step, &largest);
    if (vmaxvq_u8(0, largest) > (uint32_t)run->limit) clipped += zo_step_clip_8(weights, run->limit);
  }
  run->states[0] = state;
  *run->rounding = random;
  return clipped;
}

ZO_NOINLINE static uint32_t single_16(zo_step_run* run) { return run_vectors(run, 1, 1); }
ZO_NOINLINE static uint32_t quad_8(zo_step_run* run) { return run_vectors(run, 0, 0); }
ZO_NOINLINE static uint32_t quad_16(zo_step_run* run) { return run_vectors(run, 0, 1); }

uint32_t zo_step_run_mve(zo_step_run* run) {
  const zo_two_steps* entries = run->tables->pairs[0];
  if (run->count == 1u) {
    if (run->fraction != NULL) return single_16(run);
    /* A channel's factor may round both moves up. */
    if (entries[0].first == 0u - entries[2].first) return single_8(run);
  }
  return run->fraction != NULL ? quad_16(run) : quad_8(run);
}

#endif
