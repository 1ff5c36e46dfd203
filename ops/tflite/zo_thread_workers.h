/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The threads of zo_threads.h as the core's workers (ops/core/zo_workers.h).
 */
#ifndef TFLM_ZO_OPS_TFLITE_ZO_THREAD_WORKERS_H_
#define TFLM_ZO_OPS_TFLITE_ZO_THREAD_WORKERS_H_

#include "ops/core/zo_workers.h"

/* Workers of so many threads, which are those of interpreters that ask for the same number; null
 * for fewer than 2, or if the system has no more. */
zo_workers* zo_thread_workers_create(uint32_t threads);

/* Null is allowed. */
void zo_thread_workers_free(zo_workers* workers);

#endif /* TFLM_ZO_OPS_TFLITE_ZO_THREAD_WORKERS_H_ */
