/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Backpropagation in float32 through a whole network, and stochastic gradient descent without momentum, one
 * sample at a time. There are no gradients in memory: a layer's weights move as soon as the errors of its input
 * are known. network_data.h has the layers, and where their activations and errors lie in the arena.
 */
#include <string.h>

#include "learner.h"
#include "network.h"
#include "network_data.h"

static float arena[NETWORK_ARENA];
static float weights[NETWORK_WEIGHTS];
static float patch[NETWORK_PATCH];

static void forward(const float* x) {
  memcpy(arena + NETWORK_INPUT, x, sizeof *arena * NETWORK_INPUTS);
  for (int32_t i = 0; i < NETWORK_LAYERS; ++i) layer_forward(&kLayers[i], arena, weights, patch);
}

uint32_t learner_start(void) {
  memcpy(weights, kInitialWeights, sizeof weights);
  return 0;
}

void learner_train(const float* x, int label, float rate) {
  forward(x);
  softmax_error(arena + NETWORK_LOGITS, arena + NETWORK_LOGITS_ERROR, NETWORK_CLASSES, label);
  for (int32_t i = NETWORK_LAYERS - 1; i >= 0; --i) {
    layer_backward(&kLayers[i], arena, weights, patch);
    layer_update(&kLayers[i], arena, weights, patch, rate);
  }
}

const float* learner_scores(const float* x) {
  forward(x);
  return arena + NETWORK_LOGITS;
}

/* For tests, and for conversion of the trained network. */
float* learner_weights(void);
float* learner_weights(void) { return weights; }
