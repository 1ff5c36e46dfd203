/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of the weight ops, sums of products, and rows of gradients, steps and weights against
 * the portable C in the same program: the core is linked twice, the second time compiled with
 * ZO_PORTABLE and every function's name begun with `portable_`. Weights of any value at any
 * address, with multipliers now and then, steps from nothing to the largest allowed,
 * limits from 1 to 127, at and around the edges where a kernel changes over to another.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/core/kernels/zo_add_products.h"
#include "ops/core/kernels/zo_apply_row.h"
#include "ops/core/kernels/zo_dense_sums.h"
#if ZO_DENSE_CHANNELS > 0u && ZO_MVE
#include "ops/core/kernels/zo_dense_errors_mve.h"
#elif ZO_DENSE_CHANNELS > 0u
#include "ops/core/kernels/zo_dense_errors_dsp.h"
#endif
#include "ops/core/kernels/zo_row_steps.h"
#include "ops/core/weights/zo_perturb.h"
#include "ops/core/weights/zo_update.h"
#include "ops/core/zo_features.h"

zo_status portable_zo_perturb_s8(const zo_tensor* tensor, zo_distribution distribution, const zo_perturb_terms* terms);
zo_status portable_zo_update_s8(const zo_tensor* tensor, zo_distribution distribution, const zo_perturb_terms* restore,
                                const zo_query* queries, uint32_t count, uint32_t* saturated);
zo_status portable_zo_replay_s8(const zo_tensor* tensor, zo_distribution distribution, const zo_query* queries,
                                uint32_t count, uint32_t steps, uint32_t* saturated);

void portable_zo_add_products(int32_t* sums, uint32_t count, const zo_product* products, uint32_t number, size_t offset,
                              int32_t zero_point);

uint32_t portable_zo_apply_row_8(int8_t* weights, const int32_t* steps, uint32_t count, int32_t limit, int32_t largest,
                                 uint32_t* stream);
uint32_t portable_zo_apply_row_16(int8_t* weights, int8_t* fraction, const int32_t* steps, uint32_t count,
                                  int32_t limit, int32_t largest);

uint64_t portable_zo_row_squares(const int32_t* gradient, uint32_t count);
zo_row_scale portable_zo_row_scale_of(zo_scale factor, int32_t clip);
void portable_zo_row_steps(int32_t* values, uint32_t count, int32_t largest, const zo_row_scale* scale,
                           uint64_t* squares);

enum { kLargest = 2100, kRounds = 2500, kSteps = 3 };

static uint32_t state = 88172645u;

static uint32_t random_u32(void) {
  state = state * 1664525u + 1013904223u;
  const uint32_t high = state >> 16;
  state = state * 1664525u + 1013904223u;
  return high << 16 | state >> 16;
}

static uint32_t below(uint32_t bound) { return random_u32() % bound; }

/* Within +-limit, or anything. */
static void fill(int8_t* at, uint32_t size, int32_t limit, int anything) {
  for (uint32_t i = 0; i < size; ++i) {
    const uint32_t r = random_u32();
    int32_t value = (int8_t)(r >> 8);
    if (!anything) value = (int32_t)(r >> 8) % (limit + 1) * (r & 1u ? 1 : -1);
    if (!anything && (r & 6u) == 0u) value = value < 0 ? -limit : limit;
    at[i] = (int8_t)value;
  }
}

/* Sums of |coefficients| at which a kernel changes over, and others of every magnitude. */
static int32_t random_sum(int32_t limit) {
  const int32_t edges[] = {0,         1,      32768, 65535, 65536, 127 << 16, 1 << 23, (128 - limit) * 65536 - 256,
                           255 << 16, 1 << 30};
  const uint32_t r = below(4);
  if (r == 0u) return (int32_t)(random_u32() >> (2u + below(20)));
  if (r == 1u) return (int32_t)below(300000);
  const int32_t edge = edges[below(sizeof edges / sizeof edges[0])] + (int32_t)below(3) - 1;
  return edge < 0 ? 0 : (edge > 1 << 30 ? 1 << 30 : edge);
}

/* Signs mostly; sparse uniform ones have only compiled loops. */
static zo_distribution random_distribution(void) {
  zo_distribution d = {ZO_RADEMACHER, 0, (uint16_t)(1u + below(127))};
  const uint32_t r = below(8);
  if (!ZO_FEATURES) return d;
  if (r <= 1u) {
    d.kind = ZO_GAUSSIAN;
    d.mu = (uint16_t)(1u + below(4000));
  } else if (r == 2u) {
    d.kind = ZO_SPARSE_UNIFORM;
    d.p_zero = (uint8_t)below(256);
  }
  return d;
}

static int8_t bytes[4][kLargest + 8];
enum { kChannels = 5 };
static int32_t multipliers[kChannels];

static int compare(uint32_t round) {
  static const uint32_t sizes[] = {1, 31, 32, 33, 64, 100, 1023, 1024, 1025, 1056, 2048, kLargest};
  const uint32_t size = below(3) == 0u ? below(71) : sizes[below(12)];
  const uint32_t shift = below(3) == 0u ? below(4) : 0u;
  const int has_fraction = (int)below(2);
  const int anything = below(3) == 0u;
  zo_tensor a, b;
  memset(&a, 0, sizeof a);
  a.size = size;
  a.channels = kChannels;
  a.inner = 1u + below(below(2) == 0u ? 40u : 700u);
  for (uint32_t i = 0; i < kChannels; ++i) {
    multipliers[i] = (int32_t)(below(4) == 0u ? below(3) << 30 >> 1 : random_u32() >> 1);
  }
  if (ZO_FEATURES && below(5) == 0u) a.multiplier = multipliers;
  a.stream = below(70000);
  a.limit = below(4) == 0u ? 1 + (int32_t)below(127) : 123 + (int32_t)below(5);
  a.weights = bytes[0] + shift;
  a.fraction = has_fraction ? bytes[1] + (shift ^ 1u) : NULL;
  fill(a.weights, size, a.limit, anything);
  fill(bytes[1] + (shift ^ 1u), size, 127, 1);
  for (uint32_t i = 0; has_fraction && !anything && i < size; ++i) {
    if (a.weights[i] == a.limit || a.weights[i] == -a.limit) a.fraction[i] = 0;
  }
  b = a;
  b.weights = bytes[2] + shift;
  memcpy(b.weights, a.weights, size);
  if (has_fraction) {
    b.fraction = bytes[3] + (shift ^ 1u);
    memcpy(b.fraction, a.fraction, size);
  }

  const zo_distribution distribution = random_distribution();
  zo_query queries[kSteps * ZO_MAX_QUERIES];
  const uint32_t most = below(6) == 0u ? ZO_MAX_QUERIES : 9u;
  const uint32_t count = 1u + below(most < ZO_MAX_QUERIES ? most : ZO_MAX_QUERIES);
  for (uint32_t t = 0; t < kSteps; ++t) {
    int32_t left = random_sum(a.limit) / (distribution.kind == ZO_RADEMACHER ? 1 : 127);
    for (uint32_t q = 0; q < count; ++q) {
      const int32_t part = q + 1u == count ? left : left / 2;
      queries[t * count + q].seed = random_u32();
      queries[t * count + q].coefficient = below(2) == 0u ? part : -part;
      left -= part;
    }
  }
  zo_perturb_term terms[3];
  for (uint32_t t = 0; t < 3u; ++t) {
    static const int32_t factors[] = {1, -1, -2};
    terms[t].seed = random_u32();
    terms[t].k = factors[below(3)];
  }
  /* As in training: the restored perturbation was along one of the queries. */
  if (below(2) == 0u) terms[0].seed = queries[below(count)].seed;
  const zo_perturb_terms perturbation = {terms, 1u + below(3)};

  uint32_t clipped_a = 0, clipped_b = 0;
  zo_status status_a, status_b;
  if (round % 4u == 0u) {
    status_a = zo_perturb_s8(&a, distribution, &perturbation);
    status_b = portable_zo_perturb_s8(&b, distribution, &perturbation);
  } else if (round % 4u == 1u) {
    status_a = zo_replay_s8(&a, distribution, queries, count, kSteps, &clipped_a);
    status_b = portable_zo_replay_s8(&b, distribution, queries, count, kSteps, &clipped_b);
  } else {
    const zo_perturb_terms* const restore = below(2) == 0u ? NULL : &perturbation;
    status_a = zo_update_s8(&a, distribution, restore, queries, count, &clipped_a);
    status_b = portable_zo_update_s8(&b, distribution, restore, queries, count, &clipped_b);
  }
  const zo_status expected = size > 0u ? ZO_OK : ZO_ERROR_ARGUMENT;
  if (status_a == expected && status_b == expected && clipped_a == clipped_b &&
      memcmp(a.weights, b.weights, size) == 0 && (!has_fraction || memcmp(a.fraction, b.fraction, size) == 0)) {
    return 1;
  }
  printf("round %" PRIu32 ": size %" PRIu32 " shift %" PRIu32 " limit %d queries %" PRIu32
         " has_fraction %d anything %d distribution %d: status %d %d, clipped %" PRIu32 " %" PRIu32 "\n",
         round, size, shift, (int)a.limit, count, has_fraction, anything, (int)distribution.kind, (int)status_a,
         (int)status_b, clipped_a, clipped_b);
  return 0;
}

/* Sums of any number of products, of rows at any address. */
static int compare_products(uint32_t round) {
  enum { kSums = 70, kProducts = 70, kLength = 90 };
  static int8_t rows[kProducts][kLength];
  static int32_t sums[kSums + 1], portable_sums[kSums + 1];
  zo_product products[kProducts];
  const uint32_t count = below(kSums + 1u), offset = below(kLength - kSums + 1u);
  const uint32_t number = below(2) == 0u ? below(6) : below(kProducts + 1u);
  const int32_t zero_point = below(2) == 0u ? 0 : (int32_t)below(256) - 128;
  for (uint32_t i = 0; i < number; ++i) {
    fill(rows[i], kLength, 127, 1);
    products[i].row = rows[i];
    products[i].factor = (int32_t)below(65536) - 32768;
  }
  for (uint32_t j = 0; j <= kSums; ++j) {
    sums[j] = portable_sums[j] = (int32_t)(random_u32() >> 4) - (1 << 27);
  }
  zo_add_products(sums, count, products, number, offset, zero_point);
  portable_zo_add_products(portable_sums, count, products, number, offset, zero_point);
  if (memcmp(sums, portable_sums, sizeof sums) == 0) return 1;
  printf("round %" PRIu32 ": %" PRIu32 " sums of %" PRIu32 " products\n", round, count, number);
  return 0;
}

/* Sums of several channels, of a part of the columns; odd numbers of all, and samples that are not
 * next to each other in memory. */
static int compare_dense(uint32_t round) {
#if ZO_DENSE_CHANNELS > 0u
  enum { kColumns = 75, kApart = 76, kLongest = 160 };
  static int8_t inputs[ZO_DENSE_SAMPLES * kLongest];
  static int32_t sums[ZO_DENSE_CHANNELS][kApart], portable_sums[ZO_DENSE_CHANNELS][kApart];
  static zo_dense_block block;
  zo_product products[ZO_DENSE_SAMPLES];
  int16_t errors[ZO_DENSE_SAMPLES];
  const uint32_t count = 1u + below(kColumns), offset = below(kLongest - count + 1u);
  const uint32_t length = offset + count + below(kLongest - offset - count + 1u);
  const uint32_t samples = 1u + below(ZO_DENSE_SAMPLES);
  const uint32_t channels = 1u + below(ZO_DENSE_CHANNELS);
  const int adds = (int)below(2);
  const zo_dense_inputs of = {inputs + offset, length, samples, (int32_t)below(256) - 128};
  fill(inputs, samples * length, 127, 1);
  for (uint32_t c = 0; c < channels; ++c) {
    int32_t sum = 0, magnitudes = 0;
    for (uint32_t b = 0; b < samples; ++b) {
      errors[b] = (int16_t)(below(4) == 0u ? 32767 - 65534 * (int32_t)below(2) : (int32_t)below(65535) - 32767);
      sum += errors[b];
      magnitudes += errors[b] < 0 ? -errors[b] : errors[b];
      products[b].row = of.first + b * length;
      products[b].factor = errors[b];
    }
    int32_t found = 1;
    const int same = zo_dense_sum_errors(errors, samples, &found) == magnitudes && found == sum;
    if (!same) printf("round %" PRIu32 ": sums of %" PRIu32 " errors\n", round, samples);
    if (!same) return 0;
    zo_dense_set_errors(&block, c, errors, samples);
    for (uint32_t j = 0; j < kApart; ++j) sums[c][j] = (int32_t)(random_u32() >> 4) - (1 << 27);
    memcpy(portable_sums[c], sums[c], sizeof sums[c]);
    if (!adds) memset(portable_sums[c], 0, sizeof sums[c]);
    portable_zo_add_products(portable_sums[c], count, products, samples, 0, of.zero_point);
  }
  zo_dense_sums(sums[0], kApart, count, channels, &block, &of, adds);
  for (uint32_t c = 0; c < channels; ++c) {
    if (memcmp(sums[c], portable_sums[c], count * sizeof sums[0][0]) == 0) continue;
    printf("round %" PRIu32 ": channel %" PRIu32 ", %" PRIu32 " sums of %" PRIu32 " samples\n", round, c, count,
           samples);
    return 0;
  }
  return 1;
#else
  return (int)round >= 0;
#endif
}

/* Rows of any length at any address; now and then one that is longer than lanes of a byte count. */
enum { kRow = 4500 };
static int32_t row[kRow], portable_row[kRow];
static int8_t row_weights[2][2][kRow + 8]; /* and fractions */

static uint32_t random_row(int32_t largest, int even_larger) {
  static const uint32_t sizes[] = {0, 1, 3, 4, 15, 16, 17, 31, 32, 33, 150, 400};
  const uint32_t count = below(100) == 0u ? kRow - below(20) : sizes[below(12)];
  for (uint32_t j = 0; j < count; ++j) {
    const uint32_t r = random_u32();
    row[j] = (int32_t)(random_u32() % (2u * (uint32_t)largest + 1u)) - largest;
    if (r % 16u == 0u) row[j] = r & 16u ? largest : -largest;
    if (even_larger && r % 16u == 1u) row[j] = (int32_t)(r >> 1) - (1 << 30);
    portable_row[j] = row[j];
  }
  return count;
}

static int compare_moves(uint32_t round) {
  const int32_t limit = below(2) == 0u ? 1 + (int32_t)below(127) : 120 + (int32_t)below(8);
  const int32_t largest =
      below(4) == 0u ? (127 << 16) - 1 + (int32_t)below(3) : 1 + (int32_t)(random_u32() >> (8u + below(22)));
  const uint32_t count = random_row(largest, 0), shift = below(4);
  const int anything = below(3) == 0u;
  for (uint32_t part = 0; part < 2u; ++part) {
    fill(row_weights[0][part] + shift, count, part == 0u ? limit : 127, anything || part == 1u);
  }
  memcpy(row_weights[1], row_weights[0], sizeof row_weights[0]);
  uint32_t stream = random_u32() | 1u, portable_stream = stream, clipped, portable_clipped;
  if (below(2) == 0u) {
    clipped = zo_apply_row_8(row_weights[0][0] + shift, row, count, limit, largest, &stream);
    portable_clipped = portable_zo_apply_row_8(row_weights[1][0] + shift, row, count, limit, largest, &portable_stream);
  } else {
    clipped = zo_apply_row_16(row_weights[0][0] + shift, row_weights[0][1] + shift, row, count, limit, largest);
    portable_clipped =
        portable_zo_apply_row_16(row_weights[1][0] + shift, row_weights[1][1] + shift, row, count, limit, largest);
  }
  if (clipped == portable_clipped && stream == portable_stream &&
      memcmp(row_weights[0], row_weights[1], sizeof row_weights[0]) == 0) {
    return 1;
  }
  printf("round %" PRIu32 ": a row of %" PRIu32 ", limit %d, largest %d, clipped %" PRIu32 " %" PRIu32 "\n", round,
         count, (int)limit, (int)largest, clipped, portable_clipped);
  return 0;
}

/* Rows by the same steps, in any order, as many bytes apart as rows of words are or not. */
static int compare_equal_moves(uint32_t round) {
#if ZO_ROWS_TOGETHER > 1u
  const int32_t limit = below(2) == 0u ? 1 + (int32_t)below(127) : 120 + (int32_t)below(8);
  const int32_t largest = 1 + (int32_t)(random_u32() >> (8u + below(22)));
  const uint32_t count = random_row(largest, 0) % 1000u, shift = below(3) == 0u ? below(4) : 0u;
  const uint32_t length = below(3) == 0u ? count : (count + 3u) / 4u * 4u;
  const int has_fraction = ZO_ROWS_FRACTIONS && below(2) == 0u, anything = below(3) == 0u;
  int8_t* const weights[2] = {row_weights[0][0] + shift, row_weights[1][0] + shift};
  uint32_t apart[ZO_ROWS_TOGETHER], streams[ZO_ROWS_TOGETHER], clipped = 0, portable_clipped = 0;
  fill(row_weights[0][0], kRow + 8, limit, anything);
  fill(row_weights[0][1], kRow + 8, 127, 1);
  memcpy(row_weights[1], row_weights[0], sizeof row_weights[0]);
  for (uint32_t i = 0; i < ZO_ROWS_TOGETHER; ++i) {
    apart[i] = (round + i) % ZO_ROWS_TOGETHER * length;
    streams[i] = random_u32() | 1u;
    int8_t* const own = weights[1] + apart[i];
    portable_clipped += has_fraction
                            ? portable_zo_apply_row_16(own, row_weights[1][1] + apart[i], row, count, limit, largest)
                            : portable_zo_apply_row_8(own, row, count, limit, largest, &(uint32_t){streams[i]});
  }
#if ZO_ROWS_FRACTIONS
  if (has_fraction) {
    clipped = zo_apply_rows_16(weights[0], row_weights[0][1], apart, row, count, limit, largest);
  }
#endif
  if (!has_fraction) {
    clipped = zo_apply_rows_8(weights[0], apart, row, count, limit, largest, streams);
  }
  const int same = memcmp(row_weights[0], row_weights[1], sizeof row_weights[0]) == 0;
  if (same && clipped == portable_clipped) return 1;
  printf("round %" PRIu32 ": equal rows of %" PRIu32 ", %" PRIu32 " apart, limit %d, fraction %d\n", round, count,
         length, (int)limit, has_fraction);
  return 0;
#else
  return (int)round >= 0;
#endif
}

/* Steps of gradients, by factors from next to nothing to more than any clip bears. */
static int compare_steps(uint32_t round) {
  const int32_t bound = (int32_t)(random_u32() >> (2u + below(28))) + 1;
  const int beyond = below(4) == 0u;
  const uint32_t count = random_row(bound, beyond);
  zo_scale factor = {random_u32() | UINT32_C(0x80000000), (int32_t)below(80) - 70};
  if (below(20) == 0u) factor.mantissa = below(2) == 0u ? 0u : UINT32_C(0x80000000);
  const int32_t clip = 1 + (int32_t)(random_u32() >> (8u + below(24)));
  uint64_t squares = 5, portable_squares = 5;
  const uint64_t alone = zo_row_squares(row, count);
  const zo_row_scale scale = zo_row_scale_of(factor, clip);
  const zo_row_scale portable_scale = portable_zo_row_scale_of(factor, clip);
  zo_row_steps(row, count, beyond ? INT32_MAX : bound, &scale, &squares);
  portable_zo_row_steps(portable_row, count, INT32_MAX, &portable_scale, &portable_squares);
  if (squares == portable_squares && squares == alone + 5u && memcmp(row, portable_row, sizeof row) == 0) {
    return 1;
  }
  printf("round %" PRIu32 ": steps of %" PRIu32 ", bound %d, exponent %d, clip %d\n", round, count, (int)bound,
         (int)factor.exponent, (int)clip);
  return 0;
}

int main(void) {
  for (uint32_t round = 0; round < kRounds; ++round) {
    if (!compare(round)) return 1;
  }
  for (uint32_t round = 0; round < kRounds; ++round) {
    if (!compare_products(round) || !compare_moves(round) || !compare_steps(round) || !compare_equal_moves(round) ||
        !compare_dense(round)) {
      return 1;
    }
  }
  printf("%d rounds agree\n", (int)kRounds);
  return 0;
}
