/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * NODE_UPDATE: one optimization step of a layer from what a minibatch says of its nodes, output
 * channel by output channel, without a gradient of the layer's size.
 */
#ifndef TFLM_ZO_OPS_CORE_ZO_NODE_UPDATE_H_
#define TFLM_ZO_OPS_CORE_ZO_NODE_UPDATE_H_

#include "zo_node_layer.h"
#include "zo_scale.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is known of a minibatch: its pairs, and either loss differences (zeroth-order) or errors
 * (exact). The caller owns everything. */
typedef struct zo_node_evidence {
  uint32_t samples;
  uint32_t queries;           /* 1..ZO_MAX_QUERIES; 0 with errors */
  const int8_t* inputs;       /* [samples, in_h, in_w, in_c] */
  const uint8_t* routes;      /* [samples, zo_node_route_bytes]; null: no output is clamped
                                 (ZO_NODES_PLAIN only) */
  const int32_t* differences; /* [queries, samples] L(y + mu z) - L(y - mu z), unit 2^-16;
                                 or null */
  const uint32_t* seeds;      /* [queries], as for zo_perturb_nodes_s8 */
  const int16_t* errors;      /* [samples, nodes] dL/dy in any one unit, or null */
} zo_node_evidence;

/* How far to go. */
typedef struct zo_node_step {
  uint32_t rate;        /* RMS of the step over the layer, unit 2^-16 LSB, < 2^31 */
  uint32_t clip;        /* largest |step| of a weight, unit 2^-16 LSB, 1..2^24 */
  uint32_t seed;        /* of the rounding, 8-bit update */
  zo_scale mean_square; /* running mean of G^2; zero before the first step, updated by each */
} zo_node_step;

/* int32 values of scratch memory: one output channel of the filter. */
uint32_t zo_node_scratch_values(const zo_node_layer* layer);

/* Moves the layer's weights against the gradient estimate of the minibatch.
 *
 *   e_bi    sum_q difference_qb z_i(seed_q, b), differences clipped to +-2^25; or errors_bi;
 *           0 where the route says clamped. All divided by one power of two (half up), as little
 *           as keeps them within D = min(32767, (2^31 - 1) / (samples * 255 * positions)) by the
 *           largest sum_q |difference_qb| (the largest |error|); positions: outputs that a weight
 *           of one channel contributes to and that are credited (nodes of a channel, for
 *           ZO_NODES_MEAN outputs of a channel)
 *   G       sum over samples and credited positions of e * (input - input_zero_point), int32;
 *           outside the image the input is its zero point
 *   step    -G rate / rms, half up, clipped to +-clip, unit 2^-16 LSB, times the channel's
 *           multiplier where there is one; then rounding and clipping as in zo_update.h. The
 *           8-bit update's rounding stream is that of `seed` and tensor->stream + 2^31, block c
 *           for output channel c, 32 weights at a time
 *   rms     root of the running mean, over steps, of G^2 over the layer:
 *           mean += (now - mean) / 32 after each step; the first step, which has none yet, is
 *           preceded by a pass that only measures. No step where it is zero.
 *
 *   tensor     weights [out_c, k_h, k_w, in_c]
 *   scratch    int32 [zo_node_scratch_values]
 *   saturated  if not null, the number of clipped weights is added to it
 *
 * Source: node perturbation as in Poor Man's Training, sec. 3.2, with a direction for every sample;
 * normalization as in RMSProp, one mean for a layer.
 *
 * Errors: ZO_ERROR_ARGUMENT, ZO_ERROR_QUERIES; weights and mean_square are untouched then. */
zo_status zo_node_update_s8(const zo_node_layer* layer, const zo_tensor* tensor,
                            const zo_node_evidence* evidence, zo_node_step* step, int32_t* scratch,
                            uint32_t* saturated);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_ZO_NODE_UPDATE_H_ */
