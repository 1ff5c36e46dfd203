/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * NODE_UPDATE: one optimization step of a layer from the evidence of a minibatch about its nodes,
 * output channel by output channel, without a gradient of the layer's size.
 */
#ifndef TFLM_ZO_OPS_CORE_NODES_ZO_NODE_UPDATE_H_
#define TFLM_ZO_OPS_CORE_NODES_ZO_NODE_UPDATE_H_

#include "ops/core/math/zo_scale.h"
#include "ops/core/nodes/zo_node_layer.h"
#include "ops/core/zo_workers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The evidence of a minibatch: its pairs, and either loss differences (zeroth-order) or errors
 * (exact). The caller owns everything. */
typedef struct zo_node_evidence {
  uint32_t samples;
  uint32_t queries;           /* 1..ZO_MAX_QUERIES; 0 with errors */
  const int8_t* inputs;       /* [samples, in_h, in_w, in_c]; not read for biases alone */
  const uint8_t* routes;      /* [samples, zo_node_route_bytes]; null: no output is clamped
                                 (ZO_NODES_PLAIN only) */
  const int32_t* differences; /* [queries, samples] L(y + mu z) - L(y - mu z), unit 2^-16;
                                 or null */
  const uint32_t* seeds;      /* [queries], as for zo_perturb_nodes_s8 */
  const int16_t* errors;      /* [samples, nodes] dL/dy in any one unit, or null */
  const int8_t* exponents;    /* [samples] of errors: dL/dy is errors * 2^exponent, so that errors
                                 of each sample can fill 16 bits; null: all are 0 */
} zo_node_evidence;

/* Keeps sums of exponents in int32_t. */
#define ZO_NODE_GAIN_EXPONENT_MAX 1000

/* The rule that makes a step of a gradient estimate G. */
typedef enum zo_node_rule {
  ZO_NODE_RMS = 0,          /* a step of given root mean square */
  ZO_NODE_FIXED = 1,        /* a given factor, as in Poor Man's Training, eq. 11 */
  ZO_NODE_BITS = 2,         /* G rounded to a few bits, as in NITI and ElasticZO-INT8 */
  ZO_NODE_STANDARDIZED = 3, /* G less its mean, over its standard deviation (FQT) */
} zo_node_rule;

/* How far to go. All fields zero but rate and clip: ZO_NODE_RMS over the whole layer. */
typedef struct zo_node_step {
  uint32_t rule;        /* zo_node_rule */
  uint32_t rate;        /* unit 2^-16, < 2^31: of LSB, the RMS (ZO_NODE_RMS) or standard deviation
                           (ZO_NODE_STANDARDIZED) of the step over the updated channels; ZO_NODE_FIXED: a
                           factor of gain */
  uint32_t clip;        /* largest |step| of a weight, unit 2^-16 LSB, 1..2^24 */
  uint32_t seed;        /* of the rounding, 8-bit update */
  uint32_t bits;        /* ZO_NODE_BITS: 1..7 */
  uint32_t rows;        /* output channels that are updated; 0 or out_c: all */
  zo_scale gain;        /* ZO_NODE_FIXED: step, unit 2^-16 LSB, per unit of G at a rate of 1; not zero,
                           exponent within +-ZO_NODE_GAIN_EXPONENT_MAX */
  zo_scale per_error;   /* ZO_NODE_RMS: factor from G^2 to that of errors of 1; zero: errors are of no
                           known size, factor 1. Must pass zo_scale_is_valid */
  zo_scale mean_square; /* ZO_NODE_RMS: running mean of G^2; zero before the first step, updated by
                           each. Unchanged by the other rules. Must pass zo_scale_is_valid */
#if ZO_KERNEL_SETS
  const zo_workers* workers; /* among whom channels are divided; null: the caller alone */
#endif
} zo_node_step;

/* By how many bits errors of a sample are divided where the minibatch's unit is 2^shift. From 31 bits on nothing is
 * left of any error; a sample whose exponent is larger than the shift has errors of 0 alone. */
static inline uint32_t zo_node_error_shift(int32_t shift, int32_t exponent) {
  const uint32_t distance = (uint32_t)(shift - exponent);
  return distance < 31u ? distance : 31u;
}

/* int32 values of scratch memory, zo_node_row + out_c: one output channel of the filter, or parts
 * of several ones; then a value for each output channel if some but not all are updated. */
uint32_t zo_node_scratch_values(const zo_node_layer* layer);

#if ZO_KERNEL_SETS
/* The same for a step that workers divide: a row more for each part beyond the first. */
uint32_t zo_node_scratch_values_of(const zo_node_layer* layer, const zo_workers* workers);
#endif

/* Moves the layer's weights, its biases or both against the gradient estimate of the minibatch.
 *
 *   e_bi    sum_q difference_qb z_i(seed_q, b), differences clipped to +-2^25; or errors_bi
 *           2^x_b, x_b the sample's exponent; 0 if the route says clamped. All divided by one
 *           power of two 2^S (half up), as little as keeps them within D = min(32767, (2^31 - 1) /
 *           (samples * 255 * positions)) by the largest sum_q |difference_qb| (the largest |error|
 *           2^x), and S is at least 0 (the largest x_b of samples that have errors other than 0;
 *           without such samples 0); positions: outputs that a weight of one channel contributes
 *           to and that are credited (nodes of a channel, for ZO_NODES_MEAN outputs of a channel)
 *   G       sum over samples and credited positions of e * (input - input_zero_point), int32;
 *           outside the image the input is its zero point. Its unit is 2^S times that of the
 *           errors before their division. A bias b = 2^ZO_BIAS_SHIFT v is trained as one more
 *           weight v of its channel, whose input is always 2^ZO_BIAS_SHIFT: its G is the sum of e,
 *           times that
 *
 * Updated channels are the `rows` ones with the largest sum over samples and credited positions of
 * |e|, of equals the lower ones (dynamic sparse gradients: G of the others is never formed). Others
 * are left alone; means and maxima below are over the weights of the updated channels of this step.
 *
 * The step, unit 2^-16 LSB:
 *
 *   ZO_NODE_RMS           -G rate / rms, half up. rms: root of the running mean, over steps, of the
 *                         mean of G^2 times `per_error`: mean += (now - mean) / 32 after each step,
 *                         but for a G of zeros from errors of a known size; the first step, which
 *                         has none yet, is preceded by a pass that only measures. No step if it is
 *                         zero. So with `per_error` a step is as long as the errors are large: rate
 *                         for errors of 1
 *   ZO_NODE_FIXED         -G 2^S gain rate / 2^16, half up; gain rate is cut to 32 significant bits
 *   ZO_NODE_STANDARDIZED  -(floor(G 2^f) - M) rate / (2^f std), half up, M = floor(mean(G) 2^f +
 *                         1/2), f the largest of -1..16 for which max |G| 2^f < 2^30; std: root of
 *                         the mean of (G - mean(G))^2, from exact sums in 64 and 128 bits;
 *                         rate / std in 32 significant bits. No step if std is zero. A pass that
 *                         only measures precedes every step
 *
 * clipped to +-clip, times the channel's multiplier if there is one; then rounding and clipping
 * as in zo_update.h. The 8-bit update's rounding stream is that of `seed` and tensor->stream +
 * 2^31, tile c for output channel c, 32 weights at a time.
 *
 *   ZO_NODE_BITS          w = clip(w - zo_pseudo_stochastic(G, shift), -limit, limit), shift =
 *                         max(0, B - bits), B the bit width of max |G|, which a pass of its own
 *                         measures. At most 2^bits LSB, in whole ones: rate, clip, seed and
 *                         multiplier are not used, and a tensor with a fraction is refused
 *
 * A bias takes 2^ZO_BIAS_SHIFT times the step of its v, in whole LSB: plus the lower half of the
 * first word of its rounding stream, which is that of a weight of the 8-bit update, 2^-16 each,
 * rounded down. It stays within +-ZO_BIAS_MAX, or within its old magnitude if that is larger.
 *
 *   tensors    the filter, or the biases (ZO_TENSOR_INT32), or both in this order.
 *              Weights [out_c, k_h, k_w, in_c] or, depthwise, [1, k_h, k_w, out_c], at
 *              most 2^20; biases int32 [out_c]
 *   count      1 or 2
 *   scratch    int32 [zo_node_scratch_values], with workers [zo_node_scratch_values_of]
 *   saturated  if not null, the number of clipped weights and biases is added to it
 *
 * Source: node perturbation as in Poor Man's Training, sec. 3.2, with a direction for every sample;
 * normalization as in RMSProp, one mean for a layer; other rules as named above.
 *
 * Errors: ZO_ERROR_ARGUMENT, ZO_ERROR_QUERIES. */
zo_status zo_node_update_s8(const zo_node_layer* layer, const zo_tensor* tensors, uint32_t count,
                            const zo_node_evidence* evidence, zo_node_step* step, int32_t* scratch,
                            uint32_t* saturated);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_NODES_ZO_NODE_UPDATE_H_ */
