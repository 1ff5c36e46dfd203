/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Perturbation and moves of biases: a bias b = 2^ZO_BIAS_SHIFT v is trained as a weight v of its
 * channel whose input is always 2^ZO_BIAS_SHIFT, and moves by 2^ZO_BIAS_SHIFT times the move of v.
 */
#ifndef TFLM_ZO_OPS_CORE_WEIGHTS_ZO_BIASES_H_
#define TFLM_ZO_OPS_CORE_WEIGHTS_ZO_BIASES_H_

#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/zo_types.h"

/* Whether a tensor of type ZO_TENSOR_INT32 is valid. */
static inline int zo_are_biases(const zo_tensor* tensor) {
  return tensor->fraction == NULL && tensor->size % sizeof(int32_t) == 0u &&
         (uintptr_t)tensor->weights % sizeof(int32_t) == 0u;
}

static inline int32_t* zo_biases_of(const zo_tensor* tensor) { return (int32_t*)(void*)tensor->weights; }

/* Adds a perturbation, modulo 2^32, so that it can be undone for every bias. */
static inline void zo_add_to_bias(int32_t* bias, int32_t perturbation) {
  *bias = (int32_t)((uint32_t)*bias + (uint32_t)perturbation);
}

/* Moves a bias by whole LSB, and keeps it within +-ZO_BIAS_MAX, or within its old magnitude if that
 * is larger; returns 1 if it was clipped. |step| below 2^30. */
static inline uint32_t zo_move_bias(int32_t* bias, int32_t step) {
  const int64_t size = *bias < 0 ? -(int64_t)*bias : *bias;
  const int64_t moved = (int64_t)*bias + step;
  const int64_t clipped = zo_clamp64(moved, size > ZO_BIAS_MAX ? size : ZO_BIAS_MAX);
  /* Of INT32_MIN there is no opposite, and none is reached: steps are below 2^30. */
  *bias = (int32_t)clipped;
  return (uint32_t)(clipped != moved);
}

/* Moves a bias by the step of its v, any that zo_step_check allows, as zo_update.h defines it, with
 * `random` uniform on 0..65535; returns 1 if it was clipped. */
static inline uint32_t zo_step_bias(int32_t* bias, int32_t step, int32_t random) {
  const int64_t fine = (int64_t)step * (INT32_C(1) << ZO_BIAS_SHIFT) + random;
  return zo_move_bias(bias, (int32_t)zo_floor_shift64(fine, ZO_COEFFICIENT_BITS));
}

/* Moves a chunk of biases by steps of their v; returns how many were clipped.
 *
 *   steps     [count], count a multiple of 4 if other biases of the tile follow
 *   rounding  state of the tile's rounding stream, as zo_draw_rounding has it */
uint32_t zo_step_biases(int32_t* biases, const int32_t* steps, uint32_t count, uint32_t* rounding);

/* Adds one term's perturbation to biases of one stream tile.
 *
 *   biases  [count]
 *   state   the tile's zo_stream_state
 *   k       of the term
 *
 * ZO_GAUSSIAN: k round(2^ZO_BIAS_SHIFT z mu / 2^12), half away from zero. Not for ZO_COORDINATE. */
void zo_perturb_biases(int32_t* biases, uint32_t count, uint32_t state, zo_distribution distribution, int32_t k);

#endif /* TFLM_ZO_OPS_CORE_WEIGHTS_ZO_BIASES_H_ */
