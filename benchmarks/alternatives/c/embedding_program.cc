// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// Costs of a learner whose samples are the int8 embeddings of a network that stays as it is, on an emulated core:
// instructions of the network, of a step and of an answer, arena, stack, scores. Embeddings stay in RAM, so each
// sample passes through the network once.

// First, because it has the type of the learner's values.
#include "counting.h"
#include "int8_network.h"
#include "learner.h"
#include "measured.h"
#include "samples.h"

namespace {

int32_t at;

#ifdef LEARNER_STORES
const int8_t* embedding;

void Keep(const int8_t* made) { embedding = made; }

const int8_t* Kept() { return embedding; }
#else
// The store of embeddings, and one of them in float32.
int8_t stored[SAMPLES_STORED][SAMPLES_INPUTS];
float x[SAMPLES_INPUTS];

void Keep(const int8_t* made) { memcpy(stored[at], made, SAMPLES_INPUTS); }

const float* Kept() {
  for (int32_t i = 0; i < SAMPLES_INPUTS; ++i) {
    x[i] = static_cast<float>(stored[at][i] - SAMPLES_ZERO_POINT) * SAMPLES_SCALE;
  }
  return x;
}
#endif

void Embed(void*) { Keep(Embedding(kSamples[at])); }

void Train(void*) { learner_train(Kept(), kLabels[at], SAMPLES_RATE); }

void Answer(void*) { learner_scores(Kept()); }

}  // namespace

int main() {
  Resolver resolver;
  AddOperators(resolver);
  const uint32_t spare = AllocateInLeast(resolver);
  print_number("spare", spare + learner_start());
  paint_stack();
  Embed(nullptr);
  Train(nullptr);
  Answer(nullptr);
  print_number("stack", painted_stack());
  for (at = 1; at < SAMPLES; ++at) {
    print_number("embed", count_instructions(Embed, nullptr, 1));
    print_number("train", count_instructions(Train, nullptr, 1));
  }
#ifdef LEARNER_STORES
  // An answer takes the longest with a full store.
  for (int32_t i = SAMPLES; i < SAMPLES_STORED; ++i) learner_train(Kept(), kLabels[i % SAMPLES], SAMPLES_RATE);
#endif
  at = 0;
  Embed(nullptr);
  print_number("predict", count_instructions(Answer, nullptr, 1));
  for (at = 0; at < SAMPLES; ++at) {
    Embed(nullptr);
    const float* scores = learner_scores(Kept());
    for (int32_t c = 0; c < SAMPLES_CLASSES; ++c) print_score(scores[c]);
  }
  return 0;
}
