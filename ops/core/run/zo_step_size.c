/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/run/zo_step_size.h"

#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_stream.h"
#include "ops/core/zo_features.h"

/* Units of z per standard deviation of the Gaussian table: 127 / 3.5 = 254 / 7. */
#define GAUSSIAN_UNITS_NUMERATOR 254
#define GAUSSIAN_UNITS_DENOMINATOR 7

/* Weight of a new d^2 in the running mean: 2^-5. */
#define DIFFERENCE_SQUARE_SHIFT 5

/* Sum of |coefficient| * max |z| that zo_update_s8 accepts. */
#define STEP_SUM_MAX (INT64_C(1) << 30)

/* 1 as a number with 16 fraction bits. */
#define ONE (INT64_C(1) << 16)

static int64_t queries_of(const zo_step_size* s) { return ZO_MAX_QUERIES == 1 ? 1 : (int64_t)s->queries; }

int64_t zo_mean_difference(int64_t difference, int64_t minibatch) {
  return zo_clamp64(zo_divide(difference, minibatch), ZO_MEAN_DIFFERENCE_MAX);
}

int64_t zo_track_mean_square(int64_t mean_square, int64_t d) {
  const int64_t square = d * d;
  return mean_square == 0 ? square : mean_square + zo_floor_shift64(square - mean_square, DIFFERENCE_SQUARE_SHIFT);
}

/* -rate * d / (2 mu Q) or -rate * d / (mu Q): rate and d have 16 fraction bits, like c. */
static int64_t gradient_coefficient(const zo_step_size* s, int64_t d, int64_t rate) {
  if (s->clip > 0u) d = zo_clamp64(d, s->clip);
  const int64_t sides = zo_is_one_sided(s->estimator) ? 1 : 2;
  const int64_t product = zo_divide(-d * rate, ONE); /* <= 2^45 */
  const int64_t up = GAUSSIAN_UNITS_DENOMINATOR * GAUSSIAN_UNITS_DENOMINATOR;
  const int64_t down = GAUSSIAN_UNITS_NUMERATOR * GAUSSIAN_UNITS_NUMERATOR;
  if (zo_is_gaussian(s->distribution)) {
    /* mu: LSB per unit of z, unit 2^-12. With u units to a standard deviation the perturbation
     * is mu u, and a coefficient per unit of z is 1 / u of one per standard deviation. */
    return zo_divide(product * 4096 * up, sides * s->distribution.mu * s->queries * down);
  }
  const int64_t unit = zo_is_sparse_uniform(s->distribution) ? 1 : s->distribution.mu;
  return zo_divide(product, sides * unit * s->queries);
}

/* size LSB per standard deviation of z, shared by the queries, per unit of z. */
static int64_t share_of_query(const zo_step_size* s, int64_t size) {
  const int64_t queries = queries_of(s);
  if (!zo_is_gaussian(s->distribution)) return queries == 1 ? size : zo_divide(size, queries);
  return zo_divide(size * GAUSSIAN_UNITS_DENOMINATOR, queries * GAUSSIAN_UNITS_NUMERATOR);
}

/* -rate * d / rms / Q. */
static int64_t normalized_coefficient(const zo_step_size* s, int64_t d, int64_t rate, int64_t mean_square) {
  const uint32_t rms = zo_square_root((uint64_t)mean_square);
  if (rms == 0u) return 0;
  int64_t ratio = zo_divide(d * ONE, rms);
  if (s->clip > 0u) ratio = zo_clamp64(ratio, s->clip);
  return share_of_query(s, zo_divide(-ratio * rate, ONE));
}

static int64_t sign_coefficient(const zo_step_size* s, int64_t d, int64_t rate) {
  const int64_t size = share_of_query(s, rate);
  return d > 0 ? -size : (d < 0 ? size : 0);
}

/* The rule, among those of the build. */
static uint32_t rule_of(const zo_step_size* s) { return ZO_WITH_STEP_RULES ? s->rule : (uint32_t)ZO_STEP_NORMALIZED; }

int32_t zo_step_coefficient(const zo_step_size* s, int64_t d, uint32_t rate, int64_t mean_square) {
  const int64_t limit = STEP_SUM_MAX / (queries_of(s) * zo_distribution_z_max(s->distribution));
  int64_t c;
  if (rule_of(s) == ZO_STEP_GRADIENT) {
    c = gradient_coefficient(s, d, rate);
  } else if (rule_of(s) == ZO_STEP_NORMALIZED) {
    c = normalized_coefficient(s, d, rate, mean_square);
  } else {
    c = sign_coefficient(s, d, rate);
  }
  return (int32_t)zo_clamp64(c, limit);
}
