/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * From loss differences to the coefficients of a step: how far the weights move along each
 * direction. Shared by the control units (zo_control.h, zo_node_run.h).
 *
 *   d       difference of the sums of losses over the minibatch, divided by the minibatch: unit
 *           2^-16 nat, half away from zero, at most 2^30 either way
 *   rms(d)  floor of the square root of a running mean of d^2: the first d^2, then
 *           mean += floor((d^2 - mean) / 32) for each query, before the step's coefficients
 *   c       as in zo_step_rule, each division half away from zero, first the clip, then the rate,
 *           then the number of queries; at most 2^30 / (Q max |z|) either way, the limit of
 *           zo_update_s8
 */
#ifndef TFLM_ZO_OPS_CORE_RUN_ZO_STEP_SIZE_H_
#define TFLM_ZO_OPS_CORE_RUN_ZO_STEP_SIZE_H_

#include "ops/core/zo_features.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zo_estimator {
  /* d = L(w + z) - L(w - z), SPSA. */
  ZO_ANTITHETIC = 0,
  /* d = L(w + z) - L(w), randomized gradient estimation (Poor Man's Training, eq. 8). */
  ZO_ONE_SIDED = 1,
} zo_estimator;

typedef enum zo_step_rule {
  /* c = -rate * d / (2 mu Q) (antithetic), -rate * d / (mu Q) (one-sided): the gradient estimate
   * times the rate; d is the mean over the minibatch. Rate: LSB^2 per nat. For ZO_GAUSSIAN mu is
   * the standard deviation of the perturbation, for ZO_SPARSE_UNIFORM 1. */
  ZO_STEP_GRADIENT = 0,
  /* c = -rate * d / rms(d) / Q with the running RMS of d: steps of a known size for every scale of
   * the loss. Rate: LSB (per standard deviation of z; per unit of z for sparse uniform).
   */
  ZO_STEP_NORMALIZED = 1,
  /* c = -rate * sign(d) / Q: sign-m-SPSA (QZO-FF, Alg. 1). Rate: LSB, as above. */
  ZO_STEP_SIGN = 2,
} zo_step_rule;

/* In a build that has both. */
static inline int zo_is_one_sided(uint32_t estimator) { return ZO_WITH_ONE_SIDED && estimator == ZO_ONE_SIDED; }

/* Settings of a coefficient besides d and the rate; fields as in zo_control_settings. */
typedef struct zo_step_size {
  uint32_t estimator;
  uint32_t rule;
  zo_distribution distribution;
  uint32_t queries;
  uint32_t clip;
} zo_step_size;

/* Largest |d| that is told from larger ones, unit 2^-16: keeps products in int64_t. */
#define ZO_MEAN_DIFFERENCE_MAX (INT64_C(1) << 30)

/* d of a query: `difference` of sums of losses over a minibatch of so many samples. */
int64_t zo_mean_difference(int64_t difference, int64_t minibatch);

/* The running mean of d^2, unit 2^-32, after one more d; 0: none yet. */
int64_t zo_track_mean_square(int64_t mean_square, int64_t d);

/* c of a query, unit 2^-16 LSB per unit of z.
 *   rate  unit 2^-16 */
int32_t zo_step_coefficient(const zo_step_size* size, int64_t d, uint32_t rate, int64_t mean_square);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_RUN_ZO_STEP_SIZE_H_ */
