/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Counts the instructions of the weight ops on a tensor of 48,000 weights; costs.py builds, runs
 * and prints it. One line for each case: its name, instructions per 1,000 weights (and step).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counting.h"
#include "ops/core/weights/zo_checksum.h"
#include "ops/core/weights/zo_perturb.h"
#include "ops/core/weights/zo_update.h"

enum { kSize = 48000, kInner = 500, kChannels = kSize / kInner, kCalls = 2, kReplaySteps = 8 };

static int8_t weights[kSize], fractions[kSize];
static int32_t multipliers[kChannels];

typedef struct work {
  zo_tensor tensor;
  zo_distribution distribution;
  zo_perturb_terms terms;
  uint32_t queries; /* 0: no step */
  uint32_t steps;   /* of a replay; 0: an update */
} work;

static const zo_perturb_term both_terms[2] = {{12345, 1}, {67890, 1}};
static zo_query queries[4 * kReplaySteps];

static void expect(zo_status status) {
  if (status == ZO_OK) return;
  printf("status %d\n", (int)status);
  exit(1);
}

static void run(void* argument) {
  const work* w = (const work*)argument;
  const zo_perturb_terms* restore = w->terms.count > 0u ? &w->terms : NULL;
  if (w->steps > 0u) {
    expect(zo_replay_s8(&w->tensor, w->distribution, queries, w->queries, w->steps, NULL));
  } else if (w->queries > 0u) {
    expect(zo_update_s8(&w->tensor, w->distribution, restore, queries, w->queries, NULL));
  } else {
    expect(zo_perturb_s8(&w->tensor, w->distribution, &w->terms));
  }
}

static void check(void* argument) { (void)zo_checksum(&((const work*)argument)->tensor); }

/* Weights within +-100 with a normal-like spread, so that few of them reach the limit. */
static void fill(void) {
  uint32_t state = 1;
  for (int i = 0; i < kSize; ++i) {
    int32_t sum = 0;
    for (int j = 0; j < 4; ++j) {
      state = state * 1664525u + 1013904223u;
      sum += (int32_t)(state >> 24) - 128;
    }
    weights[i] = (int8_t)(sum / 6);
    fractions[i] = (int8_t)(state >> 16);
  }
  for (int i = 0; i < kChannels; ++i) multipliers[i] = INT32_C(0x60000000) + i;
  for (int i = 0; i < 4 * kReplaySteps; ++i) {
    queries[i].seed = 1000u + (uint32_t)i;
    queries[i].coefficient = i % 2 ? -21234 - i : 30000 + 7 * i; /* below half an LSB */
  }
}

static void measure(const char* name, void (*function)(void*), const work* w) {
  fill();
  const uint64_t count = count_instructions(function, (void*)w, kCalls);
  const uint64_t per = (uint64_t)kSize * (w->steps > 0u ? w->steps : 1u);
  printf("%s %lu\n", name, (unsigned long)((1000u * count + per / 2u) / per));
}

int main(void) {
  work w;
  memset(&w, 0, sizeof w);
  w.tensor.weights = weights;
  w.tensor.size = kSize;
  w.tensor.channels = kChannels;
  w.tensor.inner = kInner;
  w.tensor.stream = 3;
  w.tensor.limit = 125;
  w.distribution.kind = ZO_RADEMACHER;
  w.distribution.mu = 2;
  w.terms.terms = both_terms;

  w.terms.count = 1;
  measure("perturb", run, &w);
  w.terms.count = 2;
  measure("perturb_restore", run, &w);

  for (int has_fraction = 0; has_fraction < 2; ++has_fraction) {
    char name[40];
    w.tensor.fraction = has_fraction ? fractions : NULL;
    const char* const kind = has_fraction ? "update_16bit" : "update_8bit";
    w.terms.count = 0;
    for (w.queries = 1; w.queries <= 4u; w.queries *= 2u) {
      snprintf(name, sizeof name, "%s_%u", kind, (unsigned)w.queries);
      measure(name, run, &w);
    }
    w.queries = 1;
    w.terms.count = 1;
    snprintf(name, sizeof name, "%s_restore", kind);
    measure(name, run, &w);
    w.terms.count = 0;
    w.tensor.multiplier = multipliers;
    snprintf(name, sizeof name, "%s_multipliers", kind);
    measure(name, run, &w);
    w.tensor.multiplier = NULL;
    w.steps = kReplaySteps;
    snprintf(name, sizeof name, "replay_%s", has_fraction ? "16bit" : "8bit");
    measure(name, run, &w);
    w.steps = 0;
  }
  w.tensor.fraction = NULL;
  measure("checksum", check, &w);
  w.distribution.kind = ZO_GAUSSIAN;
  w.distribution.mu = 170;
  measure("gaussian_update_8bit", run, &w);
  w.queries = 0;
  w.terms.count = 1;
  measure("gaussian_perturb", run, &w);
  return 0;
}
