/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/weights/zo_perturb.h"

#include "ops/core/kernels/zo_add_gaussian.h"
#include "ops/core/kernels/zo_add_signs.h"
#include "ops/core/kernels/zo_weight_loops.h"
#include "ops/core/random/zo_draw.h"
#include "ops/core/weights/zo_biases.h"
#include "ops/core/zo_features.h"

#if ZO_WITH_COORDINATE
#include "ops/core/papers/zo_coordinate.h"
#endif

/* Not inlined into one another, so that in each loop the tables' addresses stay in registers. */
#if ZO_GNU_C
#define PERTURB_LOOP static __attribute__((noinline))
#else
#define PERTURB_LOOP static
#endif

/* Moves `words` times 32 weights by one term; returns the state that follows. */
PERTURB_LOOP uint32_t add_one(int8_t* weights, uint32_t words, uint32_t state, zo_signs signs) {
  for (const int8_t* const end = weights + 32u * words; weights != end; weights += 32) {
    state = zo_stream_next(state);
    zo_add_32_signs(weights, state, signs);
  }
  return state;
}

/* The same by two terms. */
PERTURB_LOOP void add_both(int8_t* weights, uint32_t words, uint32_t* states, zo_signs signs, zo_signs signs_2) {
  uint32_t state = states[0], state_2 = states[1];
  for (const int8_t* const end = weights + 32u * words; weights != end; weights += 32) {
    state = zo_stream_next(state);
    state_2 = zo_stream_next(state_2);
    zo_add_32_both(weights, state, signs, state_2, signs_2);
  }
  states[0] = state;
  states[1] = state_2;
}

/* One term, or two in one pass: their streams' states and deltas, which are not 0 modulo 256. */
static void perturb_rademacher(int8_t* weights, uint32_t count, uint32_t* states, const int32_t* deltas, int both) {
  uint32_t i = 0;
  /* Loops with a table are faster, not smaller. */
  if ((ZO_WITH_FAST_STEPS || ZO_SIGNS_WORDS == 1) && count >= 32u && zo_signs_fit(weights)) {
    const int differ = both && deltas[1] != deltas[0];
    uint32_t tables[2][ZO_SIGNS_WORDS];
    const zo_signs signs = zo_signs_of(deltas[0], tables[0]);
    if (both) {
      const zo_signs signs_2 = differ ? zo_signs_of(deltas[1], tables[1]) : signs;
      add_both(weights, count / 32u, states, signs, signs_2);
    } else {
      states[0] = add_one(weights, count / 32u, states[0], signs);
    }
    i = count / 32u * 32u;
  }
  for (; i < count; i += 32u) {
    const uint32_t left = count - i < 32u ? count - i : 32u;
    for (int t = 0; t <= both; ++t) {
      states[t] = zo_stream_next(states[t]);
      zo_add_signs(weights + i, left, states[t], deltas[t]);
    }
  }
}

#if ZO_ADD_GAUSSIAN
/* The first weights of a tile, as many as there are whole vectors of; returns how many. */
PERTURB_LOOP uint32_t perturb_by_table(int8_t* weights, uint32_t count, uint32_t* state, uint32_t mu, int32_t k) {
  uint8_t table[ZO_GAUSSIAN_BYTES];
  const uint32_t whole = count / ZO_GAUSSIAN_TOGETHER * ZO_GAUSSIAN_TOGETHER;
  uint32_t word = *state;
  zo_make_gaussian_table(table, mu, k);
  for (const int8_t* const end = weights + whole; weights != end; weights += ZO_GAUSSIAN_TOGETHER) {
    word = zo_add_16_gaussian(weights, word, table);
  }
  *state = word;
  return whole;
}
#endif

static void perturb_gaussian(int8_t* weights, uint32_t count, uint32_t state, uint32_t mu, int32_t k) {
#if ZO_ADD_GAUSSIAN
  if (count >= ZO_GAUSSIAN_MIN) {
    const uint32_t done = perturb_by_table(weights, count, &state, mu, k);
    weights += done;
    count -= done;
  }
#endif
  for (uint32_t i = 0; i < count; ++i) {
    if (i % 4u == 0) state = zo_stream_next(state);
    const int32_t z = zo_draw_gaussian(state, i % 4u);
    weights[i] = zo_add_modulo(weights[i], k * zo_gaussian_perturbation(z, mu));
  }
}

static void perturb_sparse_uniform(int8_t* weights, uint32_t count, uint32_t state, zo_distribution distribution,
                                   int32_t k) {
  for (uint32_t i = 0; i < count; ++i) {
    if (i % 2u == 0) state = zo_stream_next(state);
    const int32_t z = zo_draw_sparse_uniform(state, i % 2u, distribution.mu, distribution.p_zero);
    weights[i] = zo_add_modulo(weights[i], k * z);
  }
}

/* Rademacher. */
static void perturb_signs(const zo_tensor* tensor, uint32_t begin, uint32_t size, zo_distribution distribution,
                          const zo_perturb_terms* terms) {
  for (uint32_t t = 0; t < terms->count; t += ZO_TERMS_AT_ONCE) {
    const int both = ZO_TERMS_AT_ONCE > 1 && t + 1u < terms->count;
    uint32_t states[2];
    int32_t deltas[2];
    for (uint32_t i = 0; i < 1u + (uint32_t)both; ++i) {
      const zo_perturb_term term = terms->terms[t + i];
      const uint32_t key = zo_stream_key(term.seed, tensor->stream);
      states[i] = zo_stream_state(key, begin / ZO_STREAM_TILE);
      deltas[i] = term.k * (int32_t)distribution.mu;
    }
    perturb_rademacher(tensor->weights + begin, size, states, deltas, both);
  }
}

#if defined(ZO_PAIR_WORDS)
/* Whole tiles of words; `states` are those before the first one. */
PERTURB_LOOP void add_pair(int8_t* weights, uint32_t state, uint32_t state_2, zo_pair pair) {
  for (const int8_t* const end = weights + ZO_STREAM_TILE; weights != end; weights += 32) {
    state = zo_stream_next(state);
    state_2 = zo_stream_next(state_2);
    zo_add_32_pair(weights, state, state_2, pair);
  }
}

/* Two terms on the whole tiles of a tensor. Returns the number of weights. */
PERTURB_LOOP uint32_t perturb_pair(const zo_tensor* tensor, uint32_t mu, const zo_perturb_term* terms) {
  const uint32_t tiles = tensor->size / ZO_STREAM_TILE;
  uint32_t tables[2][ZO_SIGNS_WORDS], table[ZO_PAIR_WORDS];
  const zo_signs signs = zo_signs_of(terms[0].k * (int32_t)mu, tables[0]);
  const zo_signs signs_2 = zo_signs_of(terms[1].k * (int32_t)mu, tables[1]);
  const zo_pair pair = zo_pair_of(signs, signs_2, table);
  const uint32_t key = zo_stream_key(terms[0].seed, tensor->stream);
  const uint32_t key_2 = zo_stream_key(terms[1].seed, tensor->stream);
  for (uint32_t tile = 0; tile < tiles; ++tile) {
    add_pair(tensor->weights + tile * ZO_STREAM_TILE, zo_stream_state(key, tile), zo_stream_state(key_2, tile), pair);
  }
  return tiles * ZO_STREAM_TILE;
}
#endif

void zo_perturb_tile_s8(const zo_tensor* tensor, uint32_t begin, uint32_t size, zo_distribution distribution,
                        const zo_perturb_terms* terms) {
  if (zo_is_rademacher(distribution) && !zo_is_of_biases(tensor)) {
    perturb_signs(tensor, begin, size, distribution, terms);
    return;
  }
  for (uint32_t t = 0; t < terms->count; ++t) {
    const zo_perturb_term term = terms->terms[t];
    const uint32_t key = zo_stream_key(term.seed, tensor->stream);
    const uint32_t state = zo_stream_state(key, begin / ZO_STREAM_TILE);
    if (zo_is_of_biases(tensor)) {
      zo_perturb_biases(zo_biases_of(tensor) + begin, size, state, distribution, term.k);
    } else if (zo_is_gaussian(distribution)) {
      perturb_gaussian(tensor->weights + begin, size, state, distribution.mu, term.k);
    } else {
      perturb_sparse_uniform(tensor->weights + begin, size, state, distribution, term.k);
    }
  }
}

zo_status zo_perturb_check(zo_distribution distribution, const zo_perturb_terms* terms) {
  const zo_status status = zo_distribution_check(distribution);
  if (status != ZO_OK) return status;
  if (terms->count > ZO_MAX_TERMS) return ZO_ERROR_QUERIES;
  if (terms->count > 0u && terms->terms == NULL) return ZO_ERROR_ARGUMENT;
  for (uint32_t t = 0; t < terms->count; ++t) {
    if (!zo_factor_allowed(terms->terms[t].k)) return ZO_ERROR_FACTOR;
  }
  return ZO_OK;
}

zo_status zo_perturb_s8(const zo_tensor* tensor, zo_distribution distribution, const zo_perturb_terms* terms) {
#if ZO_WITH_CHECKS
  if (tensor == NULL || tensor->weights == NULL || tensor->size == 0 || terms == NULL || terms->count == 0 ||
      !zo_tensor_is_supported(tensor)) {
    return ZO_ERROR_ARGUMENT;
  }
  if (zo_is_of_biases(tensor) && !zo_are_biases(tensor)) return ZO_ERROR_ARGUMENT;
  const zo_status status = zo_perturb_check(distribution, terms);
  if (status != ZO_OK) return status;
#endif
#if ZO_WITH_COORDINATE
  if (zo_is_coordinate(distribution)) {
    zo_perturb_coordinates_s8(tensor, distribution, terms);
    return ZO_OK;
  }
#endif
#if ZO_KERNEL_SETS
  const zo_weight_loops* loops = zo_weight_loops_of_machine();
  if (loops != NULL && zo_loops_perturb(loops, tensor, distribution, terms)) return ZO_OK;
#endif
  uint32_t begin = 0;
#if defined(ZO_PAIR_WORDS)
  if (terms->count == 2u && zo_is_rademacher(distribution) && !zo_is_of_biases(tensor) &&
      tensor->size >= 2u * ZO_STREAM_TILE && zo_signs_fit(tensor->weights)) {
    begin = perturb_pair(tensor, distribution.mu, terms->terms);
  }
#endif
  const uint32_t values = zo_values(tensor);
  for (; begin < values; begin += ZO_STREAM_TILE) {
    const uint32_t left = values - begin;
    const uint32_t size = left < ZO_STREAM_TILE ? left : ZO_STREAM_TILE;
    zo_perturb_tile_s8(tensor, begin, size, distribution, terms);
  }
  return ZO_OK;
}
