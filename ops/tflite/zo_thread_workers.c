/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/tflite/zo_thread_workers.h"

#include <stdlib.h>

#include "ops/tflite/zo_threads.h"

typedef struct thread_workers {
  zo_workers workers; /* first: it stands for the whole */
  zo_threads* threads;
} thread_workers;

typedef struct job {
  void (*work)(void* context, uint32_t part);
  void* context;
} job;

static void run_part(void* context, int32_t part, int32_t thread) {
  const job* own = (const job*)context;
  (void)thread;
  own->work(own->context, (uint32_t)part);
}

static void run(const zo_workers* workers, uint32_t parts, void (*work)(void* context, uint32_t part), void* context) {
  job own = {work, context};
  zo_threads_run(((const thread_workers*)(const void*)workers)->threads, (int32_t)parts, run_part, &own);
}

zo_workers* zo_thread_workers_create(uint32_t threads) {
  if (threads < 2u || threads > (uint32_t)kZoMostThreads) return NULL;
  thread_workers* self = malloc(sizeof *self);
  if (self == NULL) return NULL;
  self->threads = zo_threads_acquire((int32_t)threads);
  if (self->threads == NULL) {
    free(self);
    return NULL;
  }
  self->workers.count = threads < ZO_PARTS_MAX ? threads : ZO_PARTS_MAX;
  self->workers.run = run;
  return &self->workers;
}

void zo_thread_workers_free(zo_workers* workers) {
  if (workers == NULL) return;
  thread_workers* self = (thread_workers*)(void*)workers;
  zo_threads_release(self->threads);
  free(self);
}
