/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_weights.h"

#include <string.h>

#include "ops/core/kernels/zo_replay_tile.h"
#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_draw.h"
#include "ops/kernels/zo_kernel_set.h"

enum { kTile = ZO_STREAM_TILE, kSignWords = kTile / 32 * kZoSigns };

const zo_weight_loops* zo_weight_loops_of_machine(void) { return zo_kernel_set_of(NULL)->weights; }

static uint32_t tile_size(const zo_tensor* tensor, uint32_t begin) {
  return tensor->size - begin < kTile ? tensor->size - begin : kTile;
}

static uint32_t state_of(uint32_t seed, uint32_t stream, uint32_t begin) {
  return zo_stream_state(zo_stream_key(seed, stream), begin / kTile);
}

/* --- Weights that are no multiple of a loop's size -------------------------------------------- */

static uint32_t padded(uint32_t count) { return (count + kZoWeights - 1u) / kZoWeights * kZoWeights; }

/* Where loops find the weights: they themselves, or a copy that zeros follow. */
static int8_t* enter(int8_t* copy, int8_t* weights, uint32_t count) {
  if (count % kZoWeights == 0u) return weights;
  memcpy(copy, weights, count);
  memset(copy + count, 0, padded(count) - count);
  return copy;
}

static void leave(int8_t* weights, const int8_t* copy, uint32_t count) {
  if (weights != copy) memcpy(weights, copy, count);
}

/* --- Signs ----------------------------------------------------------------------------------- */

/* The words of signs of a walk over tiles, and over steps on each, drawn for as many steps to come
 * as there are streams to be drawn together. */
typedef struct sign_walk {
  const zo_weight_loops* loops;
  const zo_tensor* tensor;
  const uint32_t* seeds; /* of step s: seeds[(s * each + i) * apart] */
  uint32_t apart;        /* words from a seed to the next one */
  uint32_t each;         /* seeds of a step, kZoSigns at most */
  uint32_t steps;        /* on a tile */
  uint32_t used, filled; /* of the words */
  uint32_t words[kSignWords];
} sign_walk;

static void begin_walk(sign_walk* w, const zo_weight_loops* loops, const zo_tensor* tensor) {
  w->loops = loops;
  w->tensor = tensor;
  w->used = w->filled = 0;
}

static void draw_ahead(sign_walk* w, uint32_t begin, uint32_t step) {
  uint32_t states[kZoSigns] = {0};
  w->used = w->filled = 0;
  while (w->filled + w->each <= (uint32_t)kZoSigns && begin < w->tensor->size) {
    for (uint32_t i = 0; i < w->each; ++i) {
      const uint32_t seed = w->seeds[(size_t)(step * w->each + i) * w->apart];
      states[w->filled++] = state_of(seed, w->tensor->stream, begin);
    }
    if (++step < w->steps) continue;
    step = 0;
    begin += kTile;
  }
  w->loops->draw_signs(w->words, (tile_size(w->tensor, 0) + 31u) / 32u, states);
}

/* The words of this step's first seed; those of its next one follow, one after the other. */
static const uint32_t* signs_of(sign_walk* w, uint32_t begin, uint32_t step) {
  if (w->used == w->filled) draw_ahead(w, begin, step);
  const uint32_t* const signs = w->words + w->used;
  w->used += w->each;
  return signs;
}

/* --- Perturbation ---------------------------------------------------------------------------- */

static void perturb_signs(const zo_weight_loops* loops, const zo_tensor* tensor, uint32_t mu,
                          const zo_perturb_terms* terms) {
  sign_walk walk;
  begin_walk(&walk, loops, tensor);
  walk.seeds = &terms->terms[0].seed;
  walk.apart = sizeof(zo_perturb_term) / sizeof(uint32_t);
  walk.each = terms->count;
  walk.steps = 1;
  for (uint32_t begin = 0; begin < tensor->size; begin += kTile) {
    const uint32_t count = tile_size(tensor, begin);
    const uint32_t* signs = signs_of(&walk, begin, 0);
    int8_t copy[kTile];
    int8_t* const weights = enter(copy, tensor->weights + begin, count);
    for (uint32_t t = 0; t < terms->count; ++t) {
      loops->add_signs(weights, padded(count), signs + t, terms->terms[t].k * (int32_t)mu);
    }
    leave(tensor->weights + begin, weights, count);
  }
}

/* Whether a weight takes whole bytes of a stream. */
static int has_bytes(zo_distribution distribution) {
  return distribution.kind == ZO_GAUSSIAN || distribution.kind == ZO_SPARSE_UNIFORM;
}

/* Draws two bytes a weight, if the distribution takes two, and one otherwise. */
static void draw_bytes(const zo_weight_loops* loops, uint32_t* words, zo_distribution distribution, uint32_t state) {
  loops->draw(words, state);
  if (distribution.kind == ZO_SPARSE_UNIFORM) {
    loops->draw(words + kZoTileWords, words[kZoTileWords - 1]);
  }
}

static void perturb_bytes(const zo_weight_loops* loops, const zo_tensor* tensor, zo_distribution distribution,
                          const zo_perturb_term* term) {
  uint8_t table[128];
  for (uint32_t i = 0; i < 128u; ++i) {
    const int32_t z = zo_gaussian_quantiles[i];
    table[i] = (uint8_t)(uint32_t)(term->k * zo_gaussian_perturbation(z, distribution.mu));
  }
  for (uint32_t begin = 0; begin < tensor->size; begin += kTile) {
    const uint32_t count = tile_size(tensor, begin);
    int8_t copy[kTile];
    int8_t* const weights = enter(copy, tensor->weights + begin, count);
    uint32_t words[2 * kZoTileWords];
    draw_bytes(loops, words, distribution, state_of(term->seed, tensor->stream, begin));
    if (distribution.kind == ZO_GAUSSIAN) {
      loops->add_bytes(weights, padded(count), words, table);
    } else {
      loops->add_halves(weights, padded(count), words, distribution, term->k);
    }
    leave(tensor->weights + begin, weights, count);
  }
}

static int perturbs(const zo_tensor* tensor, zo_distribution distribution, const zo_perturb_terms* terms) {
  if (tensor->type == ZO_TENSOR_INT32 || tensor->size < ZO_LOOPS_MIN) {
    return 0;
  }
  if (terms->count == 0u) return 0;
  if (distribution.kind == ZO_RADEMACHER) return terms->count <= (uint32_t)kZoSigns;
  return has_bytes(distribution);
}

int zo_loops_perturb(const zo_weight_loops* loops, const zo_tensor* tensor, zo_distribution distribution,
                     const zo_perturb_terms* terms) {
  if (!perturbs(tensor, distribution, terms)) return 0;
  if (distribution.kind == ZO_RADEMACHER) {
    perturb_signs(loops, tensor, distribution.mu, terms);
    return 1;
  }
  for (uint32_t t = 0; t < terms->count; ++t) {
    perturb_bytes(loops, tensor, distribution, terms->terms + t);
  }
  return 1;
}

/* --- Updates --------------------------------------------------------------------------------- */

/* Moves the weights of a tile by their steps; returns how many were clipped. */
static uint32_t apply(const zo_weight_loops* loops, const zo_tensor* tensor, uint32_t begin, int32_t* steps,
                      uint32_t seed) {
  const uint32_t count = tile_size(tensor, begin), all = padded(count);
  memset(steps + count, 0, (all - count) * sizeof steps[0]); /* nothing of the zeros is clipped */
  int8_t copy[kTile], fraction_copy[kTile];
  int8_t* const weights = enter(copy, tensor->weights + begin, count);
  uint32_t clipped;
  if (tensor->fraction != NULL) {
    int8_t* const fraction = enter(fraction_copy, tensor->fraction + begin, count);
    clipped = loops->round_16(weights, fraction, all, steps, tensor->limit);
    leave(tensor->fraction + begin, fraction, count);
  } else {
    uint32_t words[kZoTileWords];
    loops->draw(words, state_of(seed, tensor->stream | ZO_ROUNDING_STREAM, begin));
    clipped = loops->round_8(weights, all, steps, tensor->limit, words);
  }
  leave(tensor->weights + begin, weights, count);
  return clipped;
}

static void sum_bytes(const zo_weight_loops* loops, int32_t* steps, const zo_tensor* tensor, uint32_t begin,
                      zo_distribution distribution, const zo_query* queries, uint32_t query_count) {
  const uint32_t all = padded(tile_size(tensor, begin));
  memset(steps, 0, all * sizeof steps[0]);
  for (uint32_t q = 0; q < query_count; ++q) {
    uint32_t words[2 * kZoTileWords];
    int8_t z[kTile] = {0};
    draw_bytes(loops, words, distribution, state_of(queries[q].seed, tensor->stream, begin));
    if (distribution.kind == ZO_GAUSSIAN) {
      loops->add_bytes(z, all, words, zo_gaussian_quantiles);
    } else {
      loops->add_halves(z, all, words, distribution, 1);
    }
    loops->add_values(steps, all, z, queries[q].coefficient);
  }
}

static void sum_signs(const zo_weight_loops* loops, int32_t* steps, uint32_t count, const uint32_t* signs,
                      const zo_query* queries, uint32_t query_count) {
  int32_t coefficients[kZoSigns];
  for (uint32_t q = 0; q < query_count; ++q) coefficients[q] = queries[q].coefficient;
  loops->sum_signs(steps, padded(count), signs, coefficients, query_count);
}

/* --- Replay, W = 256 w + fraction in 16 bits ------------------------------------------------- */

/* The addends of W in a step: the first, or the second if the sign is a minus. Returns 0 if 16 bits
 * do not hold them. */
static int moves_of(int32_t coefficient, int16_t* moves) {
  for (int i = 0; i < 2; ++i) {
    const int32_t own = i == 0 ? coefficient : -coefficient;
    const int32_t by = zo_floor_shift(own + 128, ZO_COEFFICIENT_BITS - 8);
    if (by < INT16_MIN || by > INT16_MAX) return 0;
    moves[i] = (int16_t)by;
  }
  return 1;
}

static int moves_fit(const zo_query* steps, uint32_t count) {
  int16_t moves[2];
  for (uint32_t t = 0; t < count; ++t) {
    if (!moves_of(steps[t].coefficient, moves)) return 0;
  }
  return 1;
}

/* One step; returns how many values were clipped. */
static uint32_t move(const zo_weight_loops* loops, int16_t* values, uint32_t count, const uint32_t* signs,
                     int32_t coefficient, int32_t limit) {
  int16_t moves[2];
  (void)moves_of(coefficient, moves);
  const uint32_t whole = count / kZoWeights * kZoWeights;
  uint32_t clipped = loops->move(values, whole, signs, moves, limit);
  for (uint32_t i = whole; i < count; ++i) {
    const int32_t moved = values[i] + moves[signs[i / 32u * kZoSigns] >> i % 32u & 1u];
    const int32_t inside = zo_clamp(moved, -limit, limit);
    clipped += (uint32_t)(inside != moved);
    values[i] = (int16_t)inside;
  }
  return clipped;
}

static void load(int16_t* values, const zo_tensor* tensor, uint32_t begin, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    values[i] = (int16_t)(256 * tensor->weights[begin + i] + tensor->fraction[begin + i]);
  }
}

static void store(const zo_tensor* tensor, uint32_t begin, const int16_t* values, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t whole = zo_floor_shift(values[i] + 128, 8);
    tensor->weights[begin + i] = (int8_t)whole;
    tensor->fraction[begin + i] = (int8_t)(values[i] - 256 * whole);
  }
}

/* --- Both ------------------------------------------------------------------------------------ */

static int updates(const zo_tensor* tensor, zo_distribution distribution, const zo_perturb_terms* restore,
                   uint32_t count) {
  return tensor->type == ZO_TENSOR_INT8 && tensor->multiplier == NULL && tensor->size >= ZO_LOOPS_MIN &&
         (has_bytes(distribution) || (distribution.kind == ZO_RADEMACHER && count <= (uint32_t)kZoSigns)) &&
         (restore == NULL || perturbs(tensor, distribution, restore));
}

int zo_loops_update(const zo_weight_loops* loops, const zo_tensor* tensor, zo_distribution distribution,
                    const zo_perturb_terms* restore, const zo_query* queries, uint32_t count, uint32_t steps,
                    uint32_t* clipped) {
  if (!updates(tensor, distribution, restore, count)) return 0;
  if (restore != NULL) (void)zo_loops_perturb(loops, tensor, distribution, restore);
  const int signs = distribution.kind == ZO_RADEMACHER;
  const int by_values = signs && count == 1u && steps > 1u && tensor->fraction != NULL && moves_fit(queries, steps);
  sign_walk walk;
  begin_walk(&walk, loops, tensor);
  walk.seeds = &queries[0].seed;
  walk.apart = sizeof(zo_query) / sizeof(uint32_t);
  walk.each = count;
  walk.steps = steps;
  for (uint32_t begin = 0; begin < tensor->size; begin += kTile) {
    const uint32_t size = tile_size(tensor, begin);
    int16_t values[kTile];
    const int in_values = by_values && zo_replay_tile_fits(tensor, begin, size);
    if (in_values) load(values, tensor, begin, size);
    for (uint32_t t = 0; t < steps; ++t) {
      const zo_query* own = queries + (size_t)t * count;
      const uint32_t* words = signs ? signs_of(&walk, begin, t) : NULL;
      if (in_values) {
        *clipped += move(loops, values, size, words, own[0].coefficient, 256 * tensor->limit);
        continue;
      }
      int32_t sums[kTile];
      if (signs) {
        sum_signs(loops, sums, size, words, own, count);
      } else {
        sum_bytes(loops, sums, tensor, begin, distribution, own, count);
      }
      *clipped += apply(loops, tensor, begin, sums, own[0].seed);
    }
    if (in_values) store(tensor, begin, values, size);
  }
  return 1;
}

uint32_t zo_loops_apply_row(const zo_weight_loops* loops, int8_t* weights, const int32_t* steps, uint32_t count,
                            int32_t limit, uint32_t* stream, uint32_t* clipped) {
  const uint32_t whole = count / kZoWeights * kZoWeights;
  for (uint32_t i = 0; i < whole; i += kTile) {
    const uint32_t size = whole - i < kTile ? whole - i : kTile;
    uint32_t words[kZoTileWords];
    loops->draw(words, *stream);
    *clipped += loops->round_8(weights + i, size, steps + i, limit, words);
    *stream = words[size / 4u - 1u];
  }
  return whole;
}

uint32_t zo_loops_add_products(const zo_weight_loops* loops, int32_t* sums, uint32_t count, const zo_product* products,
                               uint32_t number, size_t offset, int32_t zero_point) {
  return loops->add_products(sums, count, products, number, offset, zero_point);
}

/* --- Nodes ----------------------------------------------------------------------------------- */

/* Sums of one tile, or of the part of it from a word's first sign on. */
static void sum_tile(const zo_weight_loops* loops, const uint32_t* seeds, const int32_t* coefficients, uint32_t queries,
                     uint32_t stream, uint32_t begin, uint32_t end, int32_t* sums) {
  const uint32_t tile = begin / kTile, skipped = begin % kTile / 32u;
  const uint32_t words = (end - 1u) % kTile / 32u + 1u;
  for (uint32_t q = 0; q < queries; q += kZoSigns) {
    const uint32_t together = queries - q < (uint32_t)kZoSigns ? queries - q : (uint32_t)kZoSigns;
    uint32_t states[kZoSigns] = {0}, signs[kSignWords];
    int32_t more[kTile];
    int32_t* const own = q == 0u ? sums : more;
    for (uint32_t i = 0; i < together; ++i) {
      states[i] = zo_stream_state(zo_stream_key(seeds[q + i], stream), tile);
    }
    loops->draw_signs(signs, words, states);
    loops->sum_signs(own, 32u * (words - skipped), signs + (size_t)kZoSigns * skipped, coefficients + q, together);
    for (uint32_t i = 0; q > 0u && i < end - begin; ++i) sums[i] += more[i];
  }
}

void zo_loops_sum_signs(const zo_weight_loops* loops, const uint32_t* seeds, const int32_t* coefficients,
                        uint32_t queries, uint32_t stream, uint32_t first, uint32_t count, int32_t* sums) {
  for (uint32_t i = first; i < first + count;) {
    const uint32_t begin = i / 32u * 32u, next = (i / kTile + 1u) * kTile;
    const uint32_t end = next < first + count ? next : first + count;
    int32_t of_tile[kTile];
    sum_tile(loops, seeds, coefficients, queries, stream, begin, end, of_tile);
    memcpy(sums + (i - first), of_tile + (i - begin), (end - i) * sizeof sums[0]);
    i = end;
  }
}

/* Nodes of a sample, at most: those of as many tiles as have their signs drawn together. */
enum { kMostNodes = kTile * kZoSigns };

/* Moves of nodes, a channel's next to each other: k or -k. */
static void draw_moves(const zo_weight_loops* loops, uint32_t count, uint32_t key, int32_t k, int8_t* moves) {
  uint32_t states[kZoSigns] = {0}, signs[kSignWords];
  for (uint32_t tile = 0; tile < (uint32_t)kZoSigns && tile * kTile < count; ++tile) {
    states[tile] = zo_stream_state(key, tile);
  }
  loops->draw_signs(signs, count < (uint32_t)kTile ? (count + 31u) / 32u : kTile / 32u, states);
  memset(moves, 0, padded(count));
  for (uint32_t tile = 0, begin = 0; begin < count; ++tile, begin += kTile) {
    const uint32_t size = count - begin < (uint32_t)kTile ? count - begin : (uint32_t)kTile;
    loops->add_signs(moves + begin, padded(size), signs + tile, k);
  }
}

int zo_loops_perturb_nodes(const zo_weight_loops* loops, const zo_node_block* block, const int8_t* from, uint32_t seed,
                           uint32_t stream, int32_t k, int8_t* to) {
  const uint32_t positions = block->positions, channels = block->channels;
  if ((uint64_t)positions * channels > (uint64_t)kMostNodes) return 0;
  const uint32_t count = positions * channels;
  int8_t moves[kMostNodes], turned[kMostNodes];
  draw_moves(loops, count, zo_stream_key(seed, stream), k, moves);
  if (positions == 1u || channels == 1u) {
    loops->move_nodes(block, count, from, moves, to);
    return 1;
  }
  for (uint32_t c = 0; c < channels; ++c) {
    for (uint32_t p = 0; p < positions; ++p) turned[p * channels + c] = moves[c * positions + p];
  }
  loops->move_nodes(block, count, from, turned, to);
  return 1;
}
