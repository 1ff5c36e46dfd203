/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/weights/zo_update.h"

#include "ops/core/kernels/zo_add_by_signs.h"
#include "ops/core/kernels/zo_apply_row.h"
#include "ops/core/kernels/zo_apply_steps.h"
#include "ops/core/kernels/zo_replay_tile.h"
#include "ops/core/kernels/zo_step_gaussian.h"
#include "ops/core/kernels/zo_step_signs.h"
#include "ops/core/kernels/zo_weight_loops.h"
#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_draw.h"
#include "ops/core/weights/zo_biases.h"
#include "ops/core/weights/zo_perturb.h"
#include "ops/core/zo_features.h"

#if ZO_WITH_COORDINATE
#include "ops/core/papers/zo_coordinate.h"
#endif

/* Weights whose steps are accumulated together: one word of Rademacher signs. */
#define UPDATE_CHUNK ZO_STEPS_CHUNK

/* Sum over queries of |coefficient| * max |z|: keeps every accumulator in int32_t with room for
 * the rounding terms. */
#define COEFFICIENT_SUM_MAX (INT64_C(1) << 30)

/* Not inlined, so that its callers keep their registers; inlined it is smaller. */
#if ZO_GNU_C && !defined(__OPTIMIZE_SIZE__)
#define UPDATE_LOOP static __attribute__((noinline))
#else
#define UPDATE_LOOP static
#endif

/* The random streams of one tile of weights, one per query. */
typedef struct tile_streams {
  uint32_t state[ZO_MAX_QUERIES];
  uint32_t rounding;
} tile_streams;

static void accumulate_bytes(int32_t* steps, uint32_t count, uint32_t* state, int32_t coefficient,
                             zo_distribution distribution) {
  const uint32_t per_word = zo_weights_per_word(distribution);
  uint32_t word = *state;
  for (uint32_t j = 0; j < count; ++j) {
    if (j % per_word == 0) word = zo_stream_next(word);
    steps[j] += coefficient * zo_draw(distribution, word, j % per_word);
  }
  *state = word;
}

static void scale_steps(int32_t* steps, uint32_t count, const zo_tensor* tensor, uint32_t index) {
  /* Divided once, then counted: cores without a divider call a function for it. */
  uint32_t channel = index / tensor->inner % tensor->channels;
  uint32_t left = tensor->inner - index % tensor->inner; /* weights of this channel in a row */
  for (uint32_t j = 0; j < count; ++j) {
    steps[j] = zo_scale_step(steps[j], tensor->multiplier[channel]);
    if (--left > 0u) continue;
    left = tensor->inner;
    channel = channel + 1u < tensor->channels ? channel + 1u : 0u;
  }
}

/* Largest |step| of a weight. */
static int32_t largest_step(zo_distribution distribution, const zo_query* queries, uint32_t count) {
  int32_t sum = 0; /* times z within 2^30: zo_step_check */
  for (uint32_t q = 0; q < count; ++q) {
    sum += queries[q].coefficient < 0 ? -queries[q].coefficient : queries[q].coefficient;
  }
  return sum * zo_distribution_z_max(distribution);
}

/* Whether rows move chunks faster than compiled loops over them. */
#if ZO_WITH_FAST_STEPS && ZO_ROW_VECTORS && !defined(__OPTIMIZE_SIZE__)
#define ROWS 1
#else
#define ROWS 0
#endif

/* Moves a chunk of weights by their steps; returns how many were clipped. */
static uint32_t apply_steps(const zo_tensor* tensor, uint32_t index, const int32_t* steps, uint32_t count,
                            int32_t largest, uint32_t* rounding) {
  int8_t* const weights = tensor->weights + index;
  const int has_fraction = zo_has_fraction(tensor);
  int8_t* const fraction = has_fraction ? tensor->fraction + index : NULL;
  if (ROWS) {
    return has_fraction ? zo_apply_row_16(weights, fraction, steps, count, tensor->limit, largest)
                        : zo_apply_row_8(weights, steps, count, tensor->limit, largest, rounding);
  }
  return has_fraction ? zo_apply_steps_16(weights, fraction, steps, count, tensor->limit)
                      : zo_apply_steps_8(weights, steps, count, tensor->limit, rounding);
}

/* One step on weights [begin, begin + count) of one stream tile, a chunk at a time. Returns the
 * clipped weights. */
UPDATE_LOOP uint32_t update_chunks(const zo_tensor* tensor, uint32_t begin, uint32_t count,
                                   zo_distribution distribution, const zo_query* queries, uint32_t query_count,
                                   tile_streams* streams) {
  const int32_t largest = ROWS ? largest_step(distribution, queries, query_count) : 0;
  uint32_t saturated = 0;
  for (uint32_t i = 0; i < count; i += UPDATE_CHUNK) {
    const uint32_t size = count - i < UPDATE_CHUNK ? count - i : UPDATE_CHUNK;
    int32_t steps[UPDATE_CHUNK] = {0};
    for (uint32_t q = 0; q < query_count; ++q) {
      if (zo_is_rademacher(distribution)) {
        streams->state[q] = zo_stream_next(streams->state[q]);
        zo_add_by_signs(steps, size, streams->state[q], queries[q].coefficient);
      } else {
        accumulate_bytes(steps, size, &streams->state[q], queries[q].coefficient, distribution);
      }
    }
    if (zo_multiplier_of(tensor) != NULL) scale_steps(steps, size, tensor, begin + i);
    if (zo_is_of_biases(tensor)) {
      int32_t* biases = zo_biases_of(tensor) + begin + i;
      saturated += zo_step_biases(biases, steps, size, &streams->rounding);
      continue;
    }
    saturated += apply_steps(tensor, begin + i, steps, size, largest, &streams->rounding);
  }
  return saturated;
}

/* One step on weights [begin, begin + count) of one stream tile. Returns the clipped weights. */
static uint32_t update_tile(zo_step_tables* tables, const zo_tensor* tensor, uint32_t begin, uint32_t count,
                            zo_distribution distribution, const zo_query* queries, uint32_t query_count) {
  if (ZO_MAX_QUERIES == 1) query_count = 1; /* for compilers */
  const uint32_t tile = begin / ZO_STREAM_TILE;
  tile_streams streams;
  for (uint32_t q = 0; q < query_count; ++q) {
    streams.state[q] = zo_stream_state(zo_stream_key(queries[q].seed, tensor->stream), tile);
  }
  streams.rounding = zo_stream_state(zo_stream_key(queries[0].seed, tensor->stream | ZO_ROUNDING_STREAM), tile);
#if ZO_STEP_SIGNS
  if (zo_is_rademacher(distribution) && !zo_is_of_biases(tensor)) {
    uint32_t saturated = 0;
    while (count > 0u) {
      uint32_t size = zo_step_signs_fit(tables, tensor, begin, count, queries, query_count);
      if (size > 0u) {
        saturated +=
            zo_step_signs(tables, tensor, begin, size / UPDATE_CHUNK, query_count, streams.state, &streams.rounding);
      } else { /* with multipliers, up to where another channel begins */
        size = zo_multiplier_of(tensor) == NULL || count < UPDATE_CHUNK ? count : UPDATE_CHUNK;
        saturated += update_chunks(tensor, begin, size, distribution, queries, query_count, &streams);
      }
      begin += size;
      count -= size;
    }
    return saturated;
  }
#else
  (void)tables;
#endif
  uint32_t clipped = 0;
#if ZO_STEP_GAUSSIAN
  if (zo_is_gaussian(distribution) && !zo_is_of_biases(tensor) && zo_multiplier_of(tensor) == NULL) {
    const uint32_t done =
        zo_step_gaussian(tensor, begin, count, queries, query_count, largest_step(distribution, queries, query_count),
                         streams.state, &streams.rounding, &clipped);
    begin += done;
    count -= done;
  }
#endif
  return clipped + update_chunks(tensor, begin, count, distribution, queries, query_count, &streams);
}

zo_status zo_step_check(zo_distribution distribution, const zo_query* queries, uint32_t count) {
  if (queries == NULL || count == 0) return ZO_ERROR_ARGUMENT;
  if (count > ZO_MAX_QUERIES) return ZO_ERROR_QUERIES;
  const zo_status status = zo_distribution_check(distribution);
  if (status != ZO_OK) return status;
  int64_t sum = 0;
  for (uint32_t q = 0; q < count; ++q) {
    const int64_t coefficient = queries[q].coefficient;
    sum += coefficient < 0 ? -coefficient : coefficient;
  }
  return sum * zo_distribution_z_max(distribution) <= COEFFICIENT_SUM_MAX ? ZO_OK : ZO_ERROR_COEFFICIENT;
}

int zo_update_takes(const zo_tensor* tensor) {
  return tensor != NULL && tensor->weights != NULL && tensor->size > 0 && tensor->limit >= 1 && tensor->limit <= 127 &&
         zo_tensor_is_supported(tensor) && (tensor->fraction != NULL || ZO_WITH_8_BITS || zo_is_of_biases(tensor)) &&
         (!zo_is_of_biases(tensor) || zo_are_biases(tensor)) &&
         (tensor->multiplier == NULL || (tensor->channels > 0 && tensor->inner > 0));
}

/* Most queries of a step that a restored term is folded into. */
#define FOLDED_QUERIES 8u

/* Restoring moves a weight by k mu z, a step by c z 2^-16 and rounding: if the term's seed is
 * one of the queries', both are along the same z, and c + k mu 2^16 does both in one pass. Bit for
 * bit: whole LSB do not change how a sum is rounded, and the restored weight itself is within the
 * limit. Returns whether it has written such queries; then nothing is left to restore. */
static int fold_restored(const zo_tensor* tensor, zo_distribution distribution, const zo_perturb_terms* restore,
                         const zo_query* queries, uint32_t count, zo_query* folded) {
  if (ZO_MAX_QUERIES == 1) count = 1;
  if (!zo_is_rademacher(distribution) || restore->count != 1u || count > FOLDED_QUERIES || zo_has_fraction(tensor) ||
      zo_multiplier_of(tensor) != NULL || zo_is_of_biases(tensor)) {
    return 0;
  }
  const zo_perturb_term term = restore->terms[0];
  const int32_t moved = term.k * (int32_t)distribution.mu;
  /* Beyond the headroom weights would wrap around. */
  if (tensor->limit + (moved < 0 ? -moved : moved) > 127) return 0;
  int found = 0;
  for (uint32_t q = 0; q < count; ++q) {
    folded[q] = queries[q];
    if (found || queries[q].seed != term.seed) continue;
    folded[q].coefficient += moved * (INT32_C(1) << ZO_COEFFICIENT_BITS);
    found = 1;
  }
  return found;
}

/* `steps` steps of `count` queries each, after the restoration; returns the clipped weights. */
static uint32_t update_tiles(const zo_tensor* tensor, zo_distribution distribution, const zo_perturb_terms* restore,
                             const zo_query* queries, uint32_t count, uint32_t steps) {
  uint32_t clipped = 0;
#if ZO_WITH_COORDINATE
  if (zo_is_coordinate(distribution)) {
    if (restore != NULL) zo_perturb_coordinates_s8(tensor, distribution, restore);
    for (uint32_t t = 0; t < steps; ++t) {
      clipped += zo_update_coordinates_s8(tensor, queries + (size_t)t * count, count);
    }
    return clipped;
  }
#endif
  zo_query folded[FOLDED_QUERIES];
  if (restore != NULL && fold_restored(tensor, distribution, restore, queries, count, folded)) {
    queries = folded; /* of one step: a replay restores nothing */
    restore = NULL;
  }
#if ZO_KERNEL_SETS
  const zo_weight_loops* loops = zo_weight_loops_of_machine();
  if (loops != NULL && zo_loops_update(loops, tensor, distribution, restore, queries, count, steps, &clipped)) {
    return clipped;
  }
#endif
  zo_step_tables tables;
  tables.queries = NULL;
  /* If single steps have a kernel of their own, that is faster. */
  const int is_common = ZO_WITH_FAST_STEPS && !ZO_STEP_SIGNS && steps > 1u && distribution.kind == ZO_RADEMACHER &&
                        count == 1u && tensor->fraction != NULL && tensor->multiplier == NULL;
  const uint32_t values = zo_values(tensor);
  for (uint32_t begin = 0; begin < values; begin += ZO_STREAM_TILE) {
    const uint32_t left = values - begin;
    const uint32_t size = left < ZO_STREAM_TILE ? left : ZO_STREAM_TILE;
    if (restore != NULL) zo_perturb_tile_s8(tensor, begin, size, distribution, restore);
    if (is_common && zo_replay_tile_fits(tensor, begin, size)) {
      clipped += zo_replay_tile(tensor, begin, size, queries, steps);
      continue;
    }
    for (uint32_t t = 0; t < steps; ++t) {
      clipped += update_tile(&tables, tensor, begin, size, distribution, queries + (size_t)t * count, count);
    }
  }
  return clipped;
}

zo_status zo_update_s8(const zo_tensor* tensor, zo_distribution distribution, const zo_perturb_terms* restore,
                       const zo_query* queries, uint32_t count, uint32_t* saturated) {
#if ZO_WITH_CHECKS
  if (!zo_update_takes(tensor)) return ZO_ERROR_ARGUMENT;
  zo_status status = zo_step_check(distribution, queries, count);
  if (status == ZO_OK && restore != NULL) status = zo_perturb_check(distribution, restore);
  if (status != ZO_OK) return status;
#endif
  const uint32_t clipped = update_tiles(tensor, distribution, restore, queries, count, 1);
  if (saturated != NULL) *saturated += clipped;
  return ZO_OK;
}

zo_status zo_replay_s8(const zo_tensor* tensor, zo_distribution distribution, const zo_query* queries, uint32_t count,
                       uint32_t steps, uint32_t* saturated) {
  if (!zo_update_takes(tensor) || queries == NULL || steps == 0) return ZO_ERROR_ARGUMENT;
  for (uint32_t t = 0; t < steps; ++t) {
    const zo_status status = zo_step_check(distribution, queries + (size_t)t * count, count);
    if (status != ZO_OK) return status;
  }
  const uint32_t clipped = update_tiles(tensor, distribution, NULL, queries, count, steps);
  if (saturated != NULL) *saturated += clipped;
  return ZO_OK;
}
