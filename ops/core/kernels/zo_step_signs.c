/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/kernels/zo_step_signs.h"

#if ZO_STEP_SIGNS

#include <arm_acle.h>
#include <string.h>

#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_stream.h"

#define CHUNK ZO_STEP_SIGNS_CHUNK

/* Sum of |coefficients| that moves no weight by more than 127 LSB after rounding. */
#define MOVE_MAX (INT32_C(127) << ZO_COEFFICIENT_BITS)

/* A loop for each kind of step is faster, one for all is smaller. */
#if defined(__OPTIMIZE_SIZE__)
#define LOOPS_FOR_EACH 0
#else
#define LOOPS_FOR_EACH 1
#endif

/* Called where a constant chooses the kind of loop. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* Its tables' addresses stay in registers. */
#define NOINLINE static __attribute__((noinline))

/* What a loop gets. */
typedef struct step_run {
  int8_t* weights;
  int8_t* fraction;
  uint32_t chunks;
  int32_t limit;
  uint32_t count; /* of queries */
  uint32_t* states;
  uint32_t* rounding;
  const zo_step_tables* tables;
} step_run;

/* --- tables -------------------------------------------------------------------- */

/* Of a query: both signs of two weights. */
typedef struct four_signs {
  zo_two_steps of[4];
} four_signs;

/* Written out: of the loop over bits GCC 12 makes vectors with wrong constants for Cortex-M55. */
static void set_signs(four_signs* signs, uint32_t step, uint32_t bias) {
  const zo_two_steps both = {bias + step, bias + step};
  const zo_two_steps first_minus = {bias - step, bias + step};
  const zo_two_steps second_minus = {bias + step, bias - step};
  const zo_two_steps both_minus = {bias - step, bias - step};
  signs->of[0] = both;
  signs->of[1] = first_minus;
  signs->of[2] = second_minus;
  signs->of[3] = both_minus;
}

/* `unit` and `bias` make 8-bit steps (1, 0), or 16-bit ones. */
NOINLINE void make_tables(zo_step_tables* tables, const zo_query* queries, uint32_t count,
                          uint32_t unit, uint32_t bias) {
  const int is_single = LOOPS_FOR_EACH && count == 1u;
  zo_two_steps* sums = tables->steps.pairs[0];
  for (uint32_t q = 0; q < count; q += 2u, bias = 0) {
    four_signs one, other;
    set_signs(&one, (uint32_t)queries[q].coefficient * unit, bias);
    set_signs(&other, q + 1u < count ? (uint32_t)queries[q + 1u].coefficient * unit : 0u, 0);
    for (uint32_t bits = 0; bits < 16u; ++bits) {
      const zo_two_steps a = one.of[bits & 3u];
      const zo_two_steps b = is_single ? one.of[bits >> 2] : other.of[bits >> 2];
      sums[0].first = is_single ? a.first : a.first + b.first;
      sums[0].second = is_single ? a.second : a.second + b.second;
      if (is_single) *++sums = b;
      ++sums;
    }
  }
}

/* --- four weights ----------------------------------------------------------- */

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

/* Two loads for the steps of four weights: side by side, or of two and two. */
static inline four_steps load_four(const zo_two_steps* at) {
  four_steps f;
  __asm__("ldrd %0, %1, [%4]\n\tldrd %2, %3, [%4, #8]"
          : "=&r"(f.s0), "=&r"(f.s1), "=&r"(f.s2), "=&r"(f.s3)
          : "r"(at), "m"(at[0]), "m"(at[1]));
  return f;
}

static inline four_steps load_two_and_two(const zo_two_steps* at, const zo_two_steps* other) {
  four_steps f;
  __asm__("ldrd %0, %1, [%2]" : "=r"(f.s0), "=r"(f.s1) : "r"(at), "m"(*at));
  __asm__("ldrd %0, %1, [%2]" : "=r"(f.s2), "=r"(f.s3) : "r"(other), "m"(*other));
  return f;
}

/* From the table that follows, 16 entries on. */
static inline four_steps load_from_next_table(const zo_two_steps* at, const zo_two_steps* other) {
  four_steps f;
  __asm__("ldrd %0, %1, [%2, #128]" : "=r"(f.s0), "=r"(f.s1) : "r"(at), "m"(at[16]));
  __asm__("ldrd %0, %1, [%2, #128]" : "=r"(f.s2), "=r"(f.s3) : "r"(other), "m"(other[16]));
  return f;
}

static inline void store_four(zo_two_steps* at, four_steps f) {
  at[0].first = f.s0;
  at[0].second = f.s1;
  at[1].first = f.s2;
  at[1].second = f.s3;
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

/* Moves four weights; not 0 where one of them is beyond the limit, which has it in every byte. */
static inline uint32_t move_8(int8_t* weights, four_steps f, uint32_t limit) {
  const uint32_t moves = interleave(high_halves(f.s2, f.s0), high_halves(f.s3, f.s1));
  /* What saturates at 127 or -128 is beyond the limit, too, which is 126 at most. */
  const uint32_t moved = add_8_saturated(load_4(weights), moves);
  store_4(weights, moved);
  return __uqsub8(__uadd8(moved, limit), 2u * limit);
}

/* The same with fractions; the limit in both halves. */
static inline uint32_t move_16(int8_t* weights, int8_t* fraction, four_steps f, uint32_t limit) {
  const uint32_t w = load_4(weights), r = load_4(fraction);
  const uint32_t turned = r >> 8 | r << 24;
  uint32_t even = add_16_saturated(__uxtb16(w) << 8, signed_bytes_0_2(r));
  uint32_t odd = add_16_saturated(w & UINT32_C(0xFF00FF00), signed_bytes_0_2(turned));
  even = add_16_saturated(even, high_halves(f.s2, f.s0));
  odd = add_16_saturated(odd, high_halves(f.s3, f.s1));
  const uint32_t outside =
      __uqsub16(__uadd16(even, limit), 2u * limit) | __uqsub16(__uadd16(odd, limit), 2u * limit);
  store_4(fraction, interleave(even, odd));
  /* Saturated: what is beyond the limit stays so for the clipping that follows. */
  even = add_16_saturated(even, UINT32_C(0x00800080));
  odd = add_16_saturated(odd, UINT32_C(0x00800080));
  store_4(weights, __uxtb16(even >> 8 | even << 24) | (odd & UINT32_C(0xFF00FF00)));
  return outside;
}

/* --- what has left the limit -------------------------------------------------- */

NOINLINE uint32_t clip_8(int8_t* weights, int32_t limit) {
  uint32_t clipped = 0;
  if (!LOOPS_FOR_EACH || limit < 64) { /* the lanes below are signed */
    for (uint32_t j = 0; j < CHUNK; ++j) {
      const int32_t inside = zo_clamp(weights[j], -limit, limit);
      clipped += (uint32_t)(inside != weights[j]);
      weights[j] = (int8_t)inside;
    }
    return clipped;
  }
  const uint32_t each = UINT32_C(0x01010101);
  const uint32_t up = each * (uint32_t)(127 - limit), down = each * (uint32_t)(255 - 2 * limit);
  const uint32_t back = each * (uint32_t)(128 - limit);
  for (uint32_t j = 0; j < CHUNK; j += 4u) {
    const uint32_t before = load_4(weights + j);
    /* Saturated with 127 - limit added, then with 128 - limit subtracted from what it was. */
    const uint32_t raised = add_8_saturated(before, up);
    const uint32_t lowered = (uint32_t)__qsub8((int8x4_t)raised, (int8x4_t)down);
    const uint32_t inside = add_8_saturated(lowered, back);
    uint32_t changed = inside ^ before;
    if (changed == 0u) continue;
    store_4(weights + j, inside);
    for (; changed != 0u; changed >>= 8) clipped += (uint32_t)((changed & 0xFFu) != 0u);
  }
  return clipped;
}

NOINLINE uint32_t clip_16(int8_t* weights, int8_t* fraction, int32_t limit) {
  uint32_t clipped = 0;
  for (uint32_t j = 0; j < CHUNK; ++j) {
    const int32_t value = 256 * weights[j] + fraction[j];
    if (value >= -256 * limit && value <= 256 * limit) continue;
    ++clipped;
    weights[j] = (int8_t)(value < 0 ? -limit : limit);
    fraction[j] = 0;
  }
  return clipped;
}

/* --- chunks --------------------------------------------------------------------- */

/* Four bits for two weights each: of weights 4 k and 4 k + 1 in nibble k of the first, of 4 k + 2
 * and 4 k + 3 in that of the second. */
typedef struct paired_signs {
  uint32_t first;
  uint32_t second;
} paired_signs;

static inline paired_signs pair_of(uint32_t word, uint32_t other) {
  const uint32_t low = UINT32_C(0x33333333);
  paired_signs p;
  p.first = (word & low) | (other & low) << 2;
  p.second = (word >> 2 & low) | (other & ~low);
  return p;
}

static inline paired_signs next_pair(const step_run* run, uint32_t q) {
  const uint32_t word = zo_stream_next(run->states[q]);
  run->states[q] = word;
  uint32_t other = 0;
  if (q + 1u < run->count) other = run->states[q + 1u] = zo_stream_next(run->states[q + 1u]);
  return pair_of(word, other);
}

/* The steps of a chunk: those of the first pair of queries, */
NOINLINE void set_pair(zo_two_steps* steps, paired_signs p, const zo_two_steps* sums) {
  for (const zo_two_steps* const end = steps + CHUNK / 2u; steps != end; steps += 2) {
    store_four(steps, load_two_and_two(sums + (p.first & 15u), sums + (p.second & 15u)));
    p.first >>= 4;
    p.second >>= 4;
  }
}

/* and those of others. */
NOINLINE void add_pair(zo_two_steps* steps, paired_signs p, const zo_two_steps* sums) {
  for (const zo_two_steps* const end = steps + CHUNK / 2u; steps != end; steps += 2) {
    const four_steps f = load_two_and_two(sums + (p.first & 15u), sums + (p.second & 15u));
    store_four(steps, add_four(load_four(steps), f));
    p.first >>= 4;
    p.second >>= 4;
  }
}

/* The loops: of one query; of two; of three or four; of any number, whose steps are summed up
 * first. */
enum { kSingle = 1, kPair = 2, kQuad = 3, kAny = 4 };

/* What a loop has in registers. */
typedef struct loop_state {
  int8_t* weights;
  int8_t* fraction;
  uint32_t limit; /* in every lane */
  uint32_t random;
  uint32_t outside;
  paired_signs signs;
  paired_signs more;         /* of the third and fourth query */
  const zo_two_steps* steps; /* that the signs index, or those of a chunk */
} loop_state;

/* Moves the four weights of nibble k. */
ALWAYS_INLINE void move_four(loop_state* l, uint32_t k, int kind, int wide) {
  const uint32_t bits = l->signs.first >> 4u * k & 15u;
  four_steps f;
  if (kind == kSingle) {
    f = load_four(l->steps + 2u * bits);
  } else if (kind != kAny) {
    f = load_two_and_two(l->steps + bits, l->steps + (l->signs.second >> 4u * k & 15u));
    if (kind == kQuad) {
      f = add_four(f, load_from_next_table(l->steps + (l->more.first >> 4u * k & 15u),
                                           l->steps + (l->more.second >> 4u * k & 15u)));
    }
  } else {
    f = load_four(l->steps);
    l->steps += 2;
  }
  if (wide) {
    l->outside |= move_16(l->weights, l->fraction, f, l->limit);
    l->fraction += 4;
  } else {
    l->random = zo_stream_next(l->random);
    l->outside |= move_8(l->weights, add_rounding(f, l->random), l->limit);
  }
  l->weights += 4;
  /* The next four begin here: mixed with these they do not fit the registers. */
  __asm__ volatile("" : "+r"(l->signs.first), "+r"(l->outside) : : "memory");
  if (kind == kPair || kind == kQuad) __asm__ volatile("" : "+r"(l->signs.second));
  if (kind == kQuad) __asm__ volatile("" : "+r"(l->more.first), "+r"(l->more.second));
}

/* `fours`: 1, 2, 4 or 8 times four weights are moved without a jump. */
ALWAYS_INLINE uint32_t run_loop(const step_run* run, int kind, int wide, uint32_t fours) {
  zo_two_steps steps[CHUNK / 2u];
  uint32_t clipped = 0;
  loop_state l;
  l.weights = run->weights;
  l.fraction = run->fraction;
  l.limit = (uint32_t)run->limit * (wide ? UINT32_C(0x01000100) : UINT32_C(0x01010101));
  l.random = *run->rounding;
  l.steps = run->tables->steps.pairs[0];
  l.signs.first = l.signs.second = l.more.first = l.more.second = 0;
  uint32_t state = run->states[0];
  for (const int8_t* const end = l.weights + CHUNK * run->chunks; l.weights != end;) {
    if (kind == kSingle) {
      l.signs.first = state = zo_stream_next(state);
    } else if (kind != kAny) {
      l.signs = next_pair(run, 0);
      if (kind == kQuad) l.more = next_pair(run, 2);
    } else {
      set_pair(steps, next_pair(run, 0), run->tables->steps.pairs[0]);
      for (uint32_t q = 2; q < run->count; q += 2u) {
        add_pair(steps, next_pair(run, q), run->tables->steps.pairs[q / 2u]);
      }
      l.steps = steps;
    }
    l.outside = 0;
    for (const int8_t* const chunk_end = l.weights + CHUNK; l.weights != chunk_end;) {
      move_four(&l, 0, kind, wide);
      if (fours > 1u) move_four(&l, 1, kind, wide);
      if (fours > 2u) move_four(&l, 2, kind, wide);
      if (fours > 2u) move_four(&l, 3, kind, wide);
      if (fours > 4u) {
        move_four(&l, 4, kind, wide);
        move_four(&l, 5, kind, wide);
        move_four(&l, 6, kind, wide);
        move_four(&l, 7, kind, wide);
        break;
      }
      l.signs.first >>= 4u * fours;
      l.signs.second >>= 4u * fours;
      l.more.first >>= 4u * fours;
      l.more.second >>= 4u * fours;
    }
    if (l.outside != 0u) {
      clipped += wide ? clip_16(l.weights - CHUNK, l.fraction - CHUNK, run->limit)
                      : clip_8(l.weights - CHUNK, run->limit);
    }
  }
  if (kind == kSingle) run->states[0] = state;
  *run->rounding = l.random;
  return clipped;
}

/* --- one query with vectors ------------------------------------------------------ */

#if LOOPS_FOR_EACH && defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1)
#include <arm_mve.h>

/* What all vectors of a run need of its coefficient c. */
typedef struct mve_step {
  uint8x16_t whole;    /* floor(c / 2^16) */
  uint16x8_t fraction; /* the rest */
} mve_step;

/* Moves 16 weights. Where the sign is minus, floor((r - c) / 2^16) = -floor((~r + c) / 2^16), all
 * 16 bits of r turned over: so every weight moves by +-(whole + carry of fraction + r). */
ALWAYS_INLINE uint32_t move_16_mve(int8_t* weights, uint32_t signs, uint32_t random, mve_step step,
                                   uint8x16_t* largest) {
  const uint32_t w0 = zo_stream_next(random), w1 = zo_stream_next(w0);
  const uint32_t w2 = zo_stream_next(w1), w3 = zo_stream_next(w2);
  /* Halves of words are for even weights, those of words turned by a byte for odd ones. */
  /* Not vcreateq_u32(), whose halves GCC 12 swaps. */
  const uint32x4_t words = {w0, w1, w2, w3};
  const uint32x4_t turned = vsliq_n_u32(vshrq_n_u32(words, 8), words, 24);
  const int8x16_t minus = vpselq_s8(vdupq_n_s8(-1), vdupq_n_s8(0), (mve_pred16_t)signs);
  uint16x8_t even =
      veorq_u16(vreinterpretq_u16_u32(words), vreinterpretq_u16_s16(vmovlbq_s8(minus)));
  uint16x8_t odd =
      veorq_u16(vreinterpretq_u16_u32(turned), vreinterpretq_u16_s16(vmovltq_s8(minus)));
  even = vshrq_n_u16(vhaddq_u16(even, step.fraction), 15);
  odd = vshrq_n_u16(vhaddq_u16(odd, step.fraction), 15);
  const uint8x16_t carries = vreinterpretq_u8_u16(vsliq_n_u16(even, odd, 8));
  const int8x16_t moves = vreinterpretq_s8_u8(vaddq_u8(carries, step.whole));
  const int8x16_t moved = vqaddq_s8(vldrbq_s8(weights), vsubq_s8(veorq_s8(moves, minus), minus));
  vstrbq_s8(weights, moved);
  *largest = vmaxaq_s8(*largest, moved);
  return w3;
}

NOINLINE uint32_t single_8(const step_run* run) {
  /* The entry of two plus signs. */
  const int32_t coefficient = (int32_t)run->tables->steps.pairs[0][0].first;
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
    if (vmaxvq_u8(0, largest) > (uint32_t)run->limit) clipped += clip_8(weights, run->limit);
  }
  run->states[0] = state;
  *run->rounding = random;
  return clipped;
}

#elif LOOPS_FOR_EACH
NOINLINE uint32_t single_8(const step_run* run) { return run_loop(run, kSingle, 0, 8); }
#endif

#if LOOPS_FOR_EACH
NOINLINE uint32_t pair_8(const step_run* run) { return run_loop(run, kPair, 0, 4); }
NOINLINE uint32_t quad_8(const step_run* run) { return run_loop(run, kQuad, 0, 8); }
NOINLINE uint32_t any_8(const step_run* run) { return run_loop(run, kAny, 0, 2); }
NOINLINE uint32_t single_16(const step_run* run) { return run_loop(run, kSingle, 1, 2); }
NOINLINE uint32_t pair_16(const step_run* run) { return run_loop(run, kPair, 1, 2); }
NOINLINE uint32_t any_16(const step_run* run) { return run_loop(run, kAny, 1, 2); }

static uint32_t run_step(const step_run* run, int wide) {
  if (run->count == 1u) return wide ? single_16(run) : single_8(run);
  if (run->count == 2u) return wide ? pair_16(run) : pair_8(run);
  if (run->count <= 4u && !wide) return quad_8(run);
  return wide ? any_16(run) : any_8(run);
}
#else
NOINLINE uint32_t any_8(const step_run* run) { return run_loop(run, kAny, 0, 1); }
NOINLINE uint32_t any_16(const step_run* run) { return run_loop(run, kAny, 1, 1); }

static uint32_t run_step(const step_run* run, int wide) { return wide ? any_16(run) : any_8(run); }
#endif

uint32_t zo_step_signs(const zo_step_tables* tables, const zo_tensor* tensor, uint32_t begin,
                       uint32_t chunks, uint32_t count, uint32_t* states, uint32_t* rounding) {
  const int wide = tensor->fraction != NULL;
  step_run run;
  run.weights = tensor->weights + begin;
  run.fraction = wide ? tensor->fraction + begin : NULL;
  run.chunks = chunks;
  run.limit = tensor->limit;
  run.count = count;
  run.states = states;
  run.rounding = rounding;
  run.tables = tables;
  return run_step(&run, wide);
}

int zo_step_signs_fit(zo_step_tables* tables, const zo_tensor* tensor, uint32_t begin,
                      uint32_t size, const zo_query* queries, uint32_t count) {
  if (tensor->multiplier != NULL || tensor->mask != NULL || tensor->limit > 126 ||
      count > ZO_STEP_SIGNS_QUERIES || size < CHUNK) {
    return 0;
  }
  const int wide = tensor->fraction != NULL;
  if (tables->queries != queries) {
    tables->queries = queries;
    tables->sum = 0; /* within 2^30: zo_step_check */
    for (uint32_t q = 0; q < count; ++q) {
      const int32_t coefficient = queries[q].coefficient;
      tables->sum += coefficient < 0 ? -coefficient : coefficient;
    }
    /* W moves by floor((step + 128) / 2^8): the high half of (step + 128) 2^8. */
    make_tables(tables, queries, count, wide ? 256u : 1u, wide ? 128u * 256u : 0u);
  }
  if (tables->sum > MOVE_MAX) return 0;
  /* 256 w + fraction is beyond 16 bits for w = -128 alone, which saturates; the difference does
   * not count where such a weight stays beyond the limit anyway. */
  if (!wide || tables->sum < (128 - tensor->limit) * (INT32_C(1) << ZO_COEFFICIENT_BITS) - 256) {
    return 1;
  }
  for (uint32_t i = begin; i < begin + size; ++i) {
    if (tensor->weights[i] == -128) return 0;
  }
  return 1;
}

#endif
