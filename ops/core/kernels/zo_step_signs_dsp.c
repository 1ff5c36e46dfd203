/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The loops of zo_step_signs.h with the DSP extension. */
#include "ops/core/kernels/zo_step_run.h"

#if ZO_STEP_SIGNS

#include "ops/core/kernels/zo_dsp_lanes.h"
#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_stream.h"

#define CHUNK ZO_STEP_SIGNS_CHUNK

/* The steps of four weights, in entries of the tables: of two and two, */
static inline four_steps load_two_and_two(const zo_two_steps* at, const zo_two_steps* other) {
  four_steps f;
  __asm__("ldrd %0, %1, [%2]" : "=r"(f.s0), "=r"(f.s1) : "r"(at), "m"(*at));
  __asm__("ldrd %0, %1, [%2]" : "=r"(f.s2), "=r"(f.s3) : "r"(other), "m"(*other));
  return f;
}

/* from the table that follows, 16 entries on, */
static inline four_steps load_from_next_table(const zo_two_steps* at, const zo_two_steps* other) {
  four_steps f;
  __asm__("ldrd %0, %1, [%2, #128]" : "=r"(f.s0), "=r"(f.s1) : "r"(at), "m"(at[16]));
  __asm__("ldrd %0, %1, [%2, #128]" : "=r"(f.s2), "=r"(f.s3) : "r"(other), "m"(other[16]));
  return f;
}

/* and side by side. */
static inline four_steps load_entries(const zo_two_steps* at) { return load_four(&at->first); }

static inline zo_two_steps load_entry(const zo_two_steps* at) {
  zo_two_steps s;
  __asm__("ldrd %0, %1, [%2]" : "=r"(s.first), "=r"(s.second) : "r"(at), "m"(*at));
  return s;
}

static inline void store_entries(zo_two_steps* at, four_steps f) {
  at[0].first = f.s0;
  at[0].second = f.s1;
  at[1].first = f.s2;
  at[1].second = f.s3;
}

/* Moves four weights; not 0 if one of them is beyond the limit, which has it in every byte. */
static inline uint32_t move_8(int8_t* weights, four_steps f, uint32_t limit) {
  /* Values that saturate at 127 or -128 are beyond the limit, too, which is 126 at most. */
  const uint32_t moved = add_8_saturated(load_4(weights), whole_parts(f));
  store_4(weights, moved);
  return __uqsub8(__uadd8(moved, limit), 2u * limit);
}

/* The same with fractions; the moves of weights 0 and 2, and of 1 and 3, the limit in both halves.
 */
static inline uint32_t move_16(int8_t* weights, int8_t* fraction, uint32_t even, uint32_t odd, uint32_t limit) {
  const four_values v = move_four_values(weights, fraction, even, odd);
  store_four_values(weights, fraction, v);
  return beyond_limit(v, limit);
}

/* --- Weights beyond the limit ------------------------------------------------- */

ZO_NOINLINE uint32_t zo_step_clip_8(int8_t* weights, int32_t limit) {
  uint32_t clipped = 0;
  if (!ZO_LOOPS_FOR_EACH || limit < 64) { /* the lanes below are signed */
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
    /* Clips by saturation: + (127 - limit), - (255 - 2 limit), + (128 - limit). */
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

ZO_NOINLINE uint32_t zo_step_clip_16(int8_t* weights, int8_t* fraction, int32_t limit) {
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

static inline paired_signs next_pair(zo_step_run* run, uint32_t q) {
  const uint32_t word = zo_stream_next(run->states[q]);
  run->states[q] = word;
  uint32_t other = 0;
  if (q + 1u < run->count) other = run->states[q + 1u] = zo_stream_next(run->states[q + 1u]);
  return pair_of(word, other);
}

/* The steps of a chunk: those of the first pair of queries, */
ZO_NOINLINE static void set_pair(zo_two_steps* steps, paired_signs p, const zo_two_steps* sums) {
  for (const zo_two_steps* const end = steps + CHUNK / 2u; steps != end; steps += 2) {
    store_entries(steps, load_two_and_two(sums + (p.first & 15u), sums + (p.second & 15u)));
    p.first >>= 4;
    p.second >>= 4;
  }
}

static inline four_steps add_four(four_steps a, four_steps b) {
  a.s0 += b.s0;
  a.s1 += b.s1;
  a.s2 += b.s2;
  a.s3 += b.s3;
  return a;
}

/* and those of others. */
ZO_NOINLINE static void add_two_steps(zo_two_steps* steps, paired_signs p, const zo_two_steps* sums) {
  for (const zo_two_steps* const end = steps + CHUNK / 2u; steps != end; steps += 2) {
    const four_steps f = load_two_and_two(sums + (p.first & 15u), sums + (p.second & 15u));
    store_entries(steps, add_four(load_entries(steps), f));
    p.first >>= 4;
    p.second >>= 4;
  }
}

/* The loops: of one query; of two; of three or four; of any number, whose steps are summed up
 * first. */
enum { kSingle = 1, kPair = 2, kQuad = 3, kAny = 4 };

/* The registers of a loop. */
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
ZO_ALWAYS_INLINE void move_four(loop_state* l, uint32_t k, int kind, int has_fraction) {
  const uint32_t bits = l->signs.first >> 4u * k & 15u;
  four_steps f = {0, 0, 0, 0};
  zo_two_steps moves = {0, 0};
  if (kind == kSingle && has_fraction) {
    moves = load_entry(l->steps + bits);
  } else if (kind == kSingle) {
    f = load_entries(l->steps + 2u * bits);
  } else if (kind != kAny) {
    f = load_two_and_two(l->steps + bits, l->steps + (l->signs.second >> 4u * k & 15u));
    if (kind == kQuad) {
      f = add_four(f, load_from_next_table(l->steps + (l->more.first >> 4u * k & 15u),
                                           l->steps + (l->more.second >> 4u * k & 15u)));
    }
  } else {
    f = load_entries(l->steps);
    l->steps += 2;
  }
  if (has_fraction) {
    if (kind != kSingle) {
      moves.first = high_halves(f.s2, f.s0);
      moves.second = high_halves(f.s3, f.s1);
    }
    l->outside |= move_16(l->weights, l->fraction, moves.first, moves.second, l->limit);
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
ZO_ALWAYS_INLINE uint32_t run_loop(zo_step_run* run, int kind, int has_fraction, uint32_t fours) {
  zo_two_steps steps[CHUNK / 2u];
  uint32_t clipped = 0;
  loop_state l;
  l.weights = run->weights;
  l.fraction = run->fraction;
  l.limit = (uint32_t)run->limit * (has_fraction ? UINT32_C(0x01000100) : UINT32_C(0x01010101));
  l.random = *run->rounding;
  l.steps = run->tables->pairs[0];
  l.signs.second = l.more.first = l.more.second = 0;
  l.signs.first = run->states[0]; /* of a single query, which is done without shifts */
  for (const int8_t* const end = l.weights + CHUNK * run->chunks; l.weights != end;) {
    if (kind == kSingle) {
      l.signs.first = zo_stream_next(l.signs.first);
    } else if (kind != kAny) {
      l.signs = next_pair(run, 0);
      if (kind == kQuad) l.more = next_pair(run, 2);
    } else {
      set_pair(steps, next_pair(run, 0), run->tables->pairs[0]);
      for (uint32_t q = 2; q < run->count; q += 2u) {
        add_two_steps(steps, next_pair(run, q), run->tables->pairs[q / 2u]);
      }
      l.steps = steps;
    }
    l.outside = 0;
    for (const int8_t* const chunk_end = l.weights + CHUNK; l.weights != chunk_end;) {
      move_four(&l, 0, kind, has_fraction);
      if (fours > 1u) move_four(&l, 1, kind, has_fraction);
      if (fours > 2u) move_four(&l, 2, kind, has_fraction);
      if (fours > 2u) move_four(&l, 3, kind, has_fraction);
      if (fours > 4u) {
        move_four(&l, 4, kind, has_fraction);
        move_four(&l, 5, kind, has_fraction);
        move_four(&l, 6, kind, has_fraction);
        move_four(&l, 7, kind, has_fraction);
        break;
      }
      l.signs.first >>= 4u * fours;
      l.signs.second >>= 4u * fours;
      l.more.first >>= 4u * fours;
      l.more.second >>= 4u * fours;
    }
    if (l.outside != 0u) {
      clipped += has_fraction ? zo_step_clip_16(l.weights - CHUNK, l.fraction - CHUNK, run->limit)
                              : zo_step_clip_8(l.weights - CHUNK, run->limit);
    }
  }
  if (kind == kSingle) run->states[0] = l.signs.first;
  *run->rounding = l.random;
  return clipped;
}

/* --- which loop ---- */

#if ZO_STEP_VECTORS
ZO_NOINLINE static uint32_t any_8(zo_step_run* run) { return run_loop(run, kAny, 0, 2); }
ZO_NOINLINE static uint32_t any_16(zo_step_run* run) { return run_loop(run, kAny, 1, 2); }

static uint32_t step_run(zo_step_run* run, int has_fraction) {
  if (run->count <= 4u) return zo_step_run_mve(run);
  return has_fraction ? any_16(run) : any_8(run);
}
#elif ZO_LOOPS_FOR_EACH
ZO_NOINLINE static uint32_t single_8(zo_step_run* run) { return run_loop(run, kSingle, 0, 8); }
ZO_NOINLINE static uint32_t pair_8(zo_step_run* run) { return run_loop(run, kPair, 0, 4); }
ZO_NOINLINE static uint32_t quad_8(zo_step_run* run) { return run_loop(run, kQuad, 0, 8); }
ZO_NOINLINE static uint32_t any_8(zo_step_run* run) { return run_loop(run, kAny, 0, 2); }
ZO_NOINLINE static uint32_t single_16(zo_step_run* run) { return run_loop(run, kSingle, 1, 8); }
ZO_NOINLINE static uint32_t pair_16(zo_step_run* run) { return run_loop(run, kPair, 1, 2); }
ZO_NOINLINE static uint32_t any_16(zo_step_run* run) { return run_loop(run, kAny, 1, 2); }

static uint32_t step_run(zo_step_run* run, int has_fraction) {
  if (run->count == 1u) return has_fraction ? single_16(run) : single_8(run);
  if (run->count <= 2u) return has_fraction ? pair_16(run) : pair_8(run);
  if (run->count <= 4u && !has_fraction) return quad_8(run);
  return has_fraction ? any_16(run) : any_8(run);
}
#else
ZO_NOINLINE static uint32_t any_8(zo_step_run* run) { return run_loop(run, kAny, 0, 1); }
ZO_NOINLINE static uint32_t any_16(zo_step_run* run) { return run_loop(run, kAny, 1, 1); }

static uint32_t step_run(zo_step_run* run, int has_fraction) { return has_fraction ? any_16(run) : any_8(run); }
#endif

uint32_t zo_step_signs(const zo_step_tables* tables, const zo_tensor* tensor, uint32_t begin, uint32_t chunks,
                       uint32_t count, uint32_t* states, uint32_t* rounding) {
  const int has_fraction = tensor->fraction != NULL;
  zo_step_run run;
  run.weights = tensor->weights + begin;
  run.fraction = has_fraction ? tensor->fraction + begin : NULL;
  run.chunks = chunks;
  run.limit = tensor->limit;
  run.count = count;
  run.states = states;
  run.rounding = rounding;
  run.tables = tables;
  return step_run(&run, has_fraction);
}

#endif
