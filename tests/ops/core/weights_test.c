/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The random stream, perturbation, update and replay of weights. */
#include "core_test.h"

void test_stream(void) {
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
    CHECK(zo_distribution_reach(distribution) == (distribution.kind == ZO_GAUSSIAN ? (105 * mu + 2048) / 4096 : mu));
    for (size_t s = 0; s < SIZES; ++s) {
      array z = make_array(sizes[s], 3, 0), later = make_array(sizes[s], 1, 0);
      CHECK(zo_direction(distribution, 5, 6, 0, sizes[s], z.at) == ZO_OK);
      for (uint32_t i = 0; i < z.size; ++i) {
        CHECK(abs(z.at[i]) <= zo_distribution_z_max(distribution));
      }
      CHECK(zo_direction(distribution, 5, 6, UINT32_C(0xFFFFFC00), 7 < sizes[s] ? 7 : 1, later.at) ==
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

zo_status perturb(const zo_tensor* tensor, zo_distribution distribution, const zo_perturb_term* terms, uint32_t count) {
  const zo_perturb_terms all = {terms, count};
  return zo_perturb_s8(tensor, distribution, &all);
}

void test_perturb(void) {
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

void test_a_million_restores(void) {
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

void random_queries(zo_query* queries, uint32_t count, int32_t largest) {
  for (uint32_t q = 0; q < count; ++q) {
    queries[q].seed = random_u32();
    queries[q].coefficient = random_between(-largest, largest);
  }
}

static void update_once(uint32_t size, zo_distribution distribution, uint32_t mode, uint32_t shift) {
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
    CHECK(zo_update_s8(&tensor_2, distribution, NULL, queries + t * count, count, &saturated_2) == ZO_OK);
  }
  CHECK(same(&weights, &weights_2));
  CHECK(!has_fraction || same(&fraction, &fraction_2));
  CHECK(saturated == saturated_2);
  for (uint32_t i = 0; i < size; ++i) CHECK(abs(weights.at[i]) <= tensor.limit);

  /* The restoration is a perturbation, then comes the step. */
  const zo_perturb_term undo[2] = {{queries[count - 1].seed, -1}, {random_u32(), -2}};
  const zo_perturb_terms restore = {undo, 1 + random_below(2)};
  CHECK(zo_update_s8(&tensor, distribution, &restore, queries, count, NULL) == ZO_OK);
  CHECK(perturb(&tensor_2, distribution, undo, restore.count) == ZO_OK);
  CHECK(zo_update_s8(&tensor_2, distribution, NULL, queries, count, NULL) == ZO_OK);
  CHECK(same(&weights, &weights_2));
  CHECK(!has_fraction || same(&fraction, &fraction_2));
  CHECK(zo_checksum(&tensor) == zo_checksum(&tensor_2));
  digest = digest * 31u + zo_checksum(&tensor);
  weights.at[size - 1] ^= 1;
  CHECK(zo_checksum(&tensor) != zo_checksum(&tensor_2));

  free(queries);
  free(multiplier);
  free(weights.memory);
  free(fraction.memory);
  free(weights_2.memory);
  free(fraction_2.memory);
}

void test_update(void) {
  for (size_t s = 0; s < SIZES; ++s) {
    for (size_t d = 0; d < DISTRIBUTIONS; ++d) {
      for (uint32_t mode = 0; mode < 16; ++mode) {
        if ((mode + 3u * s + 5u * d) % CORE_TEST_THIN != 0u) continue;
        update_once(sizes[s], distributions[d], mode, (mode + (uint32_t)s) % 4);
      }
    }
  }
}

void test_update_errors(void) {
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
  zo_perturb_terms restore = {wrong, 2};
  CHECK(zo_update_s8(&tensor, d, &restore, queries, 1, &saturated) == ZO_ERROR_FACTOR);
  restore.count = ZO_MAX_TERMS + 1;
  CHECK(zo_update_s8(&tensor, d, &restore, queries, 1, &saturated) == ZO_ERROR_QUERIES);
  restore.terms = NULL;
  restore.count = 1;
  CHECK(zo_update_s8(&tensor, d, &restore, queries, 1, &saturated) == ZO_ERROR_ARGUMENT);
  CHECK(zo_update_s8(&tensor, d, NULL, queries, ZO_MAX_QUERIES + 1, &saturated) == ZO_ERROR_QUERIES);
  CHECK(zo_replay_s8(NULL, d, queries, 1, 1, &saturated) == ZO_ERROR_ARGUMENT);
  CHECK(zo_replay_s8(&tensor, d, NULL, 1, 1, &saturated) == ZO_ERROR_ARGUMENT);
  CHECK(zo_replay_s8(&tensor, d, queries, 0, 1, &saturated) == ZO_ERROR_ARGUMENT);
  CHECK(zo_replay_s8(&tensor, d, queries, 1, 0, &saturated) == ZO_ERROR_ARGUMENT);
  CHECK(zo_replay_s8(&tensor, d, queries, ZO_MAX_QUERIES + 1, 2, &saturated) == ZO_ERROR_QUERIES);
  for (size_t i = 0; i < BAD_DISTRIBUTIONS; ++i) {
    CHECK(zo_update_s8(&tensor, bad_distributions[i], NULL, queries, 1, &saturated) == ZO_ERROR_DISTRIBUTION);
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
