/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Softmax regression with the vector functions of CMSIS-DSP, by stochastic gradient descent.
 */
#include <string.h>

#include "arm_math.h"
#include "learner.h"
#include "learner_data.h"

static float32_t filter[LEARNER_CLASSES * LEARNER_INPUTS];
static float32_t bias[LEARNER_CLASSES];
static float32_t scores[LEARNER_CLASSES];
static float32_t step[LEARNER_INPUTS];
static arm_matrix_instance_f32 matrix;

uint32_t learner_start(void) {
  memcpy(filter, kFilter, sizeof filter);
  memcpy(bias, kBias, sizeof bias);
  arm_mat_init_f32(&matrix, LEARNER_CLASSES, LEARNER_INPUTS, filter);
  return 0;
}

const float* learner_scores(const float* x) {
  arm_mat_vec_mult_f32(&matrix, x, scores);
  arm_add_f32(scores, bias, scores, LEARNER_CLASSES);
  return scores;
}

void learner_train(const float* x, int label, float rate) {
  float32_t most, sum;
  uint32_t where;
  learner_scores(x);
  arm_max_f32(scores, LEARNER_CLASSES, &most, &where);
  arm_offset_f32(scores, -most, scores, LEARNER_CLASSES);
  arm_vexp_f32(scores, scores, LEARNER_CLASSES);
  arm_accumulate_f32(scores, LEARNER_CLASSES, &sum);
  arm_scale_f32(scores, rate / sum, scores, LEARNER_CLASSES);
  scores[label] -= rate; /* now the rate times p - y */
  for (int i = 0; i < LEARNER_CLASSES; ++i) {
    float32_t* row = filter + i * LEARNER_INPUTS;
    arm_scale_f32(x, scores[i], step, LEARNER_INPUTS);
    arm_sub_f32(row, step, row, LEARNER_INPUTS);
  }
  arm_sub_f32(bias, scores, bias, LEARNER_CLASSES);
}
