/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the C core without any runtime, to be run under the address and undefined-behaviour
 * sanitizers: every function, edge sizes, weights at odd addresses, nodes over fake tensors,
 * damaged commands and options. Every buffer is allocated at its exact size, so that a read or
 * write past its end is seen. What the results should be is tested from Python (tests/core) against
 * an oracle; here functions are checked against each other.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ops/core/graph/zo_command.h"
#include "ops/core/graph/zo_op.h"
#include "ops/core/log/zo_crc32.h"
#include "ops/core/log/zo_log.h"
#include "ops/core/log/zo_snapshot_log.h"
#include "ops/core/loss/zo_loss.h"
#include "ops/core/nodes/zo_node_layer.h"
#include "ops/core/nodes/zo_node_update.h"
#include "ops/core/papers/zo_chain.h"
#include "ops/core/papers/zo_floor_log2_loss.h"
#include "ops/core/papers/zo_pseudo_stochastic.h"
#include "ops/core/papers/zo_update_bits.h"
#include "ops/core/random/zo_stream.h"
#include "ops/core/run/zo_block_choice.h"
#include "ops/core/run/zo_control.h"
#include "ops/core/run/zo_node_run.h"
#include "ops/core/weights/zo_checksum.h"
#include "ops/core/weights/zo_mask.h"
#include "ops/core/weights/zo_perturb.h"
#include "ops/core/weights/zo_update.h"
#include "ops/core/zo_little_endian.h"

/* Every how many-th round is run: 1 on a host, more where a core is emulated. */
#ifndef CORE_TEST_THIN
#define CORE_TEST_THIN 1
#endif
#define ROUNDS(count) (((count) + CORE_TEST_THIN - 1) / CORE_TEST_THIN)

/* Of every result that depends on a code path: the same in every build. */
static uint32_t digest;

/* --- random numbers and buffers ------------------------------------------ */

static uint64_t random_state = UINT64_C(0x9E3779B97F4A7C15);

static uint32_t random_u32(void) { /* splitmix64 */
  uint64_t z = (random_state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return (uint32_t)(z >> 32);
}

static uint32_t random_below(uint32_t bound) { return random_u32() % bound; }

/* Of every magnitude: shifted right by least..most bits. Here and below one call follows the other
 * in an order that the language fixes, so that every compiler sees the same numbers. */
static uint32_t random_shifted(uint32_t least, uint32_t most) {
  const uint32_t shift = least + random_below(most - least + 1u);
  return random_u32() >> shift;
}

static void flip_a_bit(void* bytes, uint32_t count) {
  const uint32_t at = random_below(count);
  ((uint8_t*)bytes)[at] ^= (uint8_t)(1u << random_below(8));
}

static int32_t random_between(int32_t low, int32_t high) {
  return (int32_t)((uint32_t)low + random_below((uint32_t)high - (uint32_t)low + 1u));
}

static void* allocate(size_t bytes) {
  void* memory = malloc(bytes);
  if (memory == NULL) abort();
  return memory;
}

/* int8 values that end where their memory ends and start `shift` bytes after its start. */
typedef struct array {
  char* memory;
  int8_t* at;
  uint32_t size;
} array;

static array make_array(uint32_t size, uint32_t shift, int32_t limit) {
  array b;
  b.memory = (char*)allocate(size + shift);
  b.at = (int8_t*)(b.memory + shift);
  b.size = size;
  for (uint32_t i = 0; i < size; ++i) b.at[i] = (int8_t)random_between(-limit, limit);
  return b;
}

static array copy_array(const array* from, uint32_t shift) {
  array b = make_array(from->size, shift, 0);
  memcpy(b.at, from->at, from->size);
  return b;
}

/* A part of an array, which keeps the memory. */
static array part_of(const array* whole, uint32_t offset, uint32_t size) {
  array b;
  b.memory = NULL;
  b.at = whole->at + offset;
  b.size = size;
  return b;
}

static int same(const array* a, const array* b) { return memcmp(a->at, b->at, a->size) == 0; }

static zo_tensor tensor_of(const array* weights, const array* fraction, uint32_t stream) {
  zo_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.weights = weights->at;
  tensor.fraction = fraction != NULL ? fraction->at : NULL;
  tensor.size = weights->size;
  tensor.channels = 1;
  tensor.inner = 1;
  tensor.stream = stream;
  tensor.limit = 120;
  return tensor;
}

static const uint32_t sizes[] = {1,   2,   3,    4,    31,   32,   33,   63,   64,  65,
                                 127, 999, 1023, 1024, 1025, 1056, 2047, 2048, 3000};
#define SIZES (sizeof sizes / sizeof sizes[0])

static const zo_distribution distributions[] = {
    {ZO_RADEMACHER, 0, 1},       {ZO_RADEMACHER, 0, 127},       {ZO_SPARSE_UNIFORM, 0, 1},
    {ZO_SPARSE_UNIFORM, 255, 7}, {ZO_SPARSE_UNIFORM, 100, 127}, {ZO_GAUSSIAN, 0, 1},
    {ZO_GAUSSIAN, 0, 300},       {ZO_GAUSSIAN, 0, 65535},       {ZO_COORDINATE, 0, 5},
};
#define DISTRIBUTIONS (sizeof distributions / sizeof distributions[0])

static const zo_distribution bad_distributions[] = {
    {ZO_RADEMACHER, 0, 0},
    {ZO_RADEMACHER, 0, 128},
    {ZO_RADEMACHER, 1, 1},
    {ZO_SPARSE_UNIFORM, 0, 0},
    {ZO_SPARSE_UNIFORM, 0, 128},
    {ZO_GAUSSIAN, 0, 0},
    {ZO_GAUSSIAN, 1, 1},
    {ZO_COORDINATE, 0, 0},
    {ZO_COORDINATE, 0, 128},
    {ZO_COORDINATE, 1, 1},
    {4, 0, 1},
    {255, 255, 65535},
};
#define BAD_DISTRIBUTIONS (sizeof bad_distributions / sizeof bad_distributions[0])

/* --- stream and perturbation ---------------------------------------------- */

static void test_stream(void) {
  for (int status = -3; status < 20; ++status) {
    CHECK(zo_status_text((zo_status)status) != NULL);
    CHECK(strlen(zo_status_text((zo_status)status)) > 0);
  }
  CHECK(zo_query_seed(1, 2, 3) == UINT32_C(0xBB7BAD1E)); /* worked out by hand from zo_stream.h */
  CHECK(zo_query_seed(1, 2, 3) != zo_query_seed(1, 3, 3));
  CHECK(zo_stream_next(1) == UINT32_C(270369)); /* 1 ^ 1<<13, ^ >>17, ^ <<5 */
  for (uint32_t i = 1; i < 128; ++i) {
    CHECK(zo_gaussian_quantiles[i] >= zo_gaussian_quantiles[i - 1]);
  }
  /* The one key that mixes to zero. */
  CHECK(zo_stream_state(zo_fmix(UINT32_C(0x6A09E667)), 0) == UINT32_C(0x6C8E9CF5));

  for (size_t d = 0; d < DISTRIBUTIONS; ++d) {
    const zo_distribution distribution = distributions[d];
    CHECK(zo_distribution_check(distribution) == ZO_OK);
    const int32_t mu = distribution.mu;
    CHECK(zo_distribution_reach(distribution) ==
          (distribution.kind == ZO_GAUSSIAN ? (105 * mu + 2048) / 4096 : mu));
    for (size_t s = 0; s < SIZES; ++s) {
      array z = make_array(sizes[s], 3, 0), later = make_array(sizes[s], 1, 0);
      CHECK(zo_direction(distribution, 5, 6, 0, sizes[s], z.at) == ZO_OK);
      for (uint32_t i = 0; i < z.size; ++i) {
        CHECK(abs(z.at[i]) <= zo_distribution_z_max(distribution));
      }
      CHECK(
          zo_direction(distribution, 5, 6, UINT32_C(0xFFFFFC00), 7 < sizes[s] ? 7 : 1, later.at) ==
          (distribution.kind == ZO_COORDINATE ? ZO_ERROR_ARGUMENT : ZO_OK));
      free(z.memory);
      free(later.memory);
    }
  }
  int8_t one;
  CHECK(zo_direction(distributions[0], 1, 1, 1, 1, &one) == ZO_ERROR_ARGUMENT);
  CHECK(zo_direction(distributions[0], 1, 1, 0, 1, NULL) == ZO_ERROR_ARGUMENT);
  for (size_t d = 0; d < BAD_DISTRIBUTIONS; ++d) {
    CHECK(zo_distribution_check(bad_distributions[d]) == ZO_ERROR_DISTRIBUTION);
    CHECK(zo_direction(bad_distributions[d], 1, 1, 0, 1, &one) == ZO_ERROR_DISTRIBUTION);
  }
}

static zo_status perturb(const zo_tensor* tensor, zo_distribution distribution,
                         const zo_perturb_term* terms, uint32_t count) {
  const zo_perturb_terms all = {terms, count, 0};
  return zo_perturb_s8(tensor, distribution, &all);
}

static void test_perturb(void) {
  for (size_t s = 0; s < SIZES; ++s) {
    for (size_t d = 0; d < DISTRIBUTIONS; ++d) {
      for (uint32_t shift = 0; shift < 4; ++shift) {
        array weights = make_array(sizes[s], shift, 127), before = copy_array(&weights, 0);
        array aligned = copy_array(&weights, 0);
        const zo_tensor tensor = tensor_of(&weights, NULL, random_u32());
        zo_tensor other = tensor;
        other.weights = aligned.at;

        zo_perturb_term terms[ZO_MAX_TERMS];
        for (uint32_t t = 0; t < ZO_MAX_TERMS; ++t) {
          terms[t].seed = random_u32();
          terms[t].k = t % 3 == 0 ? 1 : (t % 3 == 1 ? -1 : -2);
        }
        CHECK(perturb(&tensor, distributions[d], terms, ZO_MAX_TERMS) == ZO_OK);
        for (uint32_t t = ZO_MAX_TERMS; t-- > 0;) {
          CHECK(perturb(&other, distributions[d], terms + t, 1) == ZO_OK);
        }
        CHECK(same(&weights, &aligned)); /* address and order do not matter */
        digest = digest * 31u + zo_checksum(&tensor);

        memcpy(weights.at, before.at, weights.size);
        zo_perturb_term walk[3] = {{terms[0].seed, 1}, {terms[0].seed, -2}, {terms[0].seed, 1}};
        for (int t = 0; t < 3; ++t) {
          CHECK(perturb(&tensor, distributions[d], walk + t, 1) == ZO_OK);
        }
        CHECK(same(&weights, &before));
        CHECK(perturb(&tensor, distributions[d], walk, 3) == ZO_OK);
        CHECK(same(&weights, &before));
        free(weights.memory);
        free(before.memory);
        free(aligned.memory);
      }
    }
  }

  array weights = make_array(50, 1, 127), before = copy_array(&weights, 0);
  const zo_tensor tensor = tensor_of(&weights, NULL, 0);
  zo_tensor broken = tensor;
  zo_perturb_term term = {1, 1}, many[ZO_MAX_TERMS + 1];
  for (uint32_t t = 0; t <= ZO_MAX_TERMS; ++t) many[t] = term;
  CHECK(perturb(NULL, distributions[0], &term, 1) == ZO_ERROR_ARGUMENT);
  CHECK(perturb(&tensor, distributions[0], NULL, 1) == ZO_ERROR_ARGUMENT);
  CHECK(perturb(&tensor, distributions[0], &term, 0) == ZO_ERROR_ARGUMENT);
  broken.size = 0;
  CHECK(perturb(&broken, distributions[0], &term, 1) == ZO_ERROR_ARGUMENT);
  broken = tensor;
  broken.weights = NULL;
  CHECK(perturb(&broken, distributions[0], &term, 1) == ZO_ERROR_ARGUMENT);
  CHECK(zo_perturb_s8(&tensor, distributions[0], NULL) == ZO_ERROR_ARGUMENT);
  CHECK(perturb(&tensor, distributions[0], many, ZO_MAX_TERMS + 1) == ZO_ERROR_QUERIES);
  for (int32_t k = -5; k < 6; ++k) {
    many[7].k = k;
    const int allowed = k == 1 || k == -1 || k == -2;
    if (!allowed) {
      CHECK(perturb(&tensor, distributions[0], many, 8) == ZO_ERROR_FACTOR);
    }
  }
  for (size_t d = 0; d < BAD_DISTRIBUTIONS; ++d) {
    CHECK(perturb(&tensor, bad_distributions[d], &term, 1) == ZO_ERROR_DISTRIBUTION);
  }
  CHECK(same(&weights, &before));
  free(weights.memory);
  free(before.memory);
}

static void test_masks(void) {
  for (uint32_t bit = 0; bit < 32u; ++bit) {
    CHECK(zo_lowest_bit(UINT32_C(1) << bit) == bit);
    CHECK(zo_lowest_bit(random_u32() << bit | UINT32_C(1) << bit) == bit);
  }
  const uint8_t mask[5] = {0x81, 0, 0xFF, 0x10, 0x03};
  CHECK(zo_mask_word(mask, 0, 32) == UINT32_C(0x10FF0081));
  CHECK(zo_mask_word(mask, 8, 9) == UINT32_C(0x100));
  CHECK(zo_mask_word(mask, 32, 2) == 3u && zo_mask_word(mask, 32, 1) == 1u);
  CHECK(zo_mask_has(mask, 7) && !zo_mask_has(mask, 6) && zo_mask_has(NULL, 6));
  CHECK(zo_mask_bytes(8) == 1u && zo_mask_bytes(9) == 2u && zo_mask_bytes(UINT32_MAX) == 1u << 29);
}

/* Directions of several seeds: exactly reversible, and of the reach of one. */
static void test_chains(void) {
  const zo_distribution gaussian = {ZO_GAUSSIAN, 0, 700};
  const int32_t reach = zo_distribution_reach(gaussian);
  for (uint32_t round = 0; round < ROUNDS(2000); ++round) {
    const uint32_t momentum = random_below(4) == 0 ? 65535u : 1u + random_below(65535);
    int32_t shares[ZO_MAX_CHAIN];
    const uint32_t count = 1u + round % ZO_MAX_CHAIN;
    zo_chain_weights(momentum, count, shares);
    int64_t squares = 0;
    int32_t sum = 0;
    for (uint32_t j = 0; j < count; ++j) {
      squares += (int64_t)shares[j] * shares[j];
      sum += shares[j];
      CHECK(shares[j] >= 0 && (j == 0u || shares[j] <= shares[j - 1u]));
    }
    CHECK(squares > (INT64_C(1) << 30) - (1 << 20) && squares < (INT64_C(1) << 30) + (1 << 20));
    CHECK(sum < ZO_CHAIN_SPREAD << ZO_CHAIN_BITS);

    array weights = make_array(sizes[round % SIZES], round % 4u, 50);
    array before = copy_array(&weights, 0);
    const zo_tensor tensor = tensor_of(&weights, NULL, round);
    zo_perturb_term terms[2 * ZO_MAX_CHAIN];
    for (uint32_t j = 0; j < 2u * count; ++j) {
      terms[j].seed = random_u32();
      terms[j].k = 0;
    }
    zo_perturb_terms one = {terms, count, momentum}, two = {terms, 2u * count, momentum};
    for (int32_t k = 1; k >= -2; k -= 3) {
      terms[0].k = k;
      CHECK(zo_perturb_s8(&tensor, gaussian, &one) == ZO_OK);
      for (uint32_t i = 0; i < weights.size; ++i) CHECK(abs(weights.at[i] - before.at[i]) <= reach);
    }
    terms[0].k = terms[count].k = 1;
    CHECK(zo_perturb_s8(&tensor, gaussian, &two) == ZO_OK); /* back, and out in another direction */
    digest = digest * 31u + zo_checksum(&tensor);
    terms[count].k = -1;
    one.terms = terms + count;
    CHECK(zo_perturb_s8(&tensor, gaussian, &one) == ZO_OK);
    CHECK(same(&weights, &before));

    terms[0].k = 0;
    CHECK(zo_perturb_s8(&tensor, gaussian, &two) == ZO_ERROR_FACTOR);
    terms[0].k = 1;
    two.momentum = 65536;
    CHECK(zo_perturb_s8(&tensor, gaussian, &two) == ZO_ERROR_FACTOR);
    if (count > 1u) {
      two.momentum = 0;
      CHECK(zo_perturb_s8(&tensor, gaussian, &two) == ZO_ERROR_FACTOR);
      two.momentum = momentum;
      CHECK(zo_perturb_s8(&tensor, distributions[0], &two) == ZO_ERROR_DISTRIBUTION);
    }
    if (count > ZO_MAX_CHAIN / 2u) {
      terms[count].k = 0;
      CHECK(zo_perturb_s8(&tensor, gaussian, &two) == ZO_ERROR_QUERIES);
    }
    CHECK(same(&weights, &before));
    free(weights.memory);
    free(before.memory);
  }
}

static void test_a_million_restores(void) {
  array weights = make_array(41, 1, 127), before = copy_array(&weights, 0);
  zo_tensor tensor = tensor_of(&weights, NULL, 0);
  for (uint32_t i = 0; i < ROUNDS(1000000); ++i) {
    const zo_distribution distribution = distributions[i % DISTRIBUTIONS];
    const uint32_t seed = random_u32();
    tensor.stream = random_u32();
    zo_perturb_term terms[3] = {{seed, 1}, {seed, -2}, {seed, 1}};
    (void)perturb(&tensor, distribution, terms, 1);
    (void)perturb(&tensor, distribution, terms + 1, 2);
    CHECK(same(&weights, &before));
  }
  free(weights.memory);
  free(before.memory);
}

/* --- update and replay ----------------------------------------------------- */

static void random_queries(zo_query* queries, uint32_t count, int32_t largest) {
  for (uint32_t q = 0; q < count; ++q) {
    queries[q].seed = random_u32();
    queries[q].coefficient = random_between(-largest, largest);
  }
}

static void update_once(uint32_t size, zo_distribution distribution, uint32_t mode,
                        uint32_t shift) {
  const int has_fraction = (mode & 1u) != 0, scaled = (mode & 2u) != 0;
  array weights = make_array(size, shift, 118), fraction = make_array(size, 3 - shift, 100);
  zo_tensor tensor = tensor_of(&weights, has_fraction ? &fraction : NULL, random_below(65536));
  int32_t* multiplier = NULL;
  if (scaled) {
    tensor.channels = 1 + random_below(size < 9 ? size : 9);
    tensor.inner = mode & 4u ? 1 : 1 + random_below(30);
    multiplier = (int32_t*)allocate(sizeof(int32_t) * tensor.channels);
    for (uint32_t c = 0; c < tensor.channels; ++c) {
      multiplier[c] = (int32_t)(random_u32() >> 1);
    }
    tensor.multiplier = multiplier;
  }
  array mask = make_array((size + 7u) / 8u, shift, 127);
  if (random_below(2)) tensor.mask = (const uint8_t*)mask.at;
  const array initial = copy_array(&weights, 0);
  array weights_2 = copy_array(&weights, 0), fraction_2 = copy_array(&fraction, 1);
  zo_tensor tensor_2 = tensor;
  tensor_2.weights = weights_2.at;
  if (has_fraction) tensor_2.fraction = fraction_2.at;

  /* A replay is its updates one by one. */
  enum { kSteps = 7 };
  const uint32_t count = 1 + random_below(ZO_MAX_QUERIES);
  const int32_t z_max = zo_distribution_z_max(distribution);
  zo_query* queries = (zo_query*)allocate(sizeof(zo_query) * count * kSteps);
  random_queries(queries, count * kSteps, (INT32_C(1) << 30) / z_max / (int32_t)count);
  if (mode & 8u) random_queries(queries, count * kSteps, 20000);
  uint32_t saturated = 5, saturated_2 = 5;
  CHECK(zo_replay_s8(&tensor, distribution, queries, count, kSteps, &saturated) == ZO_OK);
  for (uint32_t t = 0; t < kSteps; ++t) {
    CHECK(zo_update_s8(&tensor_2, distribution, NULL, queries + t * count, count, &saturated_2) ==
          ZO_OK);
  }
  CHECK(same(&weights, &weights_2));
  CHECK(!has_fraction || same(&fraction, &fraction_2));
  CHECK(saturated == saturated_2);
  for (uint32_t i = 0; i < size; ++i) CHECK(abs(weights.at[i]) <= tensor.limit);

  /* What is restored is a perturbation, then the step. */
  const zo_perturb_term undo[2] = {{queries[count - 1].seed, -1}, {random_u32(), -2}};
  const zo_perturb_terms restore = {undo, 1 + random_below(2), 0};
  CHECK(zo_update_s8(&tensor, distribution, &restore, queries, count, NULL) == ZO_OK);
  CHECK(perturb(&tensor_2, distribution, undo, restore.count) == ZO_OK);
  CHECK(zo_update_s8(&tensor_2, distribution, NULL, queries, count, NULL) == ZO_OK);
  for (uint32_t i = 0; i < size; ++i) {
    CHECK(zo_mask_has(tensor.mask, i) || weights.at[i] == initial.at[i]);
  }
  CHECK(same(&weights, &weights_2));
  CHECK(!has_fraction || same(&fraction, &fraction_2));
  CHECK(zo_checksum(&tensor) == zo_checksum(&tensor_2));
  digest = digest * 31u + zo_checksum(&tensor);
  weights.at[size - 1] ^= 1;
  CHECK(zo_checksum(&tensor) != zo_checksum(&tensor_2));

  free(queries);
  free(multiplier);
  free(mask.memory);
  free(initial.memory);
  free(weights.memory);
  free(fraction.memory);
  free(weights_2.memory);
  free(fraction_2.memory);
}

static void test_update(void) {
  for (size_t s = 0; s < SIZES; ++s) {
    for (size_t d = 0; d < DISTRIBUTIONS; ++d) {
      for (uint32_t mode = 0; mode < 16; ++mode) {
        if ((mode + 3u * s + 5u * d) % CORE_TEST_THIN != 0u) continue;
        update_once(sizes[s], distributions[d], mode, (mode + (uint32_t)s) % 4);
      }
    }
  }
}

static void test_update_errors(void) {
  array weights = make_array(70, 1, 100), fraction = make_array(70, 2, 100);
  array before = copy_array(&weights, 0), fraction_before = copy_array(&fraction, 0);
  const zo_tensor tensor = tensor_of(&weights, &fraction, 0);
  zo_query queries[2 * (ZO_MAX_QUERIES + 1)];
  random_queries(queries, 2 * (ZO_MAX_QUERIES + 1), 1000);
  const zo_distribution d = distributions[0];
  uint32_t saturated = 9;

  zo_tensor bad[7];
  for (int i = 0; i < 7; ++i) bad[i] = tensor;
  int32_t multiplier = 1;
  bad[0].weights = NULL;
  bad[1].size = 0;
  bad[2].limit = 0;
  bad[3].limit = 128;
  bad[4].multiplier = &multiplier;
  bad[4].channels = 0;
  bad[5].multiplier = &multiplier;
  bad[5].inner = 0;
  bad[6].limit = INT32_MIN;
  for (int i = 0; i < 7; ++i) {
    CHECK(zo_update_s8(&bad[i], d, NULL, queries, 1, &saturated) == ZO_ERROR_ARGUMENT);
    CHECK(zo_replay_s8(&bad[i], d, queries, 1, 1, &saturated) == ZO_ERROR_ARGUMENT);
  }
  CHECK(zo_update_s8(NULL, d, NULL, queries, 1, &saturated) == ZO_ERROR_ARGUMENT);
  CHECK(zo_update_s8(&tensor, d, NULL, NULL, 1, &saturated) == ZO_ERROR_ARGUMENT);
  CHECK(zo_update_s8(&tensor, d, NULL, queries, 0, &saturated) == ZO_ERROR_ARGUMENT);
  const zo_perturb_term wrong[2] = {{1, -2}, {1, 2}};
  zo_perturb_terms restore = {wrong, 2, 0};
  CHECK(zo_update_s8(&tensor, d, &restore, queries, 1, &saturated) == ZO_ERROR_FACTOR);
  restore.count = ZO_MAX_TERMS + 1;
  CHECK(zo_update_s8(&tensor, d, &restore, queries, 1, &saturated) == ZO_ERROR_QUERIES);
  restore.terms = NULL;
  restore.count = 1;
  CHECK(zo_update_s8(&tensor, d, &restore, queries, 1, &saturated) == ZO_ERROR_ARGUMENT);
  CHECK(zo_update_s8(&tensor, d, NULL, queries, ZO_MAX_QUERIES + 1, &saturated) ==
        ZO_ERROR_QUERIES);
  CHECK(zo_replay_s8(NULL, d, queries, 1, 1, &saturated) == ZO_ERROR_ARGUMENT);
  CHECK(zo_replay_s8(&tensor, d, NULL, 1, 1, &saturated) == ZO_ERROR_ARGUMENT);
  CHECK(zo_replay_s8(&tensor, d, queries, 0, 1, &saturated) == ZO_ERROR_ARGUMENT);
  CHECK(zo_replay_s8(&tensor, d, queries, 1, 0, &saturated) == ZO_ERROR_ARGUMENT);
  CHECK(zo_replay_s8(&tensor, d, queries, ZO_MAX_QUERIES + 1, 2, &saturated) == ZO_ERROR_QUERIES);
  for (size_t i = 0; i < BAD_DISTRIBUTIONS; ++i) {
    CHECK(zo_update_s8(&tensor, bad_distributions[i], NULL, queries, 1, &saturated) ==
          ZO_ERROR_DISTRIBUTION);
  }
  queries[5].coefficient = INT32_MIN;
  CHECK(zo_update_s8(&tensor, d, NULL, queries, 6, &saturated) == ZO_ERROR_COEFFICIENT);
  CHECK(zo_replay_s8(&tensor, d, queries, 2, 3, &saturated) == ZO_ERROR_COEFFICIENT);
  CHECK(saturated == 9 && same(&weights, &before) && same(&fraction, &fraction_before));
  free(weights.memory);
  free(fraction.memory);
  free(before.memory);
  free(fraction_before.memory);
}

/* --- losses ------------------------------------------------------------------ */

static zo_logit_scale scale_of(double scale) {
  zo_logit_scale result;
  result.scale_log2e = (uint32_t)(scale * 1.4426950408889634 * 16777216.0 + 0.5);
  result.scale = (uint32_t)(scale * 16777216.0 + 0.5);
  return result;
}

static void test_losses(void) {
  static const uint32_t classes[] = {2, 3, 10, 64, 65, 1000};
  static const double scales[] = {9.5367431640625e-07, 0.00390625, 0.1, 1.0, 64.0};
  for (size_t c = 0; c < sizeof classes / sizeof classes[0]; ++c) {
    for (size_t s = 0; s < sizeof scales / sizeof scales[0]; ++s) {
      const uint32_t samples = 5, n = classes[c];
      const zo_logit_scale scale = scale_of(scales[s]);
      array logits = make_array(samples * n, 1, 127), targets = make_array(samples * n, 3, 127);
      int32_t* labels = (int32_t*)allocate(sizeof(int32_t) * samples);
      int32_t* binary = (int32_t*)allocate(sizeof(int32_t) * samples * n);
      int32_t* losses = (int32_t*)allocate(sizeof(int32_t) * samples);
      int16_t* errors = (int16_t*)allocate(sizeof(int16_t) * samples * n);
      memset(logits.at, s % 2 ? 127 : -128, n); /* one sample with all logits equal */
      for (uint32_t i = 0; i < samples; ++i) labels[i] = random_between(-1, (int32_t)n - 1);
      for (uint32_t i = 0; i < samples * n; ++i) binary[i] = random_between(-1, 1);

      CHECK(zo_cross_entropy_s8(logits.at, samples, n, scale, labels, losses) == ZO_OK);
      for (uint32_t i = 0; i < samples; ++i)
        CHECK(losses[i] >= 0 && (labels[i] >= 0 || !losses[i]));
      CHECK(zo_floor_log2_loss_s8(logits.at, samples, n, scale, labels, losses) == ZO_OK);
      for (uint32_t i = 0; i < samples; ++i)
        CHECK(losses[i] >= 0 && losses[i] % ZO_FLOOR_LOG2_UNIT == 0 &&
              (labels[i] >= 0 || !losses[i]));
      CHECK(zo_cross_entropy_error_s8(logits.at, samples, n, scale, labels, errors) == ZO_OK);
      CHECK(zo_binary_cross_entropy_s8(logits.at, samples, n, -128, scale, binary, losses) ==
            ZO_OK);
      CHECK(zo_binary_cross_entropy_s8(logits.at, samples, n, 127, scale, binary, losses) == ZO_OK);
      CHECK(zo_mean_squared_error_s8(logits.at, targets.at, samples, n, INT32_MAX, 0, losses) ==
            ZO_OK);
      CHECK(zo_mean_squared_error_s8(logits.at, targets.at, samples, n, INT32_C(1) << 30, 62,
                                     losses) == ZO_OK);

      labels[samples - 1] = (int32_t)n;
      losses[0] = 77;
      errors[0] = 77;
      CHECK(zo_cross_entropy_s8(logits.at, samples, n, scale, labels, losses) == ZO_ERROR_LABEL);
      CHECK(zo_floor_log2_loss_s8(logits.at, samples, n, scale, labels, losses) == ZO_ERROR_LABEL);
      CHECK(zo_cross_entropy_error_s8(logits.at, samples, n, scale, labels, errors) ==
            ZO_ERROR_LABEL);
      binary[samples * n - 1] = 2;
      CHECK(zo_binary_cross_entropy_s8(logits.at, samples, n, 0, scale, binary, losses) ==
            ZO_ERROR_LABEL);
      binary[samples * n - 1] = 0;
      CHECK(zo_binary_cross_entropy_s8(logits.at, samples, n, 128, scale, binary, losses) ==
            ZO_ERROR_ARGUMENT);
      CHECK(zo_mean_squared_error_s8(logits.at, targets.at, samples, n, 1, 0, losses) ==
            ZO_ERROR_ARGUMENT);
      CHECK(zo_mean_squared_error_s8(logits.at, targets.at, samples, n, INT32_MAX, 63, losses) ==
            ZO_ERROR_ARGUMENT);
      CHECK(zo_mean_squared_error_s8(logits.at, targets.at, samples, n, INT32_MAX, -1, losses) ==
            ZO_ERROR_ARGUMENT);
      CHECK(zo_mean_squared_error_s8(logits.at, NULL, samples, n, INT32_MAX, 0, losses) ==
            ZO_ERROR_ARGUMENT);
      CHECK(zo_cross_entropy_s8(NULL, samples, n, scale, labels, losses) == ZO_ERROR_ARGUMENT);
      CHECK(zo_floor_log2_loss_s8(NULL, samples, n, scale, labels, losses) == ZO_ERROR_ARGUMENT);
      const zo_logit_scale none = {0, 0};
      labels[samples - 1] = 0;
      CHECK(zo_cross_entropy_s8(logits.at, samples, n, none, labels, losses) == ZO_ERROR_ARGUMENT);
      CHECK(zo_floor_log2_loss_s8(logits.at, samples, n, none, labels, losses) ==
            ZO_ERROR_ARGUMENT);
      CHECK(losses[0] == 77 && errors[0] == 77);
      free(logits.memory);
      free(targets.memory);
      free(labels);
      free(binary);
      free(losses);
      free(errors);
    }
  }

  enum { kElements = 1 << 20 };
  array most = make_array(kElements, 0, 0), least = make_array(kElements, 0, 0);
  memset(most.at, 127, kElements);
  memset(least.at, -128, kElements);
  int32_t loss = 0;
  CHECK(zo_mean_squared_error_s8(most.at, least.at, 1, kElements, INT32_MAX, 0, &loss) == ZO_OK);
  CHECK(loss == INT32_MAX);
  CHECK(zo_mean_squared_error_s8(most.at, least.at, 1, kElements, INT32_C(1) << 30, 50, &loss) ==
        ZO_OK);
  CHECK(loss == 65025); /* 255^2 2^20 2^30 / 2^50 */
  free(most.memory);
  free(least.memory);
}

/* --- commands ------------------------------------------------------------------ */

enum { kCapacity = 64 };

static const zo_limits limits = {6, 5, 3};

/* Appends random instructions in order; returns a copy of exactly the words in use. */
static int32_t* random_command(uint32_t* length, uint32_t flags) {
  int32_t words[kCapacity];
  zo_command_writer writer;
  CHECK(zo_command_begin(&writer, words, kCapacity, flags) == ZO_OK);
  static const zo_distribution small[] = {
      {ZO_RADEMACHER, 0, 3}, {ZO_SPARSE_UNIFORM, 90, 6}, {ZO_GAUSSIAN, 0, 200}};
  for (int opcode = 1; opcode <= 4; ++opcode) {
    for (uint32_t repeat = random_below(3); repeat > 0; --repeat) {
      const uint32_t block_number = random_below(2) ? ZO_ALL_BLOCKS : random_below(limits.blocks);
      const zo_distribution distribution = small[random_below(3)];
      zo_query queries[10];
      zo_perturb_term terms[5];
      random_queries(queries, 10, 50000);
      for (int t = 0; t < 5; ++t) {
        terms[t].seed = random_u32();
        terms[t].k = t % 2 ? 1 : -2;
      }
      const uint32_t count = 1 + random_below(limits.max_queries);
      zo_status status;
      if (opcode == ZO_OP_RESTORE) {
        status = zo_command_restore(&writer, block_number);
      } else if (opcode == ZO_OP_REPLAY) {
        status = zo_command_replay(&writer, block_number, distribution, queries, count,
                                   count <= 3 ? 3 : 2);
      } else if (opcode == ZO_OP_UPDATE) {
        const zo_perturb_terms restore = {terms, random_below(3), 0};
        status = zo_command_update(&writer, block_number, distribution,
                                   random_below(2) ? NULL : &restore, queries, count);
      } else {
        const zo_perturb_terms all = {terms, count, 0};
        status = zo_command_perturb(&writer, block_number, distribution, &all);
      }
      CHECK(status == ZO_OK || status == ZO_ERROR_CAPACITY);
    }
  }
  int32_t* exact = (int32_t*)allocate(sizeof(int32_t) * writer.length);
  memcpy(exact, words, sizeof(int32_t) * writer.length);
  *length = writer.length;
  return exact;
}

static void test_commands(void) {
  unsigned accepted = 0;
  for (int round = 0; round < ROUNDS(3000); ++round) {
    uint32_t length;
    int32_t* words = random_command(&length, (uint32_t)round % 4u);
    CHECK(zo_command_check(words, length, &limits) == ZO_OK);
    CHECK(zo_command_flags(words) == (uint32_t)round % 4u);

    array weights = make_array(sizes[(unsigned)round % SIZES], (uint32_t)round % 4u, 120);
    array fraction = make_array(weights.size, 1, 100), initial = make_array(weights.size, 1, 120);
    const zo_tensor tensor = tensor_of(&weights, round % 2 ? &fraction : NULL, 4);
    uint32_t saturated = 0;
    for (int opcode = ZO_OP_RESTORE; opcode <= ZO_OP_PERTURB; ++opcode) {
      (void)zo_command_steps(words, (zo_opcode)opcode);
      CHECK(zo_command_execute(words, (zo_opcode)opcode, &tensor, (uint32_t)round % 3u, initial.at,
                               &saturated) == ZO_OK);
    }

    /* Damaged: refused or executed, never beyond its memory. */
    for (int damage = 0; damage < 10; ++damage) {
      const uint32_t at = random_below(length);
      const int32_t old = words[at];
      static const int32_t odd[] = {0,         1,         -1,      5,       6,
                                    INT32_MAX, INT32_MIN, 1 << 24, 3 << 24, 4 << 24};
      words[at] = random_below(2) ? odd[random_below(10)] : (int32_t)random_u32();
      if (zo_command_check(words, length, &limits) == ZO_OK) {
        ++accepted;
        for (int opcode = ZO_OP_RESTORE; opcode <= ZO_OP_PERTURB; ++opcode) {
          CHECK(zo_command_execute(words, (zo_opcode)opcode, &tensor, 1, initial.at, &saturated) ==
                ZO_OK);
        }
      }
      words[at] = old;
    }
    for (uint32_t cut = 2; cut < length; ++cut) {
      CHECK(zo_command_check(words, cut, &limits) == ZO_ERROR_COMMAND);
    }
    free(words);
    free(weights.memory);
    free(fraction.memory);
    free(initial.memory);
  }
  CHECK(accepted > 100);

  int32_t words[8];
  zo_command_writer writer;
  CHECK(zo_command_begin(NULL, words, 8, 0) == ZO_ERROR_ARGUMENT);
  CHECK(zo_command_begin(&writer, NULL, 8, 0) == ZO_ERROR_ARGUMENT);
  CHECK(zo_command_begin(&writer, words, 8, 4) == ZO_ERROR_ARGUMENT);
  CHECK(zo_command_begin(&writer, words, 1, 0) == ZO_ERROR_CAPACITY);
  CHECK(zo_command_begin(&writer, words, 8, 0) == ZO_OK);
  CHECK(zo_command_restore(NULL, 0) == ZO_ERROR_ARGUMENT);
  CHECK(zo_command_restore(&writer, UINT32_C(0xFFFFFF)) == ZO_ERROR_BLOCK);
  CHECK(zo_command_update(&writer, 0, distributions[0], NULL, NULL, 1) == ZO_ERROR_ARGUMENT);
  zo_query queries[2] = {{1, 1}, {2, 2}};
  CHECK(zo_command_update(&writer, 0, distributions[0], NULL, queries, 2) == ZO_ERROR_CAPACITY);
  CHECK(zo_command_replay(&writer, 0, distributions[0], queries, 2, UINT32_MAX) ==
        ZO_ERROR_CAPACITY);
  CHECK(zo_command_update(&writer, 0, distributions[0], NULL, queries, UINT32_MAX) ==
        ZO_ERROR_CAPACITY);
  CHECK(writer.length == 2 && words[1] == 0);
  CHECK(zo_command_check(words, 8, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_command_check(NULL, 8, &limits) == ZO_ERROR_ARGUMENT);
  CHECK(zo_command_check(words, 1, &limits) == ZO_ERROR_ARGUMENT);
}

/* --- nodes ------------------------------------------------------------------------ */

enum { kMaxTensors = 4, kMaxInputs = 2 + 4 * kMaxTensors };

typedef struct graph {
  zo_buffer inputs[kMaxInputs];
  int32_t input_count;
  zo_buffer outputs[1];
  uint8_t* options; /* exact size, odd address */
  size_t options_bytes;
  char* options_memory;
} graph;

static zo_buffer graph_source(void* context, int32_t index) {
  const graph* g = (const graph*)context;
  const zo_buffer nothing = {NULL, 0};
  if (index >= 0) return index < g->input_count ? g->inputs[index] : nothing;
  return index == -1 ? g->outputs[0] : nothing;
}

static void put_u16(uint8_t* at, uint32_t value) {
  at[0] = (uint8_t)value;
  at[1] = (uint8_t)(value >> 8);
}

static void put_u32(uint8_t* at, uint32_t value) {
  put_u16(at, value & 0xFFFFu);
  put_u16(at + 2, value >> 16);
}

static void set_options(graph* g, size_t bytes) {
  g->options_memory = (char*)allocate(bytes + 1);
  g->options = (uint8_t*)g->options_memory + 1;
  g->options_bytes = bytes;
  memset(g->options, 0, bytes);
}

static zo_buffer buffer_of(void* data, size_t bytes) {
  zo_buffer buffer;
  buffer.data = data;
  buffer.bytes = (uint32_t)bytes;
  return buffer;
}

/* A segment: three weight ops over the same tensors. */
typedef struct segment {
  graph ops[3]; /* replay, update, perturb */
  array weights[kMaxTensors];
  array all_initial, all_fraction;                   /* of the segment */
  array initial[kMaxTensors], fraction[kMaxTensors]; /* parts of them */
  int32_t* multiplier[kMaxTensors];
  array mask[kMaxTensors]; /* exact size; of the second tensor none */
  int32_t *command, *state, *status;
  uint32_t tensors, words;
} segment;

static const zo_opcode op_order[3] = {ZO_OP_REPLAY, ZO_OP_UPDATE, ZO_OP_PERTURB};

static int is_int16(uint32_t t, uint32_t flags) {
  return t % 2u == 0u && (flags & ZO_OPTION_FRACTION) != 0u;
}

static void make_segment(segment* s, uint32_t tensors, uint32_t words, uint32_t flags) {
  memset(s, 0, sizeof *s);
  s->tensors = tensors;
  s->words = words;
  s->command = (int32_t*)allocate(sizeof(int32_t) * words);
  s->state = (int32_t*)allocate(sizeof(int32_t) * ZO_STATE_WORDS);
  s->status = (int32_t*)allocate(sizeof(int32_t) * ZO_STATUS_WORDS);
  memset(s->command, 0, sizeof(int32_t) * words);
  memset(s->state, 0, sizeof(int32_t) * ZO_STATE_WORDS);
  memset(s->status, 0x55, sizeof(int32_t) * ZO_STATUS_WORDS);
  uint32_t total = 0;
  for (uint32_t t = 0; t < tensors; ++t) total += sizes[(t * 5 + tensors) % SIZES];
  s->all_initial = make_array(total, 1, 121);
  s->all_fraction = make_array(total, 2, 0);
  uint32_t offset = 0;
  for (uint32_t t = 0; t < tensors; ++t) {
    const uint32_t size = sizes[(t * 5 + tensors) % SIZES];
    s->weights[t] = make_array(size, t, 0); /* zero, as a runtime leaves a variable */
    s->initial[t] = part_of(&s->all_initial, offset, size);
    s->fraction[t] = part_of(&s->all_fraction, offset, size);
    offset += size;
    s->multiplier[t] = (int32_t*)allocate(sizeof(int32_t) * 2);
    s->multiplier[t][0] = INT32_MAX;
    s->multiplier[t][1] = INT32_C(1) << 29;
    s->mask[t] = make_array((size + 7u) / 8u, t, 127);
    s->mask[t].at[0] |= 1; /* something moves */
  }
  for (int op = 0; op < 3; ++op) {
    graph* g = &s->ops[op];
    set_options(g, 8 + 12 * tensors);
    g->options[0] = ZO_OPTIONS_VERSION;
    g->options[1] =
        (uint8_t)(flags | (op == 0 ? ZO_OPTION_FIRST : 0u) | (op == 2 ? ZO_OPTION_LAST : 0u));
    g->options[2] = (uint8_t)limits.headroom;
    g->options[3] = (uint8_t)limits.max_queries;
    put_u16(g->options + 4, tensors);
    put_u16(g->options + 6, limits.blocks);
    g->inputs[g->input_count++] = buffer_of(s->command, sizeof(int32_t) * words);
    g->inputs[g->input_count++] = buffer_of(s->state, sizeof(int32_t) * ZO_STATE_WORDS);
    g->inputs[g->input_count++] = buffer_of(s->all_initial.at, s->all_initial.size);
    if (flags & ZO_OPTION_FRACTION) {
      g->inputs[g->input_count++] = buffer_of(s->all_fraction.at, s->all_fraction.size);
    }
    for (uint32_t t = 0; t < tensors; ++t) {
      uint8_t* entry = g->options + 8 + 12 * t;
      put_u16(entry, 10 + t); /* stream */
      put_u16(entry + 2,
              t % limits.blocks | (is_int16(t, flags) ? ZO_OPTION_INT16 : 0u)); /* array */
      put_u32(entry + 4, 2);                                                    /* channels */
      put_u32(entry + 8, 3);                                                    /* inner */
      g->inputs[g->input_count++] = buffer_of(s->weights[t].at, s->weights[t].size);
      if (flags & ZO_OPTION_MULTIPLIER) {
        g->inputs[g->input_count++] = buffer_of(s->multiplier[t], sizeof(int32_t) * 2);
      }
      if (flags & ZO_OPTION_MASK) {
        g->inputs[g->input_count++] =
            t == 1u ? buffer_of(NULL, 0) : buffer_of(s->mask[t].at, s->mask[t].size);
      }
    }
    if (op == 2) g->outputs[0] = buffer_of(s->status, sizeof(int32_t) * ZO_STATUS_WORDS);
  }
}

static void free_segment(segment* s) {
  for (uint32_t t = 0; t < s->tensors; ++t) {
    free(s->weights[t].memory);
    free(s->multiplier[t]);
    free(s->mask[t].memory);
  }
  free(s->all_initial.memory);
  free(s->all_fraction.memory);
  for (int op = 0; op < 3; ++op) free(s->ops[op].options_memory);
  free(s->command);
  free(s->state);
  free(s->status);
}

static zo_status invoke(segment* s, zo_directory* directory) {
  for (int op = 0; op < 3; ++op) {
    graph* g = &s->ops[op];
    const zo_status status =
        zo_weight_op_run(op_order[op], g->options, g->options_bytes, graph_source, g, directory);
    if (status != ZO_OK) return status;
  }
  return ZO_OK;
}

static zo_tensor segment_tensor(const segment* s, uint32_t t, uint32_t flags) {
  zo_tensor tensor =
      tensor_of(&s->weights[t], flags & ZO_OPTION_FRACTION ? &s->fraction[t] : NULL, 10 + t);
  tensor.limit = 127 - (int32_t)limits.headroom;
  tensor.channels = 2;
  tensor.inner = 3;
  tensor.type = is_int16(t, flags) ? ZO_TENSOR_INT16 : ZO_TENSOR_INT8;
  if (flags & ZO_OPTION_MULTIPLIER) tensor.multiplier = s->multiplier[t];
  if ((flags & ZO_OPTION_MASK) && t != 1u) tensor.mask = (const uint8_t*)s->mask[t].at;
  return tensor;
}

static uint32_t segment_checksum(const segment* s, uint32_t flags) {
  uint32_t sum = 0;
  for (uint32_t t = 0; t < s->tensors; ++t) {
    const zo_tensor tensor = segment_tensor(s, t, flags);
    sum += zo_checksum(&tensor);
  }
  return sum;
}

static int is_initial(const segment* s) {
  for (uint32_t t = 0; t < s->tensors; ++t) {
    if (!same(&s->weights[t], &s->initial[t])) return 0;
  }
  return 1;
}

static void reset_by_runtime(segment* s) {
  memset(s->state, 0, sizeof(int32_t) * ZO_STATE_WORDS);
  for (uint32_t t = 0; t < s->tensors; ++t) {
    memset(s->weights[t].at, 0, s->weights[t].size);
    memset(s->fraction[t].at, 0, s->fraction[t].size);
  }
}

static zo_status append_perturb(zo_command_writer* writer, zo_distribution distribution,
                                const zo_perturb_term* term) {
  const zo_perturb_terms terms = {term, 1, 0};
  return zo_command_perturb(writer, ZO_ALL_BLOCKS, distribution, &terms);
}

static void test_weight_op(uint32_t tensors, uint32_t flags) {
  segment s;
  make_segment(&s, tensors, kCapacity, flags);
  for (int op = 0; op < 3; ++op) {
    graph* g = &s.ops[op];
    CHECK(zo_weight_op_check(g->options, g->options_bytes, graph_source, g) == ZO_OK);
  }

  /* A plain inference initializes the weights and counts nothing. */
  zo_directory_entry entries[2];
  zo_directory directory = {ZO_DIRECTORY_MAGIC, 2, 0, entries};
  CHECK(invoke(&s, &directory) == ZO_OK);
  CHECK(is_initial(&s));
  CHECK(s.state[0] == ZO_STATE_MAGIC);
  CHECK(s.status[0] == 0 && s.status[1] == 0 && s.status[2] == 0 && s.status[3] == 0);
  CHECK(directory.count == tensors);
  CHECK(entries[0].weights == s.weights[0].at && entries[0].size == s.weights[0].size);
  CHECK(entries[0].stream == 10);
  CHECK(entries[0].fraction == (flags & ZO_OPTION_FRACTION ? s.fraction[0].at : NULL));

  /* An update, with the checksum, of all blocks and then of one. */
  const zo_distribution distribution = {ZO_RADEMACHER, 0, 2};
  const zo_query query = {99, 400000};
  const zo_perturb_term plus = {77, 1}, minus = {77, -1};
  zo_command_writer writer;
  CHECK(zo_command_begin(&writer, s.command, s.words, ZO_FLAG_CHECKSUM) == ZO_OK);
  CHECK(zo_command_update(&writer, ZO_ALL_BLOCKS, distribution, NULL, &query, 1) == ZO_OK);
  CHECK(invoke(&s, NULL) == ZO_OK);
  CHECK(s.status[0] == s.command[0] && s.status[1] == 1);
  CHECK((uint32_t)s.status[3] == segment_checksum(&s, flags));
  for (uint32_t t = 0; t < tensors; ++t) {
    array expected = copy_array(&s.initial[t], 0), fraction = make_array(expected.size, 0, 0);
    zo_tensor tensor = segment_tensor(&s, t, flags);
    tensor.weights = expected.at;
    if (tensor.fraction != NULL) tensor.fraction = fraction.at;
    CHECK(zo_update_s8(&tensor, distribution, NULL, &query, 1, NULL) == ZO_OK);
    CHECK(same(&s.weights[t], &expected));
    CHECK(tensor.fraction == NULL || same(&s.fraction[t], &fraction));
    free(expected.memory);
    free(fraction.memory);
  }

  /* Perturbed, then back. */
  const uint32_t before = segment_checksum(&s, flags);
  CHECK(zo_command_begin(&writer, s.command, s.words, ZO_FLAG_LOSS) == ZO_OK);
  CHECK(append_perturb(&writer, distribution, &plus) == ZO_OK);
  CHECK(invoke(&s, NULL) == ZO_OK);
  CHECK(segment_checksum(&s, flags) != before && s.status[3] == 0);
  CHECK(zo_command_begin(&writer, s.command, s.words, 0) == ZO_OK);
  CHECK(append_perturb(&writer, distribution, &minus) == ZO_OK);
  CHECK(invoke(&s, NULL) == ZO_OK);
  CHECK(segment_checksum(&s, flags) == before);

  /* One block only. */
  CHECK(zo_command_begin(&writer, s.command, s.words, 0) == ZO_OK);
  CHECK(zo_command_restore(&writer, 0) == ZO_OK);
  CHECK(invoke(&s, NULL) == ZO_OK);
  CHECK(same(&s.weights[0], &s.initial[0]));
  CHECK(tensors == 1 || s.weights[1].size < 20 || !same(&s.weights[1], &s.initial[1]));

  /* What is wrong in the last instruction stops the first. */
  const uint32_t now = segment_checksum(&s, flags);
  const zo_distribution too_large = {ZO_RADEMACHER, 0, 7};
  CHECK(zo_command_begin(&writer, s.command, s.words, 0) == ZO_OK);
  CHECK(zo_command_restore(&writer, ZO_ALL_BLOCKS) == ZO_OK);
  CHECK(zo_command_update(&writer, ZO_ALL_BLOCKS, distribution, NULL, &query, 1) == ZO_OK);
  CHECK(append_perturb(&writer, too_large, &plus) == ZO_OK);
  CHECK(invoke(&s, NULL) == ZO_ERROR_HEADROOM);
  CHECK(segment_checksum(&s, flags) == now);

  /* The runtime resets the variables: the initial weights come back by themselves. */
  reset_by_runtime(&s);
  memset(s.command, 0, sizeof(int32_t) * s.words);
  s.ops[2].outputs[0].data = NULL; /* nobody reads the status */
  CHECK(invoke(&s, NULL) == ZO_OK);
  CHECK(is_initial(&s) && s.state[1] == 0);

  /* Random commands, some damaged. */
  for (int round = 0; round < ROUNDS(300); ++round) {
    uint32_t length;
    int32_t* words = random_command(&length, (uint32_t)round % 4u);
    memcpy(s.command, words, sizeof(int32_t) * length);
    if (round % 3 == 0) {
      const uint32_t at = random_below(length);
      s.command[at] = (int32_t)random_u32();
    }
    const uint32_t sum = segment_checksum(&s, flags);
    if (invoke(&s, NULL) != ZO_OK) CHECK(segment_checksum(&s, flags) == sum);
    free(words);
  }

  /* Damaged options and tensors are refused, or harmless. */
  for (int op = 0; op < 3; ++op) {
    graph* g = &s.ops[op];
    CHECK(zo_weight_op_check(NULL, 100, graph_source, g) == ZO_ERROR_OPTIONS);
    CHECK(zo_weight_op_check(g->options, g->options_bytes, NULL, g) == ZO_ERROR_ARGUMENT);
    for (size_t cut = 0; cut < g->options_bytes; ++cut) {
      char* copy = (char*)allocate(cut > 0 ? cut : 1);
      memcpy(copy, g->options, cut);
      CHECK(zo_weight_op_check((uint8_t*)copy, cut, graph_source, g) == ZO_ERROR_OPTIONS);
      CHECK(zo_weight_op_run(op_order[op], (uint8_t*)copy, cut, graph_source, g, NULL) ==
            ZO_ERROR_OPTIONS);
      free(copy);
    }
    for (int round = 0; round < ROUNDS(2000); ++round) {
      const size_t at = random_below((uint32_t)g->options_bytes);
      const uint8_t old = g->options[at];
      g->options[at] = (uint8_t)random_u32();
      if (zo_weight_op_check(g->options, g->options_bytes, graph_source, g) == ZO_OK) {
        (void)zo_weight_op_run(op_order[op], g->options, g->options_bytes, graph_source, g, NULL);
      }
      g->options[at] = old;
    }
    for (int32_t i = 0; i < g->input_count; ++i) {
      const uint32_t old = g->inputs[i].bytes;
      g->inputs[i].bytes = i == 0 ? 4 : old + 1;
      CHECK(zo_weight_op_check(g->options, g->options_bytes, graph_source, g) == ZO_ERROR_ARGUMENT);
      g->inputs[i].bytes = ZO_NO_SIZE;
      CHECK(zo_weight_op_check(g->options, g->options_bytes, graph_source, g) == ZO_ERROR_ARGUMENT);
      g->inputs[i].bytes = old;
    }
    /* A tensor without memory: nothing is done, not even to the others. */
    const uint32_t untouched = segment_checksum(&s, flags);
    CHECK(zo_command_begin(&writer, s.command, s.words, 0) == ZO_OK);
    CHECK(zo_command_restore(&writer, ZO_ALL_BLOCKS) == ZO_OK);
    CHECK(zo_command_update(&writer, ZO_ALL_BLOCKS, distribution, NULL, &query, 1) == ZO_OK);
    for (int32_t i = 0; i < g->input_count; ++i) {
      void* const old = g->inputs[i].data;
      if (g->inputs[i].bytes == 0u) continue; /* an absent mask */
      g->inputs[i].data = NULL;
      CHECK(zo_weight_op_check(g->options, g->options_bytes, graph_source, g) == ZO_OK);
      CHECK(zo_weight_op_run(op_order[op], g->options, g->options_bytes, graph_source, g, NULL) ==
            ZO_ERROR_ARGUMENT);
      CHECK(segment_checksum(&s, flags) == untouched);
      g->inputs[i].data = old;
    }
    /* The op would write what it reads lengths from. */
    const zo_buffer command = g->inputs[0];
    for (int32_t i = 1; i < g->input_count; ++i) {
      if (g->inputs[i].bytes == 0u) continue;
      g->inputs[0].data = g->inputs[i].data;
      const uint32_t size = g->inputs[i].bytes / 4u * 4u;
      g->inputs[0].bytes = size > command.bytes ? command.bytes : size;
      CHECK(zo_weight_op_run(op_order[op], g->options, g->options_bytes, graph_source, g, NULL) ==
            ZO_ERROR_ARGUMENT);
      CHECK(segment_checksum(&s, flags) == untouched);
    }
    g->inputs[0] = command;
    CHECK(zo_weight_op_run(op_order[op], g->options, g->options_bytes, NULL, g, NULL) ==
          ZO_ERROR_ARGUMENT);
    if (op == 2) { /* a status that is written beyond its end */
      const zo_buffer old = g->outputs[0];
      int32_t* none = (int32_t*)allocate(1); /* not null, and yet without a size: absent */
      g->outputs[0] = buffer_of(none, 0);
      CHECK(zo_weight_op_check(g->options, g->options_bytes, graph_source, g) == ZO_OK);
      memset(s.command, 0, sizeof(int32_t) * s.words);
      CHECK(zo_weight_op_run(op_order[op], g->options, g->options_bytes, graph_source, g, NULL) ==
            ZO_OK);
      free(none);
      g->outputs[0] = buffer_of(s.status, sizeof(int32_t));
      CHECK(zo_weight_op_check(g->options, g->options_bytes, graph_source, g) == ZO_ERROR_ARGUMENT);
      g->outputs[0] = old;
    }
    const int32_t count = g->input_count;
    g->input_count = count - 1;
    const zo_status status = zo_weight_op_check(g->options, g->options_bytes, graph_source, g);
    CHECK(status == ZO_ERROR_ARGUMENT || flags & (ZO_OPTION_MULTIPLIER | ZO_OPTION_MASK));
    g->input_count = count;
  }
  /* Multipliers and masks that point somewhere and have no size are absent, too. */
  void* nothing = allocate(1);
  CHECK(zo_command_begin(&writer, s.command, s.words, 0) == ZO_OK);
  CHECK(zo_command_update(&writer, ZO_ALL_BLOCKS, distribution, NULL, &query, 1) == ZO_OK);
  const uint32_t extras =
      (uint32_t)((flags & ZO_OPTION_MULTIPLIER) != 0u) + (uint32_t)((flags & ZO_OPTION_MASK) != 0u);
  const int32_t first = (flags & ZO_OPTION_FRACTION) != 0u ? 4 : 3;
  for (uint32_t t = 0; t < tensors; ++t) {
    for (uint32_t i = 1; i <= extras; ++i) {
      s.ops[1].inputs[first + (int32_t)(t * (1u + extras) + i)] = buffer_of(nothing, 0);
    }
  }
  CHECK(zo_weight_op_run(ZO_OP_UPDATE, s.ops[1].options, s.ops[1].options_bytes, graph_source,
                         &s.ops[1], NULL) == ZO_OK);
  free(nothing);
  free_segment(&s);
}

/* --- int16 layers ------------------------------------------------------------------ */

static void test_int16_perturbation(void) {
  for (size_t s = 0; s < SIZES; ++s) {
    const array weights = make_array(sizes[s], 1, 127), fraction = make_array(sizes[s], 3, 127);
    const array before = copy_array(&weights, 0), parts = copy_array(&fraction, 0);
    zo_tensor tensor = tensor_of(&weights, &fraction, random_below(100));
    tensor.type = ZO_TENSOR_INT16;
    for (size_t d = 0; d < DISTRIBUTIONS; ++d) {
      zo_perturb_term term = {random_u32(), 1};
      const zo_perturb_terms terms = {&term, 1, 0};
      static const int32_t factors[3] = {1, -2, 1};
      for (int i = 0; i < 3; ++i) {
        term.k = factors[i];
        CHECK(zo_perturb_s8(&tensor, distributions[d], &terms) == ZO_OK);
        digest = digest * 31u + zo_checksum(&tensor);
      }
      CHECK(same(&weights, &before) && same(&fraction, &parts));
    }
    const zo_distribution gaussian = {ZO_GAUSSIAN, 0, 40};
    const zo_perturb_term term = {3, 1};
    const zo_perturb_terms terms = {&term, 1, 0};
    zo_tensor bad = tensor;
    bad.fraction = NULL;
    CHECK(zo_perturb_s8(&bad, gaussian, &terms) == ZO_ERROR_ARGUMENT);
    bad = tensor;
    bad.limit = 128;
    CHECK(zo_perturb_s8(&bad, gaussian, &terms) == ZO_ERROR_ARGUMENT);
    CHECK(same(&weights, &before) && same(&fraction, &parts));
    free(weights.memory);
    free(fraction.memory);
    free(before.memory);
    free(parts.memory);
  }
}

static zo_status int16_op(graph* g) {
  const zo_status status = zo_int16_op_check(g->options, g->options_bytes, graph_source, g);
  return status != ZO_OK ? status : zo_int16_op_run(g->options, g->options_bytes, graph_source, g);
}

/* Every buffer ends where its memory ends: what the layer reads beyond, the sanitizers see. */
static void test_int16_op(uint32_t per_channel, uint32_t with_bias) {
  enum { kSamples = 3, kUnits = 5, kDepth = 33, kFirst = 11, kSize = kUnits * kDepth };
  graph g;
  memset(&g, 0, sizeof g);
  set_options(&g, 16u + 5u * (per_channel ? kUnits : 1u));
  g.options[0] = ZO_OPTIONS_VERSION;
  g.options[1] = (uint8_t)(per_channel ? ZO_OPTION_PER_CHANNEL : 0u);
  g.options[2] = (uint8_t)-7;
  g.options[3] = 9;
  g.options[4] = (uint8_t)-128;
  g.options[5] = 127;
  put_u32(g.options + 8, kFirst);
  put_u32(g.options + 12, kUnits);
  for (size_t at = 16; at < g.options_bytes; at += 5) {
    put_u32(g.options + at, UINT32_C(1) << 30 | (random_u32() >> 2));
    g.options[at + 4] = (uint8_t)-9;
  }
  array x = make_array(kSamples * kDepth, 1, 127), w = make_array(kSize, 2, 127);
  array fraction = make_array(kFirst + kSize, 3, 127), y = make_array(kSamples * kUnits, 1, 0);
  int32_t* bias = (int32_t*)allocate(sizeof(int32_t) * kUnits);
  for (uint32_t u = 0; u < kUnits; ++u) bias[u] = random_between(-100000, 100000);
  g.inputs[0] = buffer_of(x.at, x.size);
  g.inputs[1] = buffer_of(w.at, w.size);
  if (with_bias) g.inputs[2] = buffer_of(bias, sizeof(int32_t) * kUnits);
  g.inputs[3] = buffer_of(fraction.at, fraction.size);
  g.input_count = 4;
  g.outputs[0] = buffer_of(y.at, y.size);
  CHECK(int16_op(&g) == ZO_OK);
  for (uint32_t i = 0; i < y.size; ++i) digest = digest * 31u + (uint8_t)y.at[i];

  /* A sum in one go, and one rounding of what is left: within an LSB of the two roundings. */
  for (uint32_t s = 0; s < kSamples; ++s) {
    for (uint32_t u = 0; u < kUnits; ++u) {
      int64_t sum = with_bias ? 256 * (int64_t)bias[u] : 0;
      for (uint32_t i = 0; i < kDepth; ++i) {
        const uint32_t at = u * kDepth + i;
        sum += (int64_t)(256 * w.at[at] + fraction.at[kFirst + at]) * (x.at[s * kDepth + i] + 7);
      }
      const uint8_t* m = g.options + 16 + (per_channel ? 5 * u : 0);
      const double real = (double)((uint32_t)m[0] | (uint32_t)m[1] << 8 | (uint32_t)m[2] << 16 |
                                   (uint32_t)m[3] << 24) /
                          2147483648.0 / 512.0;
      double expected = (double)sum / 256.0 * real + 9.0;
      expected = expected < -128.0 ? -128.0 : (expected > 127.0 ? 127.0 : expected);
      const double error = expected - (double)y.at[s * kUnits + u];
      CHECK(error > -0.51 && error < 0.51);
    }
  }

  /* Damaged options and sizes are refused, or harmless. */
  CHECK(zo_int16_op_check(NULL, 100, graph_source, &g) == ZO_ERROR_OPTIONS);
  CHECK(zo_int16_op_check(g.options, g.options_bytes, NULL, &g) == ZO_ERROR_ARGUMENT);
  for (size_t cut = 0; cut < g.options_bytes; ++cut) {
    char* copy = (char*)allocate(cut > 0 ? cut : 1);
    memcpy(copy, g.options, cut);
    CHECK(zo_int16_op_run((uint8_t*)copy, cut, graph_source, &g) == ZO_ERROR_OPTIONS);
    free(copy);
  }
  for (int round = 0; round < ROUNDS(5000); ++round) {
    const size_t at = random_below((uint32_t)g.options_bytes);
    const uint8_t old = g.options[at];
    g.options[at] = (uint8_t)random_u32();
    (void)int16_op(&g);
    g.options[at] = old;
  }
  for (int32_t i = 0; i < 4; ++i) {
    if (i == 2 && !with_bias) continue;
    const uint32_t old = g.inputs[i].bytes;
    g.inputs[i].bytes = i == 3 ? old - 1u : old + 1u;
    CHECK(int16_op(&g) == ZO_ERROR_ARGUMENT);
    g.inputs[i].bytes = old;
    void* data = g.inputs[i].data;
    g.inputs[i].data = NULL; /* as at Prepare */
    CHECK(zo_int16_op_check(g.options, g.options_bytes, graph_source, &g) == ZO_OK);
    CHECK(int16_op(&g) == ZO_ERROR_ARGUMENT);
    g.inputs[i].data = data;
  }
  g.inputs[2] = buffer_of(x.at, 0); /* a bias without a size is none */
  CHECK(int16_op(&g) == ZO_OK);
  free(g.options_memory);
  free(x.memory);
  free(w.memory);
  free(fraction.memory);
  free(y.memory);
  free(bias);
}

static zo_status loss_op(graph* g) {
  const zo_status status = zo_loss_op_check(g->options, g->options_bytes, graph_source, g);
  return status != ZO_OK ? status : zo_loss_op_run(g->options, g->options_bytes, graph_source, g);
}

static void test_loss_op(void) {
  enum { kSamples = 3, kElements = 7 };
  static const size_t label_bytes[4] = {4 * kSamples, 4 * kSamples * kElements,
                                        kSamples * kElements, 4 * kSamples};
  const zo_logit_scale scale = scale_of(0.1);
  for (uint32_t kind = 0; kind < 4; ++kind) {
    graph g;
    memset(&g, 0, sizeof g);
    set_options(&g, 20);
    g.options[0] = ZO_OPTIONS_VERSION;
    g.options[1] = (uint8_t)kind;
    put_u32(g.options + 4, kElements);
    put_u32(g.options + 8, kind == 1 ? (uint32_t)-5 : 0);
    put_u32(g.options + 12, kind == 2 ? UINT32_C(1) << 30 : scale.scale_log2e);
    put_u32(g.options + 16, kind == 2 ? 25 : scale.scale);
    array logits = make_array(kSamples * kElements, 0, 127);
    int32_t *flags = (int32_t*)allocate(4), *losses = (int32_t*)allocate(4 * kSamples);
    int32_t expected[kSamples];
    void* label = allocate(label_bytes[kind]);
    memset(label, 0, label_bytes[kind]);
    g.inputs[0] = buffer_of(logits.at, logits.size);
    g.inputs[1] = buffer_of(label, label_bytes[kind]);
    g.inputs[2] = buffer_of(flags, 4);
    g.input_count = 3;
    g.outputs[0] = buffer_of(losses, 4 * kSamples);

    *flags = (int32_t)(ZO_COMMAND_MAGIC | ZO_FLAG_LOSS);
    CHECK(loss_op(&g) == ZO_OK);
    zo_status status;
    if (kind == 0) {
      status =
          zo_cross_entropy_s8(logits.at, kSamples, kElements, scale, (int32_t*)label, expected);
    } else if (kind == 1) {
      status = zo_binary_cross_entropy_s8(logits.at, kSamples, kElements, -5, scale,
                                          (int32_t*)label, expected);
    } else if (kind == 3) {
      status =
          zo_floor_log2_loss_s8(logits.at, kSamples, kElements, scale, (int32_t*)label, expected);
    } else {
      status = zo_mean_squared_error_s8(logits.at, (int8_t*)label, kSamples, kElements,
                                        INT32_C(1) << 30, 25, expected);
    }
    CHECK(status == ZO_OK && memcmp(losses, expected, sizeof expected) == 0);

    *flags = 0; /* a plain inference: zeros, whatever the label */
    memset(label, 0x7F, label_bytes[kind]);
    CHECK(loss_op(&g) == ZO_OK);
    CHECK(losses[0] == 0 && losses[kSamples - 1] == 0);
    *flags = (int32_t)(ZO_COMMAND_MAGIC | ZO_FLAG_LOSS);
    losses[0] = 77;
    CHECK(loss_op(&g) == (kind == 2 ? ZO_OK : ZO_ERROR_LABEL));
    CHECK(kind == 2 || losses[0] == 77);

    g.outputs[0].data = NULL; /* nobody reads the losses */
    CHECK(loss_op(&g) == ZO_OK);
    g.outputs[0].data = losses;

    for (int32_t i = 0; i < 3; ++i) {
      const zo_buffer old = g.inputs[i];
      g.inputs[i].bytes = i == 2 ? 0 : old.bytes - 1;
      CHECK(loss_op(&g) == ZO_ERROR_ARGUMENT);
      g.inputs[i] = old;
    }
    g.outputs[0].bytes -= 4;
    CHECK(loss_op(&g) == ZO_ERROR_ARGUMENT);
    g.outputs[0].bytes += 4;
    for (size_t cut = 0; cut < 20; ++cut) {
      char* copy = (char*)allocate(cut > 0 ? cut : 1);
      memcpy(copy, g.options, cut);
      CHECK(zo_loss_op_check((uint8_t*)copy, cut, graph_source, &g) == ZO_ERROR_OPTIONS);
      free(copy);
    }
    memset(label, 0, label_bytes[kind]);
    for (int round = 0; round < ROUNDS(3000); ++round) {
      const size_t at = random_below(20);
      const uint8_t old = g.options[at];
      g.options[at] = (uint8_t)random_u32();
      (void)loss_op(&g);
      g.options[at] = old;
    }
    CHECK(zo_loss_op_check(NULL, 20, graph_source, &g) == ZO_ERROR_OPTIONS);
    CHECK(zo_loss_op_check(g.options, 20, NULL, &g) == ZO_ERROR_ARGUMENT);
    free(logits.memory);
    free(flags);
    free(losses);
    free(label);
    free(g.options_memory);
  }
}

/* --- control unit and seed log -------------------------------------------- */

static uint32_t random_bits(uint32_t most) { return random_shifted(32u - most, 31u); }

static zo_control_settings random_settings(void) {
  zo_control_settings s;
  memset(&s, 0, sizeof s);
  s.run_seed = random_u32();
  s.steps = 1u + random_below(6);
  s.samples = 1u + random_bits(random_below(4) == 0 ? 32 : 6) / 2u;
  s.batch = 1u + random_below(4);
  s.parts = 1u + random_below(3);
  s.queries = random_below(4) == 0 ? ZO_MAX_QUERIES : 1u + random_below(4);
  s.estimator = random_below(2);
  s.rule = random_below(3);
  s.distribution = distributions[random_below(DISTRIBUTIONS)];
  s.rate = random_below(3) == 0 ? UINT32_C(0x7FFFFFFF) : random_bits(31) | 1u;
  s.final_rate = random_below(2) == 0 ? 0u : s.rate;
  s.schedule = random_below(4);
  s.warmup_steps = random_below(2) == 0 ? 0u : random_bits(32);
  s.decay = random_below(65537);
  s.decay_steps = 1u + random_below(3);
  s.clip = random_below(2) == 0 ? 0u : random_bits(32);
  s.gradient_norm = random_below(2) == 0 ? 0u : random_bits(32);
  s.blocks = random_below(3);
  s.sharpness = s.estimator == ZO_ANTITHETIC ? random_below(2) : 0u;
  if (s.distribution.kind == ZO_GAUSSIAN && s.queries <= ZO_MAX_QUERIES / 2u && random_below(4)) {
    const uint32_t most = ZO_MAX_QUERIES / s.queries;
    s.chain = 2u + random_below((most < ZO_MAX_CHAIN ? most : ZO_MAX_CHAIN) - 1u);
    s.momentum = 1u + random_below(65535);
  }
  return s;
}

static int32_t random_loss(int kind) {
  static const int32_t extremes[] = {INT32_MAX, INT32_MIN, INT32_MIN + 1, -1, 0, 1};
  if (kind == 0) return extremes[random_below(6)];
  if (kind == 1) return random_between(0, 20 << 16);
  /* The largest difference, always of one sign: twice INT32_MAX after a step of small ones. */
  return kind == 2 ? INT32_MAX : (int32_t)random_u32();
}

static void test_control(void) {
  const uint8_t segments[] = {3, 1, 2};
  for (int round = 0; round < ROUNDS(3000); ++round) {
    const zo_control_settings s = random_settings();
    const uint32_t chain = s.chain > 0u ? s.chain : 1u;
    const zo_limits allowed = {127u, s.queries * chain, s.blocks > 0u ? s.blocks : 1u};
    const int small = zo_distribution_reach(s.distribution) <= 127;
    const uint32_t capacity = zo_control_words(&s);
    int32_t* words = (int32_t*)allocate(4u * capacity);
    int32_t* losses = (int32_t*)allocate(4u * s.batch);
    const uint32_t bytes = zo_log_record_bytes(s.queries);
    uint8_t* record = (uint8_t*)allocate(bytes);
    zo_control c;
    CHECK(zo_control_init(&c, &s, random_below(4) == 0 ? NULL : segments) == ZO_OK);
    if (random_below(4) == 0) {
      const int64_t squares[] = {0, 1, 31, INT64_C(1) << 60, INT64_MAX};
      const uint32_t step = random_below(s.steps);
      CHECK(zo_control_resume(&c, step, squares[random_below(5)]) == ZO_OK);
    }
    const uint32_t first = c.step;
    uint32_t invokes = 0, done = 0, pending;
    zo_request request;
    zo_report report;
    while (zo_control_next(&c, words, capacity, &request) == ZO_OK &&
           request.action == ZO_ACTION_INVOKE) {
      const zo_control before = c;
      zo_request other;
      CHECK(zo_control_next(&c, words, 1, &other) == ZO_ERROR_CAPACITY);
      CHECK(memcmp(&c, &before, sizeof c) == 0);
      CHECK(zo_control_next(&c, words, capacity, &request) == ZO_OK); /* as often as one likes */
      CHECK(memcmp(&c, &before, sizeof c) == 0);
      if (small) CHECK(zo_command_check(words, capacity, &allowed) == ZO_OK);
      for (uint32_t i = 0; i < capacity; ++i) digest = digest * 31u + (uint32_t)words[i];
      CHECK(request.start_segment <= 3u);
      const int kind = (int)random_below(4);
      for (uint32_t i = 0; i < s.batch; ++i) {
        CHECK(zo_sample_at(c.settings, request.first_sample + i) < s.samples);
        losses[i] = random_loss(kind);
      }
      CHECK(zo_control_report(&c, losses, s.batch + 1u, &report) == ZO_ERROR_ARGUMENT);
      CHECK(memcmp(&c, &before, sizeof c) == 0);
      CHECK(zo_control_report(&c, losses, s.batch, &report) == ZO_OK);
      ++invokes;
      if (!report.step_done) continue;
      ++done;
      CHECK(report.step + 1u == c.step && report.rate <= s.rate);
      CHECK(c.mean_square >= 0);
      CHECK(zo_step_check(s.distribution, c.queries, s.queries) == ZO_OK);
      zo_query items[ZO_MAX_QUERIES];
      int32_t coefficients[ZO_MAX_QUERIES];
      for (uint32_t q = 0; q < s.queries; ++q) coefficients[q] = c.queries[q].coefficient;
      const uint32_t count = zo_control_items(&s, report.step, coefficients, items);
      CHECK(count <= s.queries * chain && zo_step_check(s.distribution, items, count) == ZO_OK);
      const uint32_t before_it = random_u32();
      zo_log_write_record(&c, report.mean_loss, before_it, record);
      zo_log_record back;
      CHECK(zo_log_read_record(record, &s, before_it, &back) == ZO_OK);
      CHECK(zo_log_read_record(record, &s, ~before_it, &back) == ZO_ERROR_OPTIONS);
      CHECK(zo_log_read_record(record, &s, before_it, &back) == ZO_OK);
      CHECK(back.step == report.step && back.mean_loss == report.mean_loss);
      CHECK(back.mean_square == c.mean_square);
      for (uint32_t q = 0; q < s.queries; ++q) {
        CHECK(back.coefficients[q] == c.queries[q].coefficient);
      }
      flip_a_bit(record, bytes);
      CHECK(zo_log_read_record(record, &s, before_it, &back) == ZO_ERROR_OPTIONS);
      if (random_below(3) == 0) {
        CHECK(zo_control_settle(&c, words, capacity, &pending) == ZO_OK && pending == 1u);
        if (small) CHECK(zo_command_check(words, capacity, &allowed) == ZO_OK);
        CHECK(zo_control_settle(&c, words, capacity, &pending) == ZO_OK && pending == 0u);
        CHECK(words[1] == 0);
      }
    }
    CHECK(request.action == ZO_ACTION_DONE && c.step == s.steps && done == s.steps - first);
    CHECK(invokes ==
          done * s.parts *
              (s.estimator == ZO_ANTITHETIC ? (2u << s.sharpness) * s.queries : s.queries + 1u));
    CHECK(zo_control_report(&c, losses, s.batch, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_control_settle(&c, words, capacity, &pending) == ZO_OK);
    (void)zo_control_rate(&s, UINT32_MAX);
    (void)zo_sample_at(c.settings, UINT32_MAX);
    free(words);
    free(losses);
    free(record);
  }
  /* The longest run and the largest numbers. */
  zo_control_settings s = random_settings();
  s.steps = UINT32_MAX;
  s.batch = s.parts = 1;
  s.samples = UINT32_MAX;
  s.rate = INT32_MAX;
  s.gradient_norm = s.warmup_steps = s.clip = UINT32_MAX;
  s.decay = 65536;
  s.decay_steps = 1;
  for (s.schedule = 0; s.schedule < 4u; ++s.schedule) {
    for (s.final_rate = 0; s.final_rate < 2u; ++s.final_rate) {
      zo_control c;
      CHECK(zo_control_init(&c, &s, NULL) == ZO_OK);
      CHECK(zo_control_rate(&s, 0) <= s.rate && zo_control_rate(&s, UINT32_MAX) <= s.rate);
      CHECK(zo_sample_at(c.settings, UINT32_MAX - 1u) < s.samples);
    }
  }
}

static void test_log_header(void) {
  uint8_t* bytes = (uint8_t*)allocate(ZO_LOG_HEADER_BYTES);
  zo_log_header header, back;
  for (int round = 0; round < ROUNDS(1000); ++round) {
    zo_control_settings s = random_settings();
    zo_control_settings read;
    for (size_t i = 0; i < sizeof header; ++i) ((uint8_t*)&header)[i] = (uint8_t)random_u32();
    zo_log_write_header(&header, &s, bytes);
    CHECK(zo_log_read_header(bytes, &back, &read) == ZO_OK);
    CHECK(memcmp(&s, &read, sizeof s) == 0 && memcmp(&header, &back, sizeof header) == 0);
    flip_a_bit(bytes, ZO_LOG_HEADER_BYTES);
    CHECK(zo_log_read_header(bytes, &back, &read) == ZO_ERROR_OPTIONS);
    /* What init refuses is refused, whoever wrote the checksum; anything else is kept whole. */
    zo_log_write_header(&header, &s, bytes);
    const uint32_t at = 32u + 4u * random_below(23); /* of a field, drawn before its value */
    put_u32(bytes + at, random_bits(32));
    put_u32(bytes + ZO_LOG_HEADER_BYTES - 4, zo_crc32(0, bytes, ZO_LOG_HEADER_BYTES - 4));
    const zo_status status = zo_log_read_header(bytes, &back, &read);
    const zo_status expected = zo_control_settings_check(&read);
    CHECK(status == (expected == ZO_OK && read.queries != s.queries ? ZO_ERROR_OPTIONS : expected));
    if (status == ZO_OK) {
      uint8_t again[ZO_LOG_HEADER_BYTES];
      zo_log_write_header(&back, &read, again);
      CHECK(memcmp(again, bytes, sizeof again) == 0);
    }
  }
  zo_control_settings s = random_settings();
  s.distribution.kind = ZO_GAUSSIAN;
  s.chain = 33; /* items for 33 queries and more */
  s.momentum = 1;
  zo_log_write_header(&header, &s, bytes);
  CHECK(zo_log_read_header(bytes, &back, &s) != ZO_OK);
  free(bytes);
}

/* No more blocks than a command can name. */
static void test_many_blocks(void) {
  zo_control_settings s = random_settings();
  s.blocks = ZO_BLOCKS_MAX;
  CHECK(zo_control_settings_check(&s) == ZO_OK);
  int32_t words[ZO_COMMAND_HEADER_WORDS + ZO_INSTRUCTION_HEADER_WORDS];
  zo_command_writer writer;
  CHECK(zo_command_begin(&writer, words, sizeof words / sizeof words[0], 0) == ZO_OK);
  CHECK(zo_command_restore(&writer, ZO_BLOCKS_MAX - 1u) == ZO_OK);
  CHECK(zo_command_restore(&writer, ZO_BLOCKS_MAX) == ZO_ERROR_BLOCK);
  s.blocks = ZO_BLOCKS_MAX + 1u;
  CHECK(zo_control_settings_check(&s) == ZO_ERROR_ARGUMENT);
}

static void test_measurements(void) {
  uint8_t bytes[ZO_MEASUREMENT_BYTES];
  for (int round = 0; round < ROUNDS(1000); ++round) {
    zo_measurement m, back;
    m.step = random_u32();
    m.samples = random_u32();
    m.loss = (int64_t)((uint64_t)random_u32() << 32 | random_u32());
    m.correct = random_u32();
    m.data_checksum = random_u32();
    const uint32_t checksum = random_u32();
    zo_measurement_write(&m, checksum, bytes);
    CHECK(zo_measurement_read(bytes, checksum ^ 1u, &back) == ZO_ERROR_OPTIONS);
    CHECK(zo_measurement_read(bytes, checksum, &back) == ZO_OK);
    CHECK(back.step == m.step && back.samples == m.samples && back.loss == m.loss);
    CHECK(back.correct == m.correct && back.data_checksum == m.data_checksum);
    flip_a_bit(bytes, sizeof bytes);
    CHECK(zo_measurement_read(bytes, checksum, &back) == ZO_ERROR_OPTIONS);
  }
  /* Records lie one behind the other in the order in which a run writes them. */
  for (uint32_t steps = 1; steps < 14u; ++steps) {
    for (uint32_t every = 0; every < 16u; ++every) {
      uint32_t at = 100, number = 0;
      for (uint32_t step = 0; step <= steps; ++step) {
        const int due = every > 0u && (step == 0u || step == steps || step % every == 0u);
        CHECK(zo_measurement_is_due(every, steps, step) == due);
        if (due) {
          CHECK(zo_measurement_number(every, step) == number++);
          CHECK(zo_measurement_at(100, 12, every, step) == at);
          at += ZO_MEASUREMENT_BYTES;
        }
        if (step == steps) break;
        CHECK(zo_step_record_at(100, 12, every, step) == at);
        at += 12u;
      }
    }
  }
}

/* --- nodes ------------------------------------------------------------------ */

static zo_node_layer random_layer(void) {
  zo_node_layer l;
  memset(&l, 0, sizeof l);
  l.form = random_below(3);
  l.k_h = 1 + random_below(3);
  l.k_w = 1 + random_below(3);
  l.stride_h = 1 + random_below(2);
  l.stride_w = 1 + random_below(2);
  l.dilation_h = 1 + random_below(2);
  l.dilation_w = 1 + random_below(2);
  l.pad_top = random_below(l.k_h);
  l.pad_left = random_below(l.k_w);
  l.in_h = 1 + random_below(9);
  l.in_w = 1 + random_below(9);
  l.in_c = 1 + random_below(70);
  l.out_h = 1 + random_below(6);
  l.out_w = 1 + random_below(6);
  l.out_c = 1 + random_below(9);
  l.pool_h = 1 + random_below(3);
  l.pool_w = 1 + random_below(3);
  l.pool_stride_h = 1 + random_below(2);
  l.pool_stride_w = 1 + random_below(2);
  l.node_h = l.form == ZO_NODES_PLAIN ? l.out_h : 1;
  l.node_w = l.form == ZO_NODES_PLAIN ? l.out_w : 1;
  if (l.form == ZO_NODES_MAX_POOL) {
    l.node_h = (l.out_h - 1) / l.pool_stride_h + 1;
    l.node_w = (l.out_w - 1) / l.pool_stride_w + 1;
  }
  l.input_zero_point = random_between(-128, 127);
  l.low = random_below(2) ? -129 : random_between(-129, 0);
  l.high = random_below(2) ? 128 : random_between(1, 128);
  l.unmasked = random_below(4) == 0u;
  l.depthwise = random_below(4) == 0u;
  if (l.depthwise == 1u) {
    l.in_c = 1 + random_below(9);
    l.out_c = l.in_c * (1 + random_below(3));
  }
  return l;
}

/* Settings of any rule for the weights of `tensor`, which loses its fraction where that has none.
 */
static zo_node_step random_step(zo_tensor* tensor, uint32_t out_c) {
  zo_node_step step;
  memset(&step, 0, sizeof step);
  step.rule = random_below(4);
  step.rate = random_shifted(1, 31);
  step.clip = 1 + random_below(1u << 24);
  step.seed = random_u32();
  step.rows = random_below(out_c + 1u);
  if (step.rule == ZO_NODE_BITS) {
    step.bits = 1 + random_below(7);
    step.rate = random_u32(); /* not used */
    step.clip = 0;
    tensor->fraction = NULL;
  }
  step.gain.mantissa = random_u32() | UINT32_C(1) << 31;
  step.gain.exponent = random_below(2) ? random_between(-1000, 1000) : random_between(-80, 20);
  return step;
}

/* Settings that are refused, one field at a time. */
static void test_bad_steps(const zo_node_layer* layer, const zo_tensor* tensor,
                           const zo_node_evidence* evidence, int32_t* scratch) {
  zo_tensor t = *tensor;
  zo_node_step good;
  memset(&good, 0, sizeof good);
  good.rate = good.clip = 1;
  t.mask = (const uint8_t*)tensor->weights; /* all weights of a layer are trained, or none */
  CHECK(zo_node_update_s8(layer, &t, 1, evidence, &good, scratch, NULL) == ZO_ERROR_ARGUMENT);
  t.mask = NULL;
  for (uint32_t i = 0; i < 13u; ++i) {
    zo_node_step step = good;
    if (i == 0u) step.rule = 4;
    if (i == 1u) step.rows = layer->out_c + 1u;
    if (i == 2u) step.rate = UINT32_C(1) << 31;
    if (i == 3u) step.clip = 0;
    if (i == 4u) step.clip = (1u << 24) + 1u;
    if (i >= 5u && i < 8u) {
      step.rule = ZO_NODE_BITS;
      step.bits = i == 5u ? 0u : (i == 6u ? 8u : 3u);
      t.fraction = i == 7u ? tensor->weights : NULL;
    }
    if (i >= 10u) {
      step.mean_square.mantissa = i == 10u ? 1u : UINT32_MAX;
      step.mean_square.exponent = i == 11u ? INT32_MIN : INT32_MAX;
    } else if (i >= 8u) {
      step.rule = ZO_NODE_FIXED;
      step.gain.mantissa = i == 8u ? 0u : 1u;
      step.gain.exponent = i == 8u ? 0 : INT32_MAX;
    }
    CHECK(zo_node_update_s8(layer, &t, 1, evidence, &step, scratch, NULL) == ZO_ERROR_ARGUMENT);
    CHECK(i >= 10u || step.mean_square.mantissa == 0u);
  }
}

static zo_tensor biases_of(const zo_node_layer* layer, int32_t* biases) {
  zo_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.weights = (int8_t*)biases;
  tensor.size = 4u * layer->out_c;
  tensor.channels = layer->out_c;
  tensor.inner = 1;
  tensor.stream = 3;
  tensor.type = ZO_TENSOR_INT32;
  return tensor;
}

/* Biases that are refused, and weights in their place. */
static void test_bad_biases(const zo_node_layer* layer, const zo_tensor* filter,
                            const zo_node_evidence* evidence, int32_t* biases, int32_t* scratch) {
  zo_node_step step;
  memset(&step, 0, sizeof step);
  step.rate = step.clip = 1;
  for (uint32_t i = 0; i < 8u; ++i) {
    zo_tensor tensors[3] = {*filter, biases_of(layer, biases), *filter};
    if (i == 0u) tensors[1].type = ZO_TENSOR_INT8;
    if (i == 1u) tensors[1].size -= 4u;
    if (i == 2u) tensors[1].weights += 1;
    if (i == 3u) tensors[1].mask = (const uint8_t*)filter->weights;
    if (i == 4u) tensors[1].fraction = filter->weights;
    if (i == 5u) tensors[0] = tensors[1];
    if (i == 6u) tensors[1] = *filter;
    CHECK(zo_node_update_s8(layer, tensors, i == 7u ? 3u : 2u, evidence, &step, scratch, NULL) ==
          ZO_ERROR_ARGUMENT);
  }
  zo_node_evidence without = *evidence; /* a filter's gradient needs the inputs */
  without.inputs = NULL;
  CHECK(zo_node_update_s8(layer, filter, 1, &without, &step, scratch, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_update_s8(layer, filter, 0, evidence, &step, scratch, NULL) == ZO_ERROR_ARGUMENT);
}

/* Everything that may be done with a layer, in buffers of exact size. */
static void test_node_layer(const zo_node_layer* layer) {
  const uint32_t samples = 1 + random_below(3), queries = 1 + random_below(ZO_MAX_QUERIES);
  const uint32_t nodes = zo_node_count(layer), row = zo_node_row(layer);
  CHECK(zo_node_scratch_values(layer) == row + layer->out_c);
  array outputs = make_array(samples * layer->out_h * layer->out_w * layer->out_c, 1, 127);
  array y = make_array(samples * nodes, 3, 127), moved = make_array(samples * nodes, 0, 0);
  array inputs = make_array(samples * zo_node_input_bytes(layer), 1, 127);
  array weights = make_array(row * layer->out_c, 1, 125), fraction = copy_array(&weights, 0);
  int32_t* biases = (int32_t*)allocate(sizeof(int32_t) * layer->out_c);
  for (uint32_t i = 0; i < layer->out_c; ++i) biases[i] = (int32_t)random_u32();
  const uint32_t route_bytes = samples * zo_node_route_bytes(layer);
  uint8_t* routes = (uint8_t*)allocate(route_bytes);
  int32_t* scratch = (int32_t*)allocate(sizeof(int32_t) * row);
  int32_t* differences = (int32_t*)allocate(sizeof(int32_t) * queries * samples);
  int16_t* errors = (int16_t*)allocate(sizeof(int16_t) * samples * nodes);
  array exponents = make_array(samples, 1, 127);
  uint32_t seeds[ZO_MAX_QUERIES];
  for (uint32_t i = 0; i < queries; ++i) seeds[i] = random_u32();
  for (uint32_t i = 0; i < queries * samples; ++i) differences[i] = (int32_t)random_u32();
  for (uint32_t i = 0; i < samples * nodes; ++i) errors[i] = (int16_t)random_u32();

  CHECK(zo_route_nodes_s8(layer, samples, outputs.at, routes) == ZO_OK);
  CHECK(zo_perturb_nodes_s8(layer, samples, 5, y.at, 9, random_between(-127, 127), moved.at) ==
        ZO_OK);
  zo_tensor tensor = tensor_of(&weights, &fraction, 2);
  tensor.limit = 125;
  zo_node_evidence evidence;
  memset(&evidence, 0, sizeof evidence);
  evidence.samples = samples;
  evidence.queries = queries;
  evidence.inputs = inputs.at;
  evidence.routes = routes;
  evidence.differences = differences;
  evidence.seeds = seeds;
  zo_node_step step;
  memset(&step, 0, sizeof step);
  step.rate = random_u32() >> 1;
  step.clip = 1 + random_below(1u << 24);
  evidence.queries = random_below(2) == 0u ? 0u : ZO_MAX_QUERIES + 1u;
  CHECK(zo_node_update_s8(layer, &tensor, 1, &evidence, &step, scratch, NULL) == ZO_ERROR_QUERIES);
  evidence.queries = queries;
  test_bad_steps(layer, &tensor, &evidence, scratch);
  test_bad_biases(layer, &tensor, &evidence, biases, scratch);
  for (int round = 0; round < 8; ++round) {
    uint32_t saturated = 0;
    /* The filter, the biases alone, both. */
    const int with_filter = round % 3 != 1;
    const uint32_t count = round % 3 == 2 ? 2u : 1u;
    tensor.fraction = round == 2 || round == 3 ? NULL : fraction.at;
    if (round >= 4) step = random_step(&tensor, layer->out_c);
    /* Values for the channels are touched only where a choice is made of them. */
    const int chooses = step.rows != 0u && step.rows != layer->out_c;
    int32_t* scratch_of =
        (int32_t*)allocate(sizeof(int32_t) * (row + (chooses ? layer->out_c : 0u)));
    const zo_tensor tensors[2] = {with_filter ? tensor : biases_of(layer, biases),
                                  biases_of(layer, biases)};
    evidence.inputs = with_filter ? inputs.at : NULL;
    CHECK(zo_node_update_s8(layer, tensors, count, &evidence, &step, scratch_of, &saturated) ==
          ZO_OK);
    free(scratch_of);
    CHECK(saturated <= tensor.size + layer->out_c);
    for (uint32_t i = 0; i < layer->out_c; ++i) digest = digest * 31u + (uint32_t)biases[i];
    for (uint32_t i = 0; i < tensor.size; ++i) {
      CHECK(weights.at[i] >= -125 && weights.at[i] <= 125);
      digest = digest * 31u + (uint8_t)weights.at[i];
    }
    evidence.errors = round % 4 == 2 ? errors : NULL;
    evidence.exponents = round >= 4 ? exponents.at : NULL;
    /* Routes that no outputs lead to must not lead out of the buffers. */
    for (uint32_t i = 0; i < route_bytes; ++i) routes[i] = (uint8_t)random_u32();
  }
  free(outputs.memory);
  free(y.memory);
  free(moved.memory);
  free(inputs.memory);
  free(weights.memory);
  free(fraction.memory);
  free(biases);
  free(exponents.memory);
  free(routes);
  free(scratch);
  free(differences);
  free(errors);
}

/* Updates of a few bits: one of the two integers next to the quotient, odd, never further than the
 * bits allow. */
static void test_pseudo_stochastic(void) {
  CHECK(zo_bit_width(0) == 0u && zo_bit_width(1) == 1u && zo_bit_width(255) == 8u &&
        zo_bit_width(UINT32_MAX) == 32u);
  for (int round = 0; round < ROUNDS(100000); ++round) {
    const uint32_t shift = random_below(32);
    int32_t value = (int32_t)random_shifted(0, 31);
    if (round < 3) value = round == 0 ? INT32_MIN : (round == 1 ? INT32_MAX : 0);
    const int64_t rounded = zo_pseudo_stochastic(value, shift), unit = INT64_C(1) << shift;
    const int64_t error = rounded * unit - value;
    CHECK(error > -unit && error < unit);
    if (value != INT32_MIN) CHECK(zo_pseudo_stochastic(-value, shift) == -rounded);
  }
}

static void test_update_bits(const array* before, uint32_t size, zo_distribution distribution) {
  const uint32_t bits = 1 + random_below(7), seed = random_u32();
  array w = part_of(before, 0, size);
  w = copy_array(&w, 1);
  array back = copy_array(&w, 3);
  zo_tensor tensor = tensor_of(&w, NULL, random_u32());
  uint32_t saturated = 0;
  if (distribution.kind == ZO_COORDINATE) {
    CHECK(zo_update_bits_s8(&tensor, distribution, seed, 1, bits, NULL) == ZO_ERROR_DISTRIBUTION);
    CHECK(same(&w, &back));
    free(w.memory);
    free(back.memory);
    return;
  }
  CHECK(zo_update_bits_s8(&tensor, distribution, seed, 0, bits, &saturated) == ZO_OK);
  CHECK(same(&w, &back) && saturated == 0u);
  CHECK(zo_update_bits_s8(&tensor, distribution, seed, 1, bits, &saturated) == ZO_OK);
  CHECK(saturated <= size);
  for (uint32_t i = 0; i < size; ++i) {
    CHECK(w.at[i] >= -tensor.limit && w.at[i] <= tensor.limit);
    digest = digest * 31u + (uint8_t)w.at[i];
  }
  if (saturated == 0u) { /* undone by the other sign, unless that meets the limit */
    CHECK(zo_update_bits_s8(&tensor, distribution, seed, -1, bits, NULL) == ZO_OK);
    CHECK(same(&w, &back));
  }
  const array kept = copy_array(&w, 0);
  zo_tensor bad = tensor;
  bad.fraction = back.at;
  CHECK(zo_update_bits_s8(&bad, distribution, seed, 1, bits, NULL) == ZO_ERROR_ARGUMENT);
  bad.fraction = NULL;
  bad.limit = 128;
  CHECK(zo_update_bits_s8(&bad, distribution, seed, 1, bits, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_update_bits_s8(NULL, distribution, seed, 1, bits, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_update_bits_s8(&tensor, distribution, seed, 1, 0, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_update_bits_s8(&tensor, distribution, seed, 1, 8, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_update_bits_s8(&tensor, distribution, seed, 2, bits, NULL) == ZO_ERROR_FACTOR);
  for (size_t i = 0; i < BAD_DISTRIBUTIONS; ++i) {
    CHECK(zo_update_bits_s8(&tensor, bad_distributions[i], seed, 1, bits, NULL) ==
          ZO_ERROR_DISTRIBUTION);
  }
  CHECK(same(&w, &kept));
  free(kept.memory);
  free(back.memory);
  free(w.memory);
}

static void test_bits(void) {
  test_pseudo_stochastic();
  array weights = make_array(3000, 0, 120);
  for (size_t i = 0; i < SIZES; ++i) {
    for (size_t d = 0; d < DISTRIBUTIONS; ++d)
      test_update_bits(&weights, sizes[i], distributions[d]);
  }
  free(weights.memory);
}

static void test_nodes(void) {
  for (int round = 0; round < ROUNDS(500); ++round) {
    zo_node_layer layer = random_layer();
    CHECK(zo_node_layer_check(&layer) == ZO_OK);
    test_node_layer(&layer);
    /* Any field may be damaged: refused, or harmless. Large sizes are not run. */
    uint32_t* field = (uint32_t*)&layer + random_below(sizeof layer / sizeof(uint32_t));
    *field = random_below(2) ? random_below(6) : random_u32();
    if (zo_node_layer_check(&layer) == ZO_OK && (uint64_t)zo_node_input_bytes(&layer) *
                                                        layer.out_h * layer.out_w * layer.out_c *
                                                        zo_node_row(&layer) <
                                                    (UINT64_C(1) << 32)) {
      test_node_layer(&layer);
    }
  }
}

/* --- a run of node perturbation ----------------------------------------------- */

enum { kMostTasks = 3 };

/* A run with buffers of exact size. What the interpreter would compute is random. */
typedef struct node_run {
  zo_node_settings settings;
  zo_node_task tasks[kMostTasks];
  array weights[kMostTasks], fractions[kMostTasks];
  array inputs[kMostTasks], outputs[kMostTasks], nodes[kMostTasks];
  int32_t* multipliers[kMostTasks]; /* of every other task */
  int32_t* scratch;
} node_run;

static void make_node_task(node_run* r, uint32_t t) {
  const zo_control_settings* s = &r->settings.common;
  zo_node_task* task = &r->tasks[t];
  memset(task, 0, sizeof *task);
  task->layer = random_layer();
  zo_node_layer* l = &task->layer;
  task->queries = random_below(4);
  task->following = ZO_NODE_HEAD;
  if (task->queries == 0u && (l->form != ZO_NODES_PLAIN || zo_node_count(l) < 2u)) {
    task->queries = random_below(8) == 0u ? ZO_MAX_QUERIES : 1u;
  }
  task->mu = random_below(3) == 0u ? 127u : 1u + random_below(4);
  task->rate = random_below(2) == 0u ? 65536u : random_below(1u << 24);
  task->start_segment = random_below(5);
  const uint32_t whole = s->batch * s->parts, count = zo_node_count(l);
  task->inputs = (int8_t*)allocate((size_t)whole * zo_node_input_bytes(l));
  task->routes = (uint8_t*)allocate((size_t)whole * zo_node_route_bytes(l));
  task->nodes = (int8_t*)allocate((size_t)s->batch * count);
  if (task->queries == 0u) {
    task->errors = (int16_t*)allocate(sizeof(int16_t) * whole * count);
  } else {
    task->differences = (int32_t*)allocate(sizeof(int32_t) * task->queries * whole);
  }
  r->weights[t] = make_array(zo_node_row(l) * l->out_c, 1, 120);
  r->fractions[t] = copy_array(&r->weights[t], 3);
  r->inputs[t] = make_array(s->batch * zo_node_input_bytes(l), 1, 127);
  r->outputs[t] = make_array(s->batch * l->out_h * l->out_w * l->out_c, 0, 127);
  r->nodes[t] = make_array(s->batch * count, 1, 127);
  if (t % 2u != 0u) return;
  r->multipliers[t] = (int32_t*)allocate(sizeof(int32_t) * l->out_c);
  for (uint32_t c = 0; c < l->out_c; ++c) r->multipliers[t][c] = random_between(0, INT32_MAX);
}

/* A tail of two layers that is trained by its exact gradient, errors coming back through the last
 * one, in buffers of exact size. */
static void test_node_tail(void) {
  enum { kBatch = 3, kParts = 2, kWhole = kBatch * kParts, kFirst = 5, kNodes = 7, kClasses = 4 };
  for (int round = 0; round < 50; ++round) {
    zo_node_task tasks[2];
    memset(tasks, 0, sizeof tasks);
    const uint32_t in[2] = {kFirst, kNodes}, out[2] = {kNodes, kClasses};
    array weights[2], inputs[2], outputs[2];
    for (uint32_t t = 0; t < 2u; ++t) {
      zo_node_layer* l = &tasks[t].layer;
      l->in_h = l->in_w = l->k_h = l->k_w = l->stride_h = l->stride_w = 1;
      l->dilation_h = l->dilation_w = l->out_h = l->out_w = l->node_h = l->node_w = 1;
      l->in_c = in[t];
      l->out_c = out[t];
      l->low = t == 0u ? random_between(-129, 0) : -129;
      l->high = 128;
      tasks[t].mu = 1;
      tasks[t].rate = 65536;
      tasks[t].following = t == 0u ? 1u : ZO_NODE_HEAD;
      tasks[t].inputs = (int8_t*)allocate((size_t)kWhole * in[t]);
      tasks[t].routes = (uint8_t*)allocate((size_t)kWhole * out[t]);
      tasks[t].nodes = (int8_t*)allocate((size_t)kBatch * out[t]);
      tasks[t].errors = (int16_t*)allocate(sizeof(int16_t) * kWhole * out[t]);
      weights[t] = make_array(in[t] * out[t], 1, 120);
      inputs[t] = make_array(kBatch * in[t], 1, 127);
      outputs[t] = make_array(kBatch * out[t], 3, 127);
    }
    int32_t* scratch = (int32_t*)allocate(sizeof(int32_t) * kNodes);
    int16_t* scales = (int16_t*)allocate(sizeof(int16_t) * kClasses);
    for (uint32_t i = 0; i < kClasses; ++i) scales[i] = (int16_t)random_below(32768);
    const zo_logit_scale scale = {2420441, 1677722}; /* 0.1 */
    int32_t labels[kBatch] = {0, -1, kClasses - 1}, losses[kBatch] = {1, 2, 3};

    zo_node_settings settings;
    memset(&settings, 0, sizeof settings);
    settings.common.steps = 1;
    settings.common.samples = 9;
    settings.common.batch = kBatch;
    settings.common.parts = kParts;
    settings.common.queries = 1;
    settings.common.distribution.mu = 1;
    settings.common.rate = 65536;
    settings.common.clip = 4 * 65536;
    settings.tasks = 2;
    zo_node_run run;
    zo_report report;
    zo_node_request request;
    /* Errors come back from a later task, trained likewise, that reads each node once. */
    const uint32_t wrong[] = {0, 2, ZO_NODE_HEAD - 1u};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
      tasks[0].following = wrong[i];
      CHECK(zo_node_run_init(&run, &settings, tasks) == ZO_ERROR_ARGUMENT);
    }
    tasks[0].following = 1;
    tasks[1].layer.in_c = kNodes + 1u;
    CHECK(zo_node_run_init(&run, &settings, tasks) == ZO_ERROR_ARGUMENT);
    tasks[1].layer.in_c = kNodes;
    CHECK(zo_node_run_init(&run, &settings, tasks) == ZO_OK);

    for (uint32_t part = 0; part < kParts; ++part) {
      CHECK(zo_node_run_next(&run, &request) == ZO_OK && request.action == ZO_NODE_FORWARD);
      CHECK(zo_node_run_capture_head(&run, 0, inputs[0].at, outputs[0].at, scale, labels) ==
            ZO_ERROR_ARGUMENT);
      CHECK(zo_node_run_capture(&run, 1, inputs[1].at, outputs[1].at, outputs[1].at) ==
            ZO_ERROR_ARGUMENT);
      CHECK(zo_node_run_capture(&run, 0, inputs[0].at, outputs[0].at, outputs[0].at) == ZO_OK);
      CHECK(zo_node_run_capture_head(&run, 1, inputs[1].at, outputs[1].at, scale, labels) == ZO_OK);
      CHECK(zo_node_run_backpropagate(&run, 1, weights[1].at, scales, scratch) ==
            ZO_ERROR_ARGUMENT);
      CHECK(zo_node_run_backpropagate(&run, 0, NULL, scales, scratch) == ZO_ERROR_ARGUMENT);
      CHECK(zo_node_run_backpropagate(&run, 0, weights[1].at, round % 2 != 0 ? scales : NULL,
                                      scratch) == ZO_OK);
      for (uint32_t i = 0; i < kBatch * kNodes; ++i) {
        const uint32_t at = part * kBatch * kNodes + i;
        CHECK(outputs[0].at[i] > tasks[0].layer.low || tasks[0].errors[at] == 0);
        CHECK(i / kNodes != 1u || tasks[0].errors[at] == 0); /* unlabelled */
      }
      CHECK(zo_node_run_report(&run, losses, kBatch, &report) == ZO_OK);
    }
    CHECK(zo_node_run_backpropagate(&run, 0, weights[1].at, scales, scratch) == ZO_ERROR_ARGUMENT);
    for (uint32_t t = 0; t < 2u; ++t) {
      zo_tensor tensor = tensor_of(&weights[t], NULL, t);
      CHECK(zo_node_run_next(&run, &request) == ZO_OK && request.action == ZO_NODE_UPDATE &&
            request.task == t);
      CHECK(zo_node_run_update(&run, &tensor, 1, scratch, NULL, &report) == ZO_OK);
      for (uint32_t i = 0; i < tensor.size; ++i) {
        digest = digest * 31u + (uint8_t)weights[t].at[i];
      }
    }
    CHECK(report.step_done == 1u && report.mean_loss == 2);
    for (uint32_t t = 0; t < 2u; ++t) {
      free(tasks[t].inputs);
      free(tasks[t].routes);
      free(tasks[t].nodes);
      free(tasks[t].errors);
      free(weights[t].memory);
      free(inputs[t].memory);
      free(outputs[t].memory);
    }
    free(scratch);
    free(scales);
  }
}

static void make_node_run(node_run* r) {
  memset(r, 0, sizeof *r);
  zo_control_settings* s = &r->settings.common;
  s->run_seed = random_u32();
  s->steps = 1 + random_below(4);
  s->samples = 1 + random_below(9);
  s->batch = 1 + random_below(3);
  s->parts = 1 + random_below(3);
  s->queries = 1;
  s->distribution.mu = 1;
  s->rate = 1 + random_shifted(1, 31);
  s->schedule = random_below(4);
  s->decay = random_below(65537);
  s->decay_steps = 1 + random_below(3);
  s->warmup_steps = random_below(3);
  s->clip = 1 + random_below(1u << 24);
  r->settings.first_segment = random_below(3);
  r->settings.tasks = 1 + random_below(kMostTasks);
  uint32_t row = 0;
  for (uint32_t t = 0; t < r->settings.tasks; ++t) {
    make_node_task(r, t);
    const uint32_t values = zo_node_scratch_values(&r->tasks[t].layer);
    if (values > row) row = values;
  }
  r->scratch = (int32_t*)allocate(sizeof(int32_t) * row);
}

static void free_node_run(node_run* r) {
  for (uint32_t t = 0; t < r->settings.tasks; ++t) {
    free(r->tasks[t].inputs);
    free(r->tasks[t].routes);
    free(r->tasks[t].nodes);
    free(r->tasks[t].differences);
    free(r->tasks[t].errors);
    free(r->weights[t].memory);
    free(r->fractions[t].memory);
    free(r->inputs[t].memory);
    free(r->outputs[t].memory);
    free(r->nodes[t].memory);
    free(r->multipliers[t]);
  }
  free(r->scratch);
}

static void fill(array* b, int32_t limit) {
  for (uint32_t i = 0; i < b->size; ++i) b->at[i] = (int8_t)random_between(-limit, limit);
}

static zo_tensor task_tensor(const node_run* r, uint32_t t) {
  zo_tensor tensor = tensor_of(&r->weights[t], t == 1u ? NULL : &r->fractions[t], t);
  tensor.channels = r->tasks[t].layer.out_c;
  tensor.inner = zo_node_row(&r->tasks[t].layer);
  tensor.multiplier = r->multipliers[t];
  return tensor;
}

/* One request as an interpreter would answer it. Every call that does not fit is tried before, and
 * must leave the state alone. */
static zo_report answer(node_run* r, zo_node_run* run, const zo_node_request* request) {
  const zo_control_settings* s = &r->settings.common;
  const zo_node_run before = *run;
  const zo_logit_scale scale = scale_of(0.1);
  zo_report report;
  memset(&report, 0, sizeof report);
  int32_t* losses = (int32_t*)allocate(sizeof(int32_t) * s->batch);
  int32_t* labels = (int32_t*)allocate(sizeof(int32_t) * s->batch);
  for (uint32_t i = 0; i < s->batch; ++i) {
    losses[i] = (int32_t)random_shifted(1, 31);
    labels[i] = random_between(-1, 1);
    CHECK(zo_sample_at(s, request->first_sample + i) < s->samples);
  }
  for (uint32_t t = 0; t < r->settings.tasks; ++t) {
    array *x = &r->inputs[t], *y = &r->outputs[t], *n = &r->nodes[t];
    const int exact = r->tasks[t].queries == 0u;
    const int expected = request->action == ZO_NODE_FORWARD;
    fill(x, 127);
    fill(y, 127);
    fill(n, 127);
    CHECK((zo_node_run_capture(run, t, x->at, y->at, n->at) == ZO_OK) == (expected && !exact));
    CHECK((zo_node_run_capture_head(run, t, x->at, n->at, scale, labels) == ZO_OK) ==
          (expected && exact));
    CHECK(zo_node_run_capture(run, t, NULL, y->at, n->at) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_capture_head(run, t, x->at, NULL, scale, labels) == ZO_ERROR_ARGUMENT);
    if (expected && exact) {
      labels[0] = -2;
      CHECK(zo_node_run_capture_head(run, t, x->at, n->at, scale, labels) == ZO_ERROR_LABEL);
      labels[0] = 0;
    }
  }
  CHECK(zo_node_run_capture(run, r->settings.tasks, r->inputs[0].at, r->outputs[0].at,
                            r->nodes[0].at) == ZO_ERROR_ARGUMENT);
  const zo_tensor tensor = task_tensor(r, request->task);
  if (request->action != ZO_NODE_QUERY) {
    CHECK(zo_node_run_perturb(run, r->nodes[0].at) == ZO_ERROR_ARGUMENT);
  }
  if (request->action != ZO_NODE_UPDATE) {
    CHECK(zo_node_run_update(run, &tensor, 1, r->scratch, NULL, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_report(run, losses, s->batch + 1u, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_report(run, NULL, s->batch, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_report(run, losses, s->batch, NULL) == ZO_ERROR_ARGUMENT);
    const int32_t loss = losses[s->batch - 1u];
    losses[s->batch - 1u] = INT32_MIN; /* no loss: its negative is no number */
    CHECK(zo_node_run_report(run, losses, s->batch, &report) == ZO_ERROR_ARGUMENT);
    losses[s->batch - 1u] = loss;
  } else {
    CHECK(zo_node_run_report(run, losses, s->batch, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_update(run, &tensor, 1, NULL, NULL, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_update(run, NULL, 1, r->scratch, NULL, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_update(run, &tensor, 1, r->scratch, NULL, NULL) == ZO_ERROR_ARGUMENT);
  }
  CHECK(memcmp(run, &before, sizeof before) == 0);
  if (request->action == ZO_NODE_QUERY) {
    CHECK(zo_node_run_perturb(run, NULL) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_perturb(run, r->nodes[request->task].at) == ZO_OK);
  }
  if (request->action == ZO_NODE_UPDATE) {
    uint32_t saturated = 0;
    CHECK(zo_node_run_update(run, &tensor, 1, r->scratch, &saturated, &report) == ZO_OK);
    CHECK(saturated <= tensor.size);
    for (uint32_t i = 0; i < tensor.size; ++i) digest = digest * 31u + (uint8_t)tensor.weights[i];
  } else {
    CHECK(zo_node_run_report(run, losses, s->batch, &report) == ZO_OK && report.step_done == 0u);
  }
  free(losses);
  free(labels);
  return report;
}

/* Header, slot and record of a log hold what is put in, and no damage goes unseen. */
static void test_snapshot_log(const node_run* r, const zo_node_run* run) {
  const uint32_t tasks = r->settings.tasks, weight_bytes = 1 + random_below(50);
  zo_snapshot_header header, header_back;
  zo_snapshot_task entries[kMostTasks], entries_back[ZO_NODE_TASKS_MAX];
  zo_node_settings back;
  zo_scale squares[kMostTasks];
  for (size_t i = 0; i < sizeof header.fingerprint; ++i) {
    header.fingerprint[i] = (uint8_t)random_u32();
  }
  header.interval = random_u32() | 1u;
  header.weight_bytes = weight_bytes;
  header.data_checksum = random_u32();
  header.measure_every = random_u32();
  for (uint32_t t = 0; t < tasks; ++t) {
    entries[t].tensor = random_u32();
    entries[t].kind = r->tasks[t].kind;
    entries[t].tensors = entries[t].kind == ZO_TASK_NODES ? 1u : 1u + random_below(65535);
    entries[t].gain.mantissa = random_u32();
    entries[t].gain.exponent = (int32_t)random_below(200) - 100;
    entries[t].queries = r->tasks[t].queries;
    entries[t].mu = r->tasks[t].mu;
    entries[t].rate = r->tasks[t].rate;
  }
  const uint32_t size = zo_snapshot_header_bytes(tasks);
  uint8_t* bytes = (uint8_t*)allocate(size);
  zo_snapshot_write_header(&header, &r->settings, entries, bytes);
  CHECK(zo_snapshot_read_header(bytes, size, &header_back, &back, entries_back) == ZO_OK);
  CHECK(memcmp(&header, &header_back, sizeof header) == 0);
  CHECK(memcmp(&r->settings, &back, sizeof back) == 0);
  CHECK(memcmp(entries, entries_back, sizeof entries[0] * tasks) == 0);
  for (uint32_t cut = 0; cut < size; cut += 1 + random_below(40)) {
    uint8_t* part = (uint8_t*)allocate(cut + 1u);
    memcpy(part, bytes, cut);
    CHECK(zo_snapshot_read_header(part, cut, &header_back, &back, entries_back) ==
          ZO_ERROR_OPTIONS);
    free(part);
  }
  flip_a_bit(bytes, size);
  CHECK(zo_snapshot_read_header(bytes, size, &header_back, &back, entries_back) ==
        ZO_ERROR_OPTIONS);
  /* What no run has is refused, whoever wrote the checksum. */
  for (uint32_t i = 0; i < 10u; ++i) {
    zo_snapshot_header h = header;
    zo_node_settings s = r->settings;
    zo_snapshot_task e[kMostTasks];
    memcpy(e, entries, sizeof e[0] * tasks);
    if (i == 0u) h.weight_bytes = UINT32_MAX - 15u - 8u * tasks;
    if (i == 1u) h.weight_bytes = UINT32_MAX / 3u;
    if (i == 2u) h.interval = 0;
    if (i == 3u) s.common.chain = 33;
    if (i == 4u) s.common.queries = ZO_MAX_QUERIES + 1u;
    if (i == 5u) s.rule = 9;
    if (i == 6u) e[0].queries = ZO_MAX_QUERIES + 1u;
    if (i == 7u) e[0].tensors = 0;
    if (i == 8u) e[0].kind = ZO_TASK_SHARED_NODES + 1u;
    zo_snapshot_write_header(&h, &s, e, bytes);
    if (i == 9u) { /* a task in every second step: no log has that */
      bytes[160 + 12] = 2;
      zo_write_u32(bytes + size - 4u, zo_crc32(0, bytes, size - 4u));
    }
    CHECK(zo_snapshot_read_header(bytes, size, &header_back, &back, entries_back) != ZO_OK);
  }
  free(bytes);

  const uint32_t slot_bytes = zo_snapshot_bytes(tasks, weight_bytes);
  uint8_t* slot = (uint8_t*)allocate(slot_bytes);
  memset(slot, 0, slot_bytes);
  uint32_t number = 0, step = 0;
  int32_t largest = 0;
  const uint32_t owner = random_u32();
  CHECK(zo_snapshot_read(slot, owner, &r->settings, entries, weight_bytes, &number, &step, &largest,
                         squares) == ZO_ERROR_OPTIONS);
  zo_snapshot_write_head(run, owner, 7, slot);
  CHECK(zo_snapshot_number(slot, owner) == 7u && zo_snapshot_number(slot, ~owner) == 0u);
  put_u32(slot + slot_bytes - 4u, zo_crc32(0, slot, slot_bytes - 4u));
  CHECK(zo_snapshot_read(slot, owner + 1u, &r->settings, entries, weight_bytes, &number, &step,
                         &largest, squares) == ZO_ERROR_OPTIONS);
  CHECK(zo_snapshot_read(slot, owner, &r->settings, entries, weight_bytes, &number, &step, &largest,
                         squares) == ZO_OK);
  CHECK(number == 7u && step == run->step && largest == run->largest_loss);
  for (uint32_t t = 0; t < tasks; ++t) {
    CHECK(memcmp(&squares[t], &r->tasks[t].mean_square, sizeof squares[t]) == 0);
  }
  /* A state that no run has come to is none, whoever wrote the checksum. */
  const uint32_t at[] = {8u + 3u, 12u + 3u, 16u + 8u * (tasks - 1u) + 7u};
  for (uint32_t i = 0; i < 3u; ++i) { /* more steps than it has, a negative loss, no exponent */
    const uint8_t kept = slot[at[i]];
    slot[at[i]] = 0x80;
    put_u32(slot + slot_bytes - 4u, zo_crc32(0, slot, slot_bytes - 4u));
    CHECK(zo_snapshot_read(slot, owner, &r->settings, entries, weight_bytes, &number, &step,
                           &largest, squares) == ZO_ERROR_OPTIONS);
    slot[at[i]] = kept;
  }
  put_u32(slot + slot_bytes - 4u, zo_crc32(0, slot, slot_bytes - 4u));
  CHECK(zo_snapshot_read(slot, owner, &r->settings, entries, weight_bytes, &number, &step, &largest,
                         squares) == ZO_OK);
  flip_a_bit(slot, slot_bytes);
  CHECK(zo_snapshot_read(slot, owner, &r->settings, entries, weight_bytes, &number, &step, &largest,
                         squares) == ZO_ERROR_OPTIONS);
  free(slot);

  uint8_t* record = (uint8_t*)allocate(ZO_SNAPSHOT_RECORD_BYTES);
  const int32_t loss = (int32_t)random_u32();
  int32_t loss_back = 0;
  zo_snapshot_write_record(number, loss, owner, record);
  CHECK(zo_snapshot_read_record(record, ~owner, &step, &loss_back) == ZO_ERROR_OPTIONS);
  CHECK(zo_snapshot_read_record(record, owner, &step, &loss_back) == ZO_OK);
  CHECK(step == number && loss_back == loss);
  flip_a_bit(record, ZO_SNAPSHOT_RECORD_BYTES);
  CHECK(zo_snapshot_read_record(record, owner, &step, &loss_back) == ZO_ERROR_OPTIONS);
  free(record);
}

/* Sizes whose product is a small number in 32 bits. */
static void test_node_sizes_that_wrap(void) {
  zo_node_layer l;
  memset(&l, 0, sizeof l);
  l.form = ZO_NODES_MAX_POOL;
  l.in_h = l.in_w = l.in_c = l.k_h = l.k_w = 1;
  l.stride_h = l.stride_w = l.dilation_h = l.dilation_w = 1;
  l.out_h = 4096;
  l.out_w = 4;
  l.out_c = 65536;
  l.node_h = 4096;
  l.node_w = 4;
  l.pool_h = 1;
  l.pool_w = 254;
  l.pool_stride_h = l.pool_stride_w = 1;
  l.pool_pad_left = 253;
  l.low = -129;
  l.high = 128;
  CHECK(zo_node_layer_check(&l) == ZO_OK);           /* 2^30 nodes */
  for (l.node_w = 5; l.node_w <= 257u; ++l.node_w) { /* at 257, 2^32 + 2^28 of them */
    CHECK(zo_node_layer_check(&l) == ZO_ERROR_ARGUMENT);
  }
}

/* Errors come back through a dense layer alone, and the product of this one's sides is 1, too, in
 * 32 bits. */
static void test_a_following_layer_that_wraps(void) {
  zo_node_layer small;
  memset(&small, 0, sizeof small);
  small.form = ZO_NODES_PLAIN;
  small.in_h = small.in_w = small.in_c = small.k_h = small.k_w = 1;
  small.stride_h = small.stride_w = small.dilation_h = small.dilation_w = 1;
  small.out_h = small.out_w = small.out_c = small.node_h = small.node_w = 1;
  small.low = -129;
  small.high = 128;
  int8_t byte = 0;
  uint8_t route = 0;
  int16_t error = 0;
  zo_node_task tasks[2];
  memset(tasks, 0, sizeof tasks);
  for (uint32_t t = 0; t < 2u; ++t) {
    tasks[t].layer = small;
    tasks[t].following = t == 0u ? 1u : ZO_NODE_HEAD;
    tasks[t].mu = 1;
    tasks[t].inputs = tasks[t].nodes = &byte;
    tasks[t].routes = &route;
    tasks[t].errors = &error;
  }
  zo_node_settings settings;
  memset(&settings, 0, sizeof settings);
  settings.tasks = 2;
  settings.common = random_settings();
  settings.common.clip = 1;
  settings.common.gradient_norm = settings.common.blocks = settings.common.sharpness = 0;
  settings.common.chain = settings.common.momentum = 0;
  zo_node_run run;
  CHECK(zo_node_run_init(&run, &settings, tasks) == ZO_OK);
  zo_node_layer* l = &tasks[1].layer;
  l->in_h = 941;
  l->in_w = 1369;
  l->k_h = 1719;
  l->k_w = 813;
  l->out_h = l->node_h = 2183;
  CHECK(l->in_h * l->in_w * l->k_h * l->k_w * l->out_h * l->out_w == 1u);
  CHECK(zo_node_layer_check(l) == ZO_OK);
  CHECK(zo_node_run_init(&run, &settings, tasks) == ZO_ERROR_ARGUMENT);
}

/* An instruction that announces more items than there are, in a command that announces them, too.
 */
static void test_a_command_of_many_items(void) {
  const zo_limits many = {8, 32, 1};
  int32_t words[ZO_COMMAND_HEADER_WORDS + ZO_INSTRUCTION_HEADER_WORDS] = {
      (int32_t)ZO_COMMAND_MAGIC, INT32_C(0x3FFFFFFE), ZO_OP_REPLAY << 24, 0, 1, 0};
  for (int32_t queries = 1; queries <= 32; queries *= 2) {
    words[5] = queries;
    for (int32_t steps = INT32_C(1) << 29; steps <= INT32_C(1) << 30; steps += INT32_C(1) << 29) {
      words[3] = steps;
      CHECK(zo_command_check(words, UINT32_C(1) << 30, &many) == ZO_ERROR_COMMAND);
    }
  }
}

/* A log may be whole, its checksums right, and yet say what no run has written. */
static void test_snapshot_sizes(void) {
  const uint32_t tasks = 3;
  CHECK(zo_snapshot_bytes(tasks, UINT32_MAX - 44u) == UINT32_MAX);
  for (uint32_t beyond = 0; beyond < 44u; ++beyond) {
    CHECK(zo_snapshot_bytes(tasks, UINT32_MAX - beyond) == 0u);
  }
  const uint32_t size = zo_snapshot_header_bytes(tasks);
  /* The largest snapshots of which 32 bits hold where three end. */
  const uint32_t most = (UINT32_MAX - size) / 3u - 44u;
  const uint32_t refused[] = {most + 1u, UINT32_C(1) << 31, UINT32_MAX - 44u, UINT32_MAX - 43u,
                              UINT32_MAX};
  zo_node_settings settings, back;
  memset(&settings, 0, sizeof settings);
  settings.tasks = tasks;
  settings.common = random_settings();
  settings.common.clip = 1;
  settings.common.gradient_norm = settings.common.blocks = settings.common.sharpness = 0;
  settings.common.chain = settings.common.momentum = 0;
  zo_snapshot_header header;
  memset(&header, 0, sizeof header);
  header.interval = 1;
  zo_snapshot_task entries[ZO_NODE_TASKS_MAX];
  memset(entries, 0, sizeof entries);
  for (uint32_t t = 0; t < tasks; ++t) entries[t].tensors = entries[t].mu = 1;
  uint8_t* bytes = (uint8_t*)allocate(size);
  header.weight_bytes = most;
  zo_snapshot_write_header(&header, &settings, entries, bytes);
  CHECK(zo_snapshot_read_header(bytes, size, &header, &back, entries) == ZO_OK);
  CHECK(header.weight_bytes == most);
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; ++i) {
    header.weight_bytes = refused[i];
    zo_snapshot_write_header(&header, &settings, entries, bytes);
    CHECK(zo_snapshot_read_header(bytes, size, &header, &back, entries) == ZO_ERROR_OPTIONS);
  }
  /* The sum of the sizes wraps: the checksum would be looked for before the slot. */
  uint8_t slot[8] = {0, 0, 0, 0, 1, 0, 0, 0};
  uint32_t number, step;
  int32_t largest;
  zo_scale squares[1];
  settings.tasks = 1;
  CHECK(zo_snapshot_read(slot, 0, &settings, entries, UINT32_MAX - 19u, &number, &step, &largest,
                         squares) == ZO_ERROR_OPTIONS);
  free(bytes);
}

/* Running means that a run cannot have come to are refused before anything is changed. */
static void test_resumed_states(node_run* r, zo_node_run* run) {
  static const zo_scale unlikely[] = {
      {UINT32_C(1) << 31, ZO_SCALE_EXPONENT_MAX + 1},
      {UINT32_MAX, INT32_MIN},
      {UINT32_MAX, INT32_MAX},
      {UINT32_C(0x7FFFFFFF), 0},
      {1, -5},
  };
  const uint32_t tasks = r->settings.tasks;
  zo_scale squares[kMostTasks];
  for (uint32_t t = 0; t < tasks; ++t) squares[t] = r->tasks[t].mean_square;
  const zo_node_run before = *run;
  for (size_t i = 0; i < sizeof unlikely / sizeof unlikely[0]; ++i) {
    const uint32_t t = random_below(tasks);
    const zo_scale kept = squares[t];
    squares[t] = unlikely[i];
    CHECK(zo_node_run_resume(run, run->step, run->largest_loss, squares) == ZO_ERROR_ARGUMENT);
    /* As it comes out of a log. */
    uint8_t head[16 + 8 * kMostTasks];
    r->tasks[t].mean_square = unlikely[i];
    zo_snapshot_write_head(run, 0, 1, head);
    r->tasks[t].mean_square = kept;
    CHECK(zo_snapshot_read_head(run, head) == ZO_ERROR_ARGUMENT);
    squares[t] = kept;
    CHECK(memcmp(run, &before, sizeof before) == 0);
    CHECK(memcmp(&r->tasks[t].mean_square, &kept, sizeof kept) == 0);
  }
  for (uint32_t t = 0; t < tasks; ++t) {
    squares[t].mantissa = UINT32_C(0x80000000) | random_u32();
    squares[t].exponent = random_between(-ZO_SCALE_EXPONENT_MAX, ZO_SCALE_EXPONENT_MAX);
  }
  CHECK(zo_node_run_resume(run, run->step, 7, squares) == ZO_OK);
  CHECK(run->largest_loss == 7);
  for (uint32_t t = 0; t < tasks; ++t) {
    CHECK(memcmp(&r->tasks[t].mean_square, &squares[t], sizeof squares[t]) == 0);
  }
}

static void test_node_run_errors(node_run* r) {
  zo_node_run run;
  const node_run good = *r;
  zo_control_settings* s = &r->settings.common;
  zo_node_task* t = &r->tasks[0];
#define REFUSED(change, status)                                        \
  do {                                                                 \
    change;                                                            \
    CHECK(zo_node_run_init(&run, &r->settings, r->tasks) == (status)); \
    *r = good;                                                         \
  } while (0)
  REFUSED(r->settings.tasks = 0, ZO_ERROR_ARGUMENT);
  REFUSED(r->settings.tasks = ZO_NODE_TASKS_MAX + 1, ZO_ERROR_ARGUMENT);
  REFUSED(s->clip = 0, ZO_ERROR_ARGUMENT);
  REFUSED(s->clip = (1u << 24) + 1u, ZO_ERROR_ARGUMENT);
  REFUSED(s->steps = 0, ZO_ERROR_ARGUMENT);
  REFUSED(s->samples = 0, ZO_ERROR_ARGUMENT);
  REFUSED(s->batch = 0, ZO_ERROR_ARGUMENT);
  REFUSED(s->parts = 0, ZO_ERROR_ARGUMENT);
  REFUSED(s->rate = 0, ZO_ERROR_ARGUMENT);
  REFUSED(s->estimator = 2, ZO_ERROR_ARGUMENT);
  REFUSED(s->rule = 4, ZO_ERROR_ARGUMENT);
  REFUSED(s->rule = ZO_RUN_BITS, ZO_ERROR_ARGUMENT); /* of 0 bits */
  REFUSED(s->rule = ZO_RUN_BITS; s->distribution.kind = ZO_COORDINATE, ZO_ERROR_DISTRIBUTION);
  REFUSED(s->momentum = 1, ZO_ERROR_ARGUMENT);
  REFUSED(s->sharpness = 1, ZO_ERROR_ARGUMENT);
  REFUSED(r->settings.rule = ZO_NODE_BITS, ZO_ERROR_ARGUMENT);
  REFUSED(r->settings.exact_rule = ZO_NODE_FIXED, ZO_ERROR_ARGUMENT);
  REFUSED(s->chain = 2; s->momentum = 1; s->distribution.kind = ZO_GAUSSIAN, ZO_ERROR_ARGUMENT);
  REFUSED(s->stage_p_zero[1] = 256, ZO_ERROR_ARGUMENT);
  for (uint32_t stage = 0; stage < 3u; ++stage) {
    for (uint32_t i = 0; i < 3u; ++i) r->settings.exact_bits[i] = i == stage ? 8u : 7u;
    REFUSED(r->settings.exact_rule = ZO_NODE_BITS, ZO_ERROR_ARGUMENT);
    REFUSED(r->settings.exact_bits[stage] = 256,
            ZO_ERROR_ARGUMENT); /* even where no rule has them */
  }
  REFUSED(r->settings.weight_bits = 256, ZO_ERROR_ARGUMENT);
  REFUSED(r->settings.rows_least = 2; r->settings.rows_most = 1, ZO_ERROR_ARGUMENT);
  REFUSED(r->settings.rows_most = 65536, ZO_ERROR_ARGUMENT);
  REFUSED(t->kind = ZO_TASK_SHARED_NODES + 1, ZO_ERROR_ARGUMENT);
  REFUSED(t->kind = ZO_TASK_SHARED_NODES; t->queries = 1, ZO_ERROR_QUERIES);
  REFUSED(t->kind = ZO_TASK_SHARED_NODES; t->queries = 0, ZO_ERROR_ARGUMENT); /* the first */
  REFUSED(t->kind = ZO_TASK_WEIGHTS; t->queries = 0, ZO_ERROR_QUERIES);
  REFUSED(t->kind = ZO_TASK_WEIGHTS; t->queries = 1; t->sums = NULL, ZO_ERROR_ARGUMENT);
  REFUSED(s->gradient_norm = 1, ZO_ERROR_ARGUMENT);
  REFUSED(s->blocks = 1, ZO_ERROR_ARGUMENT);
  REFUSED(s->queries = 0, ZO_ERROR_QUERIES);
  REFUSED(s->distribution.mu = 0, ZO_ERROR_DISTRIBUTION);
  REFUSED(t->layer.out_c = 0, ZO_ERROR_ARGUMENT);
  REFUSED(t->queries = ZO_MAX_QUERIES + 1u, ZO_ERROR_QUERIES);
  REFUSED(t->mu = 0, ZO_ERROR_ARGUMENT);
  REFUSED(t->mu = 128, ZO_ERROR_ARGUMENT);
  REFUSED(t->rate = 1u << 24, ZO_ERROR_ARGUMENT);
  REFUSED(t->gain.exponent = ZO_NODE_GAIN_EXPONENT_MAX + 1, ZO_ERROR_ARGUMENT);
  REFUSED(t->gain.exponent = INT32_MIN, ZO_ERROR_ARGUMENT);
  REFUSED(t->routes = NULL, ZO_ERROR_ARGUMENT);
  REFUSED(t->nodes = NULL, ZO_ERROR_ARGUMENT);
  REFUSED(t->differences = NULL; t->queries = 1, ZO_ERROR_ARGUMENT);
  REFUSED(t->errors = NULL; t->queries = 0, ZO_ERROR_ARGUMENT);
#undef REFUSED
  zo_node_request request;
  CHECK(zo_node_run_init(NULL, &r->settings, r->tasks) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_run_init(&run, NULL, r->tasks) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_run_init(&run, &r->settings, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_run_init(&run, &r->settings, r->tasks) == ZO_OK);
  CHECK(zo_node_run_resume(NULL, 0, 0, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_run_resume(&run, s->steps + 1u, 0, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_run_resume(&run, 0, -1, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_run_next(NULL, &request) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_run_next(&run, NULL) == ZO_ERROR_ARGUMENT);
}

static void test_node_run(void) {
  for (int round = 0; round < ROUNDS(200); ++round) {
    node_run r;
    make_node_run(&r);
    const zo_control_settings* s = &r.settings.common;
    zo_node_run run;
    CHECK(zo_node_run_init(&run, &r.settings, r.tasks) == ZO_OK);
    const uint32_t first = random_below(3) == 0 ? random_below(s->steps + 1u) : 0;
    CHECK(zo_node_run_resume(&run, first, 0, NULL) == ZO_OK);
    uint32_t counts[4] = {0, 0, 0, 0}, expected[4] = {0, 0, 0, 0};
    for (uint32_t step = first; step < s->steps; ++step) {
      expected[ZO_NODE_FORWARD] += s->parts;
      for (uint32_t t = 0; t < r.settings.tasks; ++t) {
        expected[ZO_NODE_QUERY] += 2u * s->parts * r.tasks[t].queries;
        expected[ZO_NODE_UPDATE] += 1u;
      }
    }
    zo_node_request request, again;
    uint32_t done = first;
    while (zo_node_run_next(&run, &request) == ZO_OK && request.action != ZO_NODE_DONE) {
      CHECK(zo_node_run_next(&run, &again) == ZO_OK); /* as often as one likes */
      CHECK(memcmp(&request, &again, sizeof request) == 0);
      CHECK(request.action <= ZO_NODE_UPDATE && request.step == done);
      ++counts[request.action];
      const zo_report report = answer(&r, &run, &request);
      if (report.step_done == 0u) continue;
      CHECK(report.step == done && report.rate <= s->rate && report.mean_loss >= 0);
      ++done;
      test_snapshot_log(&r, &run);
    }
    zo_node_run resumed = run;
    CHECK(request.action == ZO_NODE_DONE && done == s->steps && run.step == s->steps);
    CHECK(memcmp(counts, expected, sizeof counts) == 0);
    /* Nothing goes on after the end. */
    zo_report report;
    int32_t* losses = (int32_t*)allocate(sizeof(int32_t) * s->batch);
    memset(losses, 0, sizeof(int32_t) * s->batch);
    const zo_tensor tensor = task_tensor(&r, 0);
    CHECK(zo_node_run_report(&run, losses, s->batch, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_update(&run, &tensor, 1, r.scratch, NULL, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_perturb(&run, r.nodes[0].at) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_capture(&run, 0, r.inputs[0].at, r.outputs[0].at, r.nodes[0].at) ==
          ZO_ERROR_ARGUMENT);
    free(losses);
    test_resumed_states(&r, &resumed);
    test_node_run_errors(&r);
    free_node_run(&r);
  }
}

/* Tensors that the run cannot do with, behind one that it can: none of them moves. */
static void test_refused_tensors(zo_node_run* run, const zo_tensor* tensors, const int8_t* first) {
  const zo_node_run before = *run;
  int8_t* kept = (int8_t*)allocate(tensors[0].size);
  memcpy(kept, first, tensors[0].size);
  zo_report report;
  for (uint32_t i = 0; i < 7u; ++i) {
    zo_tensor bad[2] = {tensors[0], tensors[1]};
    if (i == 0u) bad[1].type = ZO_TENSOR_INT16; /* without fractions */
    if (i == 1u) bad[1].size = 0;
    if (i == 2u) bad[1].weights = NULL;
    if (i == 3u) bad[1].limit = 0;
    if (i == 4u) bad[1].limit = 122; /* no room */
    if (i == 5u) bad[1].size = UINT32_C(1) << 31;
    if (i == 6u) {
      if (run->settings.common.rule != ZO_RUN_BITS) continue;
      bad[1].mask = (const uint8_t*)bad[1].weights;
    }
    const zo_status expected = i == 4u ? ZO_ERROR_HEADROOM : ZO_ERROR_ARGUMENT;
    if (run->stage == ZO_NODE_UPDATE) {
      CHECK(zo_node_run_update_weights(run, bad, 2, NULL, &report) == expected);
    } else {
      CHECK(zo_node_run_perturb_weights(run, bad, 2) == expected);
      if (run->stage == ZO_NODE_RESTORE) CHECK(zo_node_run_abandon(run, bad, 2) == expected);
    }
    CHECK(memcmp(kept, first, tensors[0].size) == 0);
    CHECK(memcmp(run, &before, sizeof before) == 0);
  }
  free(kept);
}

/* One task of weights: where queries put them, and that each part of a step leaves them alone. */
static void test_weight_task(void) {
  for (int round = 0; round < 100; ++round) {
    enum { kTensors = 2, kSizes = 1300 };
    const uint32_t batch = 1 + random_below(3), boundary = random_below(2) * 5u;
    zo_node_settings settings;
    memset(&settings, 0, sizeof settings);
    zo_control_settings* s = &settings.common;
    s->run_seed = random_u32();
    s->steps = 1 + random_below(3);
    s->samples = 7;
    s->batch = batch;
    s->parts = 1 + random_below(3);
    s->queries = 1;
    s->estimator = random_below(2);
    s->rule = random_below(4);
    s->distribution.kind = ZO_SPARSE_UNIFORM;
    s->distribution.mu = 6;
    s->rate = 1 + random_below(1 << 18);
    s->clip = 1;
    s->stage_steps[0] = 1;
    s->stage_p_zero[0] = 200;
    settings.tasks = 1;
    settings.weight_bits = 2;
    zo_node_task task;
    memset(&task, 0, sizeof task);
    task.kind = ZO_TASK_WEIGHTS;
    task.queries = 1 + random_below(3);
    task.rate = 1 << 16;
    task.boundary_bytes = boundary;
    task.nodes = boundary > 0u ? (int8_t*)allocate(batch * boundary) : NULL;
    task.sums = (int64_t*)allocate(sizeof(int64_t) * task.queries);
    int8_t* weights[kTensors];
    int8_t* before[kTensors];
    zo_tensor tensors[kTensors];
    for (uint32_t i = 0; i < kTensors; ++i) {
      weights[i] = (int8_t*)allocate(kSizes);
      before[i] = (int8_t*)allocate(kSizes);
      memset(&tensors[i], 0, sizeof tensors[i]);
      tensors[i].weights = weights[i];
      tensors[i].size = kSizes;
      tensors[i].stream = i;
      tensors[i].limit = 121;
      for (uint32_t j = 0; j < kSizes; ++j)
        weights[i][j] = (int8_t)((int32_t)random_below(243) - 121);
    }
    int8_t* entering = (int8_t*)allocate(batch * boundary + 1u);
    memset(entering, 3, batch * boundary + 1u);
    int32_t* losses = (int32_t*)allocate(sizeof(int32_t) * batch);
    zo_node_run run;
    zo_node_request request;
    zo_report report;
    CHECK(zo_node_run_init(&run, &settings, &task) == ZO_OK);
    uint32_t counts[5] = {0, 0, 0, 0, 0};
    while (zo_node_run_next(&run, &request) == ZO_OK && request.action != ZO_NODE_DONE) {
      ++counts[request.action];
      for (uint32_t i = 0; i < batch; ++i) losses[i] = (int32_t)random_below(1u << 20);
      switch (request.action) {
        case ZO_NODE_FORWARD:
          for (uint32_t i = 0; i < kTensors; ++i) memcpy(before[i], weights[i], kSizes);
          if (boundary > 0u) CHECK(zo_node_run_capture_boundary(&run, 0, entering) == ZO_OK);
          CHECK(zo_node_run_perturb_weights(&run, tensors, kTensors) == ZO_ERROR_ARGUMENT);
          CHECK(zo_node_run_report(&run, losses, batch, &report) == ZO_OK);
          break;
        case ZO_NODE_QUERY:
          CHECK(zo_node_run_report(&run, losses, batch, &report) == ZO_ERROR_ORDER);
          test_refused_tensors(&run, tensors, weights[0]);
          CHECK(zo_node_run_perturb_weights(&run, tensors, kTensors) == ZO_OK);
          if (boundary > 0u) CHECK(zo_node_run_perturb(&run, entering) == ZO_OK);
          for (uint32_t i = 0; i < kTensors; ++i) {
            for (uint32_t j = 0; j < kSizes; ++j) {
              const int32_t moved = weights[i][j] - before[i][j];
              CHECK(moved >= -6 && moved <= 6);
            }
          }
          CHECK(zo_node_run_report(&run, losses, batch, &report) == ZO_OK);
          break;
        case ZO_NODE_RESTORE:
          CHECK(zo_node_run_report(&run, losses, batch, &report) == ZO_ERROR_ARGUMENT);
          test_refused_tensors(&run, tensors, weights[0]);
          CHECK(zo_node_run_perturb_weights(&run, tensors, kTensors) == ZO_OK);
          for (uint32_t i = 0; i < kTensors; ++i) {
            CHECK(memcmp(before[i], weights[i], kSizes) == 0);
          }
          break;
        default:
          CHECK(zo_node_run_update(&run, tensors, 1, NULL, NULL, &report) == ZO_ERROR_ARGUMENT);
          test_refused_tensors(&run, tensors, weights[0]);
          CHECK(zo_node_run_update_weights(&run, tensors, kTensors, NULL, &report) == ZO_OK);
          CHECK(report.step_done == 1u);
      }
    }
    const uint32_t sides = s->estimator == ZO_ANTITHETIC ? 2u : 1u;
    CHECK(counts[ZO_NODE_FORWARD] == s->steps * s->parts);
    CHECK(counts[ZO_NODE_QUERY] == s->steps * s->parts * task.queries * sides);
    CHECK(counts[ZO_NODE_RESTORE] == s->steps * s->parts && counts[ZO_NODE_UPDATE] == s->steps);
    for (uint32_t i = 0; i < kTensors; ++i) {
      free(weights[i]);
      free(before[i]);
    }
    free(task.nodes);
    free(task.sums);
    free(entering);
    free(losses);
  }
}

/* Against the largest of an array: its first place. */
static void test_block_choice(void) {
  for (int round = 0; round < ROUNDS(2000); ++round) {
    const uint32_t blocks = 1 + random_below(8);
    /* Few values, so that there are ties; among them the extremes. */
    static const int64_t values[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
    zo_block_choice choice;
    memset(&choice, 0xA5, sizeof choice);
    CHECK(zo_block_choice_init(&choice, blocks) == ZO_OK);
    zo_block_request request, again;
    int64_t scores[8];
    uint32_t first = 0;
    for (uint32_t b = 0; b < blocks; ++b) {
      CHECK(zo_block_choice_next(&choice, &request) == ZO_OK);
      CHECK(zo_block_choice_next(&choice, &again) == ZO_OK); /* as often as one likes */
      CHECK(memcmp(&request, &again, sizeof request) == 0);
      CHECK(request.action == ZO_BLOCK_PROBE && request.block == b);
      scores[b] = values[random_below(5)];
      CHECK(zo_block_choice_report(&choice, scores[b]) == ZO_OK);
    }
    for (uint32_t b = blocks; b-- > 0;) {
      int largest = 1;
      for (uint32_t other = 0; other < blocks; ++other) largest &= scores[b] >= scores[other];
      if (largest) first = b;
    }
    CHECK(zo_block_choice_next(&choice, &request) == ZO_OK);
    CHECK(request.action == ZO_BLOCK_DONE && request.block == first);
    CHECK(choice.score == scores[first]);
    CHECK(zo_block_choice_report(&choice, INT64_MAX) == ZO_ERROR_ORDER);
    CHECK(zo_block_choice_next(&choice, &again) == ZO_OK);
    CHECK(memcmp(&request, &again, sizeof request) == 0);
    CHECK(zo_block_choice_init(&choice, 0) == ZO_ERROR_ARGUMENT);
    CHECK(zo_block_choice_init(NULL, blocks) == ZO_ERROR_ARGUMENT);
    CHECK(zo_block_choice_next(NULL, &request) == ZO_ERROR_ARGUMENT);
    CHECK(zo_block_choice_next(&choice, NULL) == ZO_ERROR_ARGUMENT);
    CHECK(zo_block_choice_report(NULL, 0) == ZO_ERROR_ARGUMENT);
  }
}

int main(void) {
  test_stream();
  test_perturb();
  test_masks();
  test_chains();
  test_a_million_restores();
  test_update();
  test_update_errors();
  test_losses();
  test_commands();
  for (uint32_t tensors = 1; tensors <= kMaxTensors; ++tensors) {
    for (uint32_t mode = 0; mode < 8; ++mode) {
      test_weight_op(tensors, mode * ZO_OPTION_FRACTION);
    }
  }
  test_loss_op();
  test_int16_perturbation();
  for (uint32_t mode = 0; mode < 4; ++mode) test_int16_op(mode & 1u, mode >> 1);
  test_control();
  test_log_header();
  test_many_blocks();
  test_measurements();
  test_bits();
  test_nodes();
  test_node_tail();
  test_node_sizes_that_wrap();
  test_a_following_layer_that_wraps();
  test_a_command_of_many_items();
  test_snapshot_sizes();
  test_node_run();
  test_weight_task();
  test_block_choice();
  printf("core_test: %lu checks passed, digest %08" PRIx32 "\n", checks, digest);
  return 0;
}
