/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Threads of a desktop, among which loops over samples and channels are divided. Firmware has none.
 */
#ifndef TFLM_ZO_OPS_CORE_ZO_WORKERS_H_
#define TFLM_ZO_OPS_CORE_ZO_WORKERS_H_

#include "ops/core/zo_types.h"

/* Whether the program is a desktop's, which has ops/kernels. */
#ifndef ZO_KERNEL_SETS
#define ZO_KERNEL_SETS 0
#endif

/* Parts that a loop is divided into, at most. */
#define ZO_PARTS_MAX 16u

typedef struct zo_workers {
  uint32_t count; /* 1..ZO_PARTS_MAX: parts that are worth making */
  /* Calls work(context, part) once for each part, and returns when all have returned. */
  void (*run)(const struct zo_workers* self, uint32_t parts, void (*work)(void* context, uint32_t part), void* context);
} zo_workers;

/* Parts that `count` iterations are divided into. */
static inline uint32_t zo_parts_of(const zo_workers* workers, uint32_t count) {
  if (workers == NULL || count == 0u) return 1;
  return count < workers->count ? count : workers->count;
}

/* The first iteration of a part. */
static inline uint32_t zo_part_begin(uint32_t count, uint32_t part, uint32_t parts) {
  return (uint32_t)((uint64_t)count * part / parts);
}

static inline void zo_divide_work(const zo_workers* workers, uint32_t parts, void (*work)(void* context, uint32_t part),
                                  void* context) {
  if (parts > 1u) {
    workers->run(workers, parts, work, context);
  } else {
    work(context, 0);
  }
}

#endif /* TFLM_ZO_OPS_CORE_ZO_WORKERS_H_ */
