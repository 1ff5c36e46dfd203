/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Threads that divide the samples of an invoke among them.
 *
 * Interpreters that ask for the same number share the same threads: those of one that waits would
 * otherwise take the cores from one that computes.
 */
#ifndef TFLM_ZO_OPS_TFLITE_ZO_THREADS_H_
#define TFLM_ZO_OPS_TFLITE_ZO_THREADS_H_

#include <stdint.h>

enum { kZoMostThreads = 256 };

typedef struct zo_threads zo_threads;

/* So many threads, of which the caller is one: 2..kZoMostThreads. Null if the system has no
 * more. */
zo_threads* zo_threads_acquire(int32_t count);

/* Null is allowed. The last one to release them ends them. */
void zo_threads_release(zo_threads* threads);

/* Calls work(context, part, thread) once for each part, thread being 0 to count - 1, and returns
 * when all have returned. The caller does all of it, as thread 0, if the threads are busy for
 * somebody else, or were left behind in the process that this one was forked from.
 *   parts  1..65535 */
void zo_threads_run(zo_threads* threads, int32_t parts, void (*work)(void* context, int32_t part, int32_t thread),
                    void* context);

#endif /* TFLM_ZO_OPS_TFLITE_ZO_THREADS_H_ */
