/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Floor-log2 loss: a cross-entropy in whole powers of two, without a table (ElasticZO, section 4.3,
 * equations 6 to 12).
 */
#ifndef TFLM_ZO_OPS_CORE_PAPERS_ZO_FLOOR_LOG2_LOSS_H_
#define TFLM_ZO_OPS_CORE_PAPERS_ZO_FLOOR_LOG2_LOSS_H_

#include "ops/core/loss/zo_loss.h"

/* Nats of one power of two, unit 2^-16: round(2^16 ln 2). A constant factor: sums of losses compare
 * as the sums of their whole logarithms do, ties included. */
#define ZO_FLOOR_LOG2_UNIT INT32_C(45426)

/* Of each sample
 *
 *   a_j  = floor((z_j - z_label) * scale_log2e / 2^24)     exponent of e^(s (z_j - z_label))
 *   p    = max_j a_j - 10
 *   l    = floor(log2 sum_j 2^max(a_j - p, 0)) + p
 *   loss = l * ZO_FLOOR_LOG2_UNIT
 *
 *   logits   int8 [samples, classes], classes >= 2; the zero point cancels
 *   labels   int32 [samples], 0..classes - 1, or -1 for an unlabelled sample (loss 0)
 *   losses   int32 [samples], >= 0, unit 2^-16 nat
 *
 * The paper takes p from the larger exponent of two passes. Here p is the pass's own, never above
 * that of two: a term below 2^p counts as 2^p, so every term that the paper keeps is kept. Adding p
 * again changes nothing, since it is a whole number. The paper's scale, a power of two, and its
 * log2(e), 47274 / 2^15, are the one factor scale_log2e, of any scale. For a single sample the paper
 * compares sums without a logarithm (equation 10); here it is whole logarithms always (equation 12).
 *
 * Both roundings are down to whole powers of two, so a sample's loss is up to 2 ln 2 below its
 * cross-entropy (above it if a thousand classes that do not matter count as 2^p each).
 * tests/core/test_floor_log2_loss.py measures how often the sign of a difference is the exact loss's.
 *
 * Errors: ZO_ERROR_ARGUMENT, ZO_ERROR_LABEL; losses are untouched then. */
zo_status zo_floor_log2_loss_s8(const int8_t* logits, uint32_t samples, uint32_t classes, zo_logit_scale scale,
                                const int32_t* labels, int32_t* losses);

#endif /* TFLM_ZO_OPS_CORE_PAPERS_ZO_FLOOR_LOG2_LOSS_H_ */
