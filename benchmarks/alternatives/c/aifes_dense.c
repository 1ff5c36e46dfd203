/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Dense layers with ReLU between them, and softmax, trained by AIfES with stochastic gradient descent in float32.
 * Targets are one-hot: with labels (sparse8), version 2.2.0 computes the error of the right class alone.
 */
#include <string.h>

#include "aifes_basic.h"
#include "aifes_config.h"
#include "learner.h"
#include "learner_data.h"

/* More than any of the networks needs; learner_start returns the bytes that are spare. */
static union {
  uint8_t bytes[131072];
  double aligned;
} memory;

static ailayer_input_f32_t input;
static ailayer_dense_f32_t dense[LEARNER_LAYERS];
static ailayer_relu_f32_t relu[LEARNER_LAYERS];
static ailayer_softmax_f32_t softmax;
static ailoss_crossentropy_f32_t loss;
static aiopti_sgd_f32_t sgd;
static aimodel_t model;
static aiopti_t* optimizer;

static uint16_t input_shape[2] = {1, LEARNER_INPUTS}, score_shape[2] = {1, LEARNER_CLASSES};
static float scores[LEARNER_CLASSES], target[LEARNER_CLASSES];

uint32_t learner_start(void) {
  input = (ailayer_input_f32_t)AILAYER_INPUT_F32_A(2, input_shape);
  ailayer_t* last = model.input_layer = ailayer_input_f32_default(&input);
  for (int i = 0; i < LEARNER_LAYERS; ++i) {
    dense[i] = (ailayer_dense_f32_t)AILAYER_DENSE_F32_A(kWidths[i]);
    last = ailayer_dense_f32_default(&dense[i], last);
    if (i + 1 == LEARNER_LAYERS) continue;
    relu[i] = (ailayer_relu_f32_t)AILAYER_RELU_F32_A();
    last = ailayer_relu_f32_default(&relu[i], last);
  }
  softmax = (ailayer_softmax_f32_t)AILAYER_SOFTMAX_F32_A();
  model.output_layer = ailayer_softmax_f32_default(&softmax, last);
  model.loss = ailoss_crossentropy_sum_f32_default(&loss, model.output_layer);
  aialgo_compile_model(&model);

  const uint32_t parameters = aialgo_sizeof_parameter_memory(&model);
  aialgo_distribute_parameter_memory(&model, memory.bytes, parameters);
  sgd = (aiopti_sgd_f32_t)AIOPTI_SGD_F32(0.0f);
  optimizer = aiopti_sgd_f32_default(&sgd);
  const uint32_t training = aialgo_sizeof_training_memory(&model, optimizer);
  aialgo_schedule_training_memory(&model, optimizer, memory.bytes + parameters, training);
  aialgo_init_model_for_training(&model, optimizer);

  const float* from = kWeights;
  for (int i = 0; i < LEARNER_LAYERS; ++i) {
    const int inputs = i == 0 ? LEARNER_INPUTS : (int)kWidths[i - 1], outputs = (int)kWidths[i];
    memcpy(dense[i].weights.data, from, sizeof *from * (size_t)(inputs * outputs));
    from += inputs * outputs;
    memcpy(dense[i].bias.data, from, sizeof *from * (size_t)outputs);
    from += outputs;
  }
  return (uint32_t)sizeof memory - parameters - training;
}

void learner_train(const float* x, int label, float rate) {
  aitensor_t samples = AITENSOR_2D_F32(input_shape, x), targets = AITENSOR_2D_F32(score_shape, target);
  sgd.learning_rate = rate;
  memset(target, 0, sizeof target);
  target[label] = 1.0f;
  aialgo_train_model(&model, &samples, &targets, optimizer, 1);
}

const float* learner_scores(const float* x) {
  aitensor_t samples = AITENSOR_2D_F32(input_shape, x), found = AITENSOR_2D_F32(score_shape, scores);
  aialgo_inference_model(&model, &samples, &found);
  return scores;
}
