/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The k nearest neighbours of an int8 embedding, among all samples so far. Scores are the numbers of neighbours
 * of each class; of two classes with as many, the one of the nearest neighbour has a little more.
 */
#include <string.h>

#include "learner.h"
#include "learner_data.h"

static int8_t stored[LEARNER_SAMPLES][LEARNER_INPUTS];
static uint8_t labels[LEARNER_SAMPLES];
static int32_t count;
static float scores[LEARNER_CLASSES];

uint32_t learner_start(void) {
  count = 0;
  return 0;
}

void learner_train(const int8_t* x, int label, float rate) {
  (void)rate;
  if (count == LEARNER_SAMPLES) return;
  memcpy(stored[count], x, LEARNER_INPUTS);
  labels[count++] = (uint8_t)label;
}

static int32_t squared_distance(const int8_t* a, const int8_t* b) {
  int32_t sum = 0;
  for (int32_t i = 0; i < LEARNER_INPUTS; ++i) {
    const int32_t difference = a[i] - b[i];
    sum += difference * difference;
  }
  return sum;
}

const float* learner_scores(const int8_t* x) {
  int32_t nearest[LEARNER_NEIGHBOURS] = {0}, labels_of[LEARNER_NEIGHBOURS] = {0}, found = 0;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t distance = squared_distance(x, stored[i]);
    if (found == LEARNER_NEIGHBOURS && distance >= nearest[found - 1]) continue;
    int32_t at = found < LEARNER_NEIGHBOURS ? found++ : found - 1;
    for (; at > 0 && nearest[at - 1] > distance; --at) {
      nearest[at] = nearest[at - 1];
      labels_of[at] = labels_of[at - 1];
    }
    nearest[at] = distance;
    labels_of[at] = labels[i];
  }
  memset(scores, 0, sizeof scores);
  float more = 0.1f;
  for (int32_t i = 0; i < found; ++i, more *= 0.5f) scores[labels_of[i]] += 1.0f + more;
  return scores;
}
