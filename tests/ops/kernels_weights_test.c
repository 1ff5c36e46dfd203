/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The weight loops of a kernel set against the core's portable forms, which are tested from Python
 * against an oracle: random lengths at random addresses, all weights at either end, steps that clip
 * none of them or all.
 */
#include <string.h>

#include "kernels_test.h"
#include "ops/core/kernels/zo_apply_row.h"
#include "ops/core/nodes/zo_node_layer.h"
#include "ops/core/random/zo_sign_reader.h"
#include "ops/core/weights/zo_perturb.h"
#include "ops/core/weights/zo_update.h"

enum { kRounds = 600 };

/* Bytes at any address, twice: for the loops and for the reference. */
typedef struct pair {
  int8_t *memory[2], *at[2];
  uint32_t size;
} pair;

static pair pair_of(uint32_t size) {
  pair p;
  p.size = size;
  for (int i = 0; i < 2; ++i) {
    const uint32_t offset = draw() % 65u;
    p.memory[i] = (int8_t*)allocate(size + offset); /* ends where the memory ends */
    p.at[i] = p.memory[i] + offset;
  }
  int8_t* values = bytes_of(size);
  memcpy(p.at[0], values, size);
  memcpy(p.at[1], values, size);
  free(values);
  return p;
}

static void free_pair(pair* p) {
  free(p->memory[0]);
  free(p->memory[1]);
}

static void check_same(pair* p) {
  CHECK(memcmp(p->at[0], p->at[1], p->size) == 0);
  free_pair(p);
}

static uint32_t any_size(void) { return draw() & 1u ? 1u + draw() % 200u : 1u + draw() % 2500u; }

/* Tensor i of the pair. */
static zo_tensor tensor_of(const pair* weights, const pair* fraction, int i, int32_t limit) {
  zo_tensor t;
  memset(&t, 0, sizeof t);
  t.weights = weights->at[i];
  t.fraction = fraction == NULL ? NULL : fraction->at[i];
  t.size = weights->size;
  t.stream = 77u * weights->size;
  t.limit = limit;
  return t;
}

static zo_distribution any_distribution(void) {
  zo_distribution d = {ZO_RADEMACHER, 0, (uint16_t)(1u + draw() % 127u)};
  if (draw() % 3u == 0u) {
    d.kind = ZO_GAUSSIAN;
    d.mu = (uint16_t)(1u + draw() % 65535u);
  } else if (draw() & 1u) {
    d.kind = ZO_SPARSE_UNIFORM;
    d.p_zero = (uint8_t)draw();
  }
  return d;
}

static void test_words(const zo_weight_loops* loops) {
  for (int round = 0; round < kRounds; ++round) {
    uint32_t words[kZoTileWords], state = round < 32 ? UINT32_C(1) << round : draw() | 1u;
    loops->draw(words, state);
    for (int w = 0; w < kZoTileWords; ++w) CHECK(words[w] == (state = zo_stream_next(state)));
  }
}

static void test_perturbation(const zo_weight_loops* loops) {
  for (int round = 0; round < kRounds; ++round) {
    pair weights = pair_of(any_size());
    const zo_tensor t = tensor_of(&weights, NULL, 0, 127);
    const zo_tensor reference = tensor_of(&weights, NULL, 1, 127);
    const zo_distribution distribution = any_distribution();
    static const int32_t kFactors[3] = {1, -1, -2};
    zo_perturb_term own[3];
    for (int i = 0; i < 3; ++i) {
      own[i].seed = draw();
      own[i].k = kFactors[draw() % 3u];
    }
    const zo_perturb_terms terms = {own, 1u + draw() % 3u};
    CHECK(zo_perturb_s8(&reference, distribution, &terms) == ZO_OK);
    const int done = zo_loops_perturb(loops, &t, distribution, &terms);
    CHECK(done == (t.size >= ZO_LOOPS_MIN));
    if (!done) CHECK(zo_perturb_s8(&t, distribution, &terms) == ZO_OK);
    check_same(&weights);
  }
}

static void draw_queries(zo_query* queries, uint32_t count, int32_t most) {
  for (uint32_t q = 0; q < count; ++q) {
    queries[q].seed = draw();
    queries[q].coefficient = between(-most, most);
    if (draw() % 8u == 0u) queries[q].coefficient = draw() & 1u ? most : -most;
  }
}

/* Sizes of steps from far below an LSB to more than all weights bear. */
static int32_t any_most(int32_t limit) { return limit >> draw() % 28u; }

/* Tensors, one after the other, by one step behind a perturbation that is restored, or by many. */
static void test_updates(const zo_weight_loops* loops) {
  for (int round = 0; round < 3 * kRounds; ++round) {
    enum { kSteps = 40 };
    pair weights = pair_of(any_size()), fractions = pair_of(weights.size);
    const pair* fraction = draw() & 1u ? &fractions : NULL;
    const int32_t limit = draw() & 1u ? 127 : between(1, 127);
    const zo_tensor t = tensor_of(&weights, fraction, 0, limit);
    const zo_tensor reference = tensor_of(&weights, fraction, 1, limit);
    const zo_distribution distribution = any_distribution();
    zo_query queries[kSteps * ZO_MAX_QUERIES];
    const uint32_t count = draw() & 1u ? 1u : 1u + draw() % ZO_MAX_QUERIES;
    const uint32_t steps = draw() & 1u ? 1u : 1u + draw() % kSteps;
    const int32_t sum = (INT32_C(1) << 30) / zo_distribution_z_max(distribution);
    draw_queries(queries, count * steps, any_most(sum / (int32_t)count));
    /* Not a query's: a sum that the core folds into one has to be within the limit. */
    const zo_perturb_term back = {draw(), -1};
    const zo_perturb_terms restored = {&back, 1};
    const zo_perturb_terms* restore = steps == 1u && draw() & 1u ? &restored : NULL;
    uint32_t clipped = 3, expected = 3;
    const zo_status status = steps == 1u ? zo_update_s8(&reference, distribution, restore, queries, count, &expected)
                                         : zo_replay_s8(&reference, distribution, queries, count, steps, &expected);
    CHECK(status == ZO_OK);
    const int done = zo_loops_update(loops, &t, distribution, restore, queries, count, steps, &clipped);
    CHECK(done == (t.size >= ZO_LOOPS_MIN && (distribution.kind != ZO_RADEMACHER || count <= (uint32_t)kZoSigns)));
    if (done) {
      CHECK(clipped == expected);
      CHECK(memcmp(weights.at[0], weights.at[1], weights.size) == 0);
      CHECK(memcmp(fractions.at[0], fractions.at[1], fractions.size) == 0);
    }
    free_pair(&weights);
    free_pair(&fractions);
  }
}

static void test_rows(const zo_weight_loops* loops) {
  for (int round = 0; round < kRounds; ++round) {
    pair weights = pair_of(any_size());
    const int32_t limit = draw() & 1u ? 127 : between(1, 127);
    const int32_t largest = 1 + any_most((INT32_C(1) << 24) - 1);
    int32_t* steps = (int32_t*)allocate(weights.size * sizeof *steps);
    for (uint32_t i = 0; i < weights.size; ++i) {
      weights.at[0][i] = weights.at[1][i] = (int8_t)(weights.at[0][i] % (limit + 1));
      steps[i] = between(-largest, largest);
    }
    uint32_t stream = draw() | 1u, expected_stream = stream;
    uint32_t clipped = 0;
    const uint32_t done = zo_loops_apply_row(loops, weights.at[0], steps, weights.size, limit, &stream, &clipped);
    CHECK(done == weights.size / ZO_LOOPS_MIN * ZO_LOOPS_MIN);
    clipped += zo_apply_row_8(weights.at[0] + done, steps + done, weights.size - done, limit, largest, &stream);
    CHECK(clipped == zo_apply_row_8(weights.at[1], steps, weights.size, limit, largest, &expected_stream));
    CHECK(stream == expected_stream);
    free(steps);
    check_same(&weights);
  }
}

/* Rows of a matrix that ends where its memory ends. */
static void test_products(const zo_weight_loops* loops) {
  for (int round = 0; round < kRounds; ++round) {
    enum { kProducts = 33 };
    const uint32_t count = 1u + draw() % 150u, number = 1u + draw() % kProducts;
    const size_t offset = draw() % 20u, length = offset + count;
    int8_t* rows = bytes_of(number * length);
    zo_product products[kProducts];
    const int32_t most = draw() & 1u ? INT16_MAX : 300;
    for (uint32_t k = 0; k < number; ++k) {
      products[k].row = rows + k * length;
      products[k].factor = draw() % 8u == 0u ? -most : between(-most, most);
    }
    int32_t* sums[2];
    for (int i = 0; i < 2; ++i) sums[i] = (int32_t*)allocate(count * sizeof *sums[i]);
    for (uint32_t j = 0; j < count; ++j) sums[0][j] = sums[1][j] = between(-1000000, 1000000);
    const int32_t zero_point = draw() & 1u ? -128 : between(-128, 127);
    const uint32_t done = zo_loops_add_products(loops, sums[0], count, products, number, offset, zero_point);
    CHECK(done <= count && count - done < 16u);
    for (uint32_t j = 0; j < count; ++j) {
      for (uint32_t k = 0; k < number; ++k) {
        sums[1][j] += products[k].factor * (products[k].row[offset + j] - zero_point);
      }
      if (j < done) CHECK(sums[0][j] == sums[1][j]);
    }
    free(sums[0]);
    free(sums[1]);
    free(rows);
  }
}

/* Sums along the signs of nodes, from any one of them on, by their definition. */
static void test_sign_sums(const zo_weight_loops* loops) {
  for (int round = 0; round < kRounds; ++round) {
    const uint32_t queries = 1u + draw() % ZO_MAX_QUERIES, stream = draw();
    const uint32_t first = draw() % 3000u, count = 1u + draw() % 1500u;
    uint32_t seeds[ZO_MAX_QUERIES];
    int32_t coefficients[ZO_MAX_QUERIES];
    for (uint32_t q = 0; q < queries; ++q) {
      seeds[q] = draw();
      coefficients[q] = between(-(1 << 25), 1 << 25);
    }
    int32_t* sums = (int32_t*)allocate(count * sizeof *sums);
    zo_loops_sum_signs(loops, seeds, coefficients, queries, stream, first, count, sums);
    for (uint32_t i = 0; i < count; ++i) {
      int32_t sum = 0;
      for (uint32_t q = 0; q < queries; ++q) {
        const uint32_t at = first + i, word = zo_sign_word(seeds[q], stream, at);
        sum += (word >> at % 32u & 1u) != 0u ? -coefficients[q] : coefficients[q];
      }
      CHECK(sums[i] == sum);
    }
    free(sums);
  }
}

/* Nodes of layers, clamped or not, pooled or not. */
static void test_nodes(const zo_weight_loops* loops) {
  for (int round = 0; round < kRounds; ++round) {
    zo_node_layer l;
    memset(&l, 0, sizeof l);
    l.in_h = l.in_w = l.in_c = l.k_h = l.k_w = l.stride_h = l.stride_w = l.dilation_h = l.dilation_w = 1;
    l.node_h = l.out_h = draw() & 1u ? 1u : 1u + draw() % 30u;
    l.node_w = l.out_w = draw() % 4u == 0u ? 1u : 1u + draw() % 30u;
    l.out_c = draw() % 4u == 0u ? 1u : 1u + draw() % 40u;
    l.low = draw() & 1u ? -128 : between(-129, 127);
    l.high = draw() & 1u ? 127 : between(-128, 128);
    const int32_t k = between(-127, 127);
    const uint32_t count = zo_node_count(&l), seed = draw();
    int8_t *from = bytes_of(count), *to = (int8_t*)allocate(count);
    int8_t* expected = (int8_t*)allocate(count);
    CHECK(zo_perturb_nodes_s8(&l, 1, 7, from, seed, k, expected) == ZO_OK);
    const zo_node_block block = {l.node_h * l.node_w,        l.out_c, l.low, l.high, l.low > -128 ? l.low : -128,
                                 l.high < 127 ? l.high : 127};
    const int done = zo_loops_perturb_nodes(loops, &block, from, seed, ZO_NODE_STREAM + 7u, k, to);
    CHECK(done == (count <= (uint32_t)(kZoSigns * ZO_STREAM_TILE)));
    if (done) CHECK(memcmp(to, expected, count) == 0);
    free(from);
    free(to);
    free(expected);
  }
}

void test_weights(const zo_kernel_set* set) {
  const zo_weight_loops* loops = set->weights;
  if (loops == NULL) return; /* the portable form is the reference of all others */
  test_words(loops);
  test_perturbation(loops);
  test_updates(loops);
  test_rows(loops);
  test_products(loops);
  test_sign_sums(loops);
  test_nodes(loops);
}
