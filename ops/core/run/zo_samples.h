/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The order in which a run visits the samples of its training set.
 */
#ifndef TFLM_ZO_OPS_CORE_RUN_ZO_SAMPLES_H_
#define TFLM_ZO_OPS_CORE_RUN_ZO_SAMPLES_H_

#include "ops/core/run/zo_run_settings.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Number of the training sample at a position: position / samples is the epoch, and every epoch
 * visits every sample once, in an order of its own that takes no memory (a Feistel permutation).
 *
 * With h the smallest number from 1 to 16 for which 2^(2 h) >= samples, a number of 2 h bits is
 * split into halves (left, right), which go through four rounds i = 0..3,
 *
 *   (left, right) <- (right, left ^ (fmix(key + 0x9E3779B9 * i + right) mod 2^h)),
 *   key = fmix(run_seed ^ fmix(0x3C6EF372 + epoch)),
 *
 * from position % samples on, and again until the number is below `samples`. */
uint32_t zo_sample_at(const zo_control_settings* settings, uint32_t position);

/* The same for `count` positions from `first` on. */
void zo_samples_at(const zo_control_settings* settings, uint32_t first, uint32_t count, uint32_t* samples);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_RUN_ZO_SAMPLES_H_ */
