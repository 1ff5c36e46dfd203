/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Shared code of the loops of zo_step_signs.h, included only by files for instruction sets. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_STEP_RUN_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_STEP_RUN_H_

#include <string.h>

#include "ops/core/kernels/zo_step_signs.h"

#if ZO_STEP_SIGNS

/* A loop for each kind of step is faster, one for all is smaller. */
#if defined(__OPTIMIZE_SIZE__)
#define ZO_LOOPS_FOR_EACH 0
#else
#define ZO_LOOPS_FOR_EACH 1
#endif

/* Whether steps of up to four queries are done with vectors (zo_step_signs_mve.c). */
#if ZO_LOOPS_FOR_EACH && ZO_MVE
#define ZO_STEP_VECTORS 1
#else
#define ZO_STEP_VECTORS 0
#endif

/* For a function with a constant argument that chooses the kind of loop. */
#define ZO_ALWAYS_INLINE static inline __attribute__((always_inline))
/* For a loop whose tables' addresses are to stay in registers. */
#define ZO_NOINLINE __attribute__((noinline))

/* One step on the chunks of a tile of weights. */
typedef struct zo_step_run {
  int8_t* weights;
  int8_t* fraction;
  uint32_t chunks;
  int32_t limit;
  uint32_t count; /* of queries */
  uint32_t* states;
  uint32_t* rounding;
  const zo_step_tables* tables;
} zo_step_run;

/* Brings the weights of a chunk back to within +-limit; returns how many it has clipped. */
uint32_t zo_step_clip_8(int8_t* weights, int32_t limit);
uint32_t zo_step_clip_16(int8_t* weights, int8_t* fraction, int32_t limit);

#if ZO_STEP_VECTORS
/* A step of up to four queries; returns how many weights it has clipped. */
uint32_t zo_step_run_mve(zo_step_run* run);
#endif

#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_STEP_RUN_H_ */
