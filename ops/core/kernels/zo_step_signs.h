/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of an update along Rademacher directions on cores with the DSP extension
 * (Cortex-M4, M7, M33, M55), four weights at a time. zo_update.c has the portable form, which is
 * the reference and serves every other core and kind of step. zo_step_signs.c makes the tables,
 * zo_step_signs_dsp.c has the loops, zo_step_signs_mve.c those of up to four queries with vectors.
 *
 * A weight's step is one of 2^Q sums of +-coefficients. Two queries make a table of all sums of two
 * weights, so that four bits, two of either query's word, fetch two weights' steps. With 8 bits the
 * rounding terms are then added to four steps, whose high halves are the weights' moves; with 16
 * bits the moves are the high halves of steps in units of 2^-24 LSB. Weights that leave +-limit are
 * few, so they are looked for in groups and clipped afterwards.
 */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_STEP_SIGNS_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_STEP_SIGNS_H_

#include "ops/core/zo_features.h"
#include "ops/core/zo_target.h"
#include "ops/core/zo_types.h"

#if ZO_WITH_FAST_STEPS && ZO_DSP
#define ZO_STEP_SIGNS 1
#else
#define ZO_STEP_SIGNS 0
#endif

#if ZO_STEP_SIGNS

/* Largest number of queries of such a step, even: bounds stack use (64 bytes each). */
#define ZO_STEP_SIGNS_QUERIES 8u

/* Weights that are moved together: one word of signs. */
#define ZO_STEP_SIGNS_CHUNK 32u

/* Steps of two weights. */
typedef struct zo_two_steps {
  uint32_t first;
  uint32_t second;
} zo_two_steps;

/* Tables of the queries, made once for all tiles of a tensor: the sums of +-coefficients.
 *
 * Of two queries: bits 0 and 1 of the index are the first one's signs of two weights, bits 2 and 3
 * the second one's. Of a single query: four bits are the signs of four weights, and each index has
 * two entries, one after the other, or with 16 bits one, of upper halves of steps: of weights 0 and
 * 2, and of 1 and 3. */
typedef struct zo_step_tables {
  const zo_query* queries; /* that the tables are made of; null before the first ones */
  int32_t multiplier;      /* and of which channel; 0 without multipliers */
  int fit;                 /* whether there are any: not if it cannot be done so */
  zo_two_steps pairs[ZO_STEP_SIGNS_QUERIES / 2u][16];
} zo_step_tables;

/* How many of the weights [begin, begin + size) of a tile a Rademacher step can be done on so,
 * whole chunks of them: few queries, moves of at most 127 LSB and, with multipliers, two queries at
 * most and weights of one channel. Makes the tables if they are
 * another step's, or another channel's. */
uint32_t zo_step_signs_fit(zo_step_tables* tables, const zo_tensor* tensor, uint32_t begin, uint32_t size,
                           const zo_query* queries, uint32_t count);

/* One step on whole chunks of weights from `begin` on, if it fits.
 *
 *   states    [count], of the queries' streams; moved on
 *   rounding  state of the rounding stream, moved on with 8 bits
 *
 * Returns the number of clipped weights. */
uint32_t zo_step_signs(const zo_step_tables* tables, const zo_tensor* tensor, uint32_t begin, uint32_t chunks,
                       uint32_t count, uint32_t* states, uint32_t* rounding);

#else

typedef struct zo_step_tables {
  const zo_query* queries;
} zo_step_tables;

#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_STEP_SIGNS_H_ */
