/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A classifier that learns from one sample at a time. Each alternative implements these functions; the same
 * sources run on this machine, where their accuracy is measured, and on an emulated core, where their
 * instructions are.
 */
#ifndef TFLM_ZO_BENCHMARKS_ALTERNATIVES_LEARNER_H_
#define TFLM_ZO_BENCHMARKS_ALTERNATIVES_LEARNER_H_

#include <stdint.h>

/* An element of a sample. */
#ifndef LEARNER_VALUE
#define LEARNER_VALUE float
#endif
typedef LEARNER_VALUE learner_value;

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the state before the first sample. Returns the bytes that a larger buffer, if there is one, has unused. */
uint32_t learner_start(void);

/* Trains with one sample. */
void learner_train(const learner_value* x, int label, float rate);

/* Returns one score for each class. They are valid until the next call. */
const float* learner_scores(const learner_value* x);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_BENCHMARKS_ALTERNATIVES_LEARNER_H_ */
