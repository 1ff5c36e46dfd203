/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Costs of a learner that trains a whole network, on an emulated core: instructions of samples, stack, scores.
 */
#include "counting.h"
#include "learner.h"
#include "measured.h"
#include "samples.h"

static int32_t at;

static void train(void* unused) {
  (void)unused;
  learner_train(kSamples[at], kLabels[at], SAMPLES_RATE);
}

static void predict(void* unused) {
  (void)unused;
  learner_scores(kSamples[at]);
}

int main(void) {
  print_number("spare", learner_start());
  paint_stack();
  train(NULL);
  print_number("stack", painted_stack());
  for (at = 1; at < SAMPLES; ++at) print_number("train", count_instructions(train, NULL, 1));
  at = 0;
  print_number("predict", count_instructions(predict, NULL, 1));
  for (at = 0; at < SAMPLES; ++at) {
    const float* scores = learner_scores(kSamples[at]);
    for (int32_t c = 0; c < SAMPLES_CLASSES; ++c) print_score(scores[c]);
  }
  return 0;
}
