/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Weight tasks of a layer-wise run, and the choice of a block. */
#include "core_test.h"

/* Tensors that the run cannot do with, behind one that it can: none of them moves. */
static void test_refused_tensors(zo_node_run* run, const zo_tensor* tensors, const int8_t* first) {
  const zo_node_run before = *run;
  int8_t* kept = (int8_t*)allocate(tensors[0].size);
  memcpy(kept, first, tensors[0].size);
  zo_report report;
  for (uint32_t i = 0; i < 7u; ++i) {
    zo_tensor bad[2] = {tensors[0], tensors[1]};
    if (i == 0u) bad[1].type = 1; /* none */
    if (i == 1u) bad[1].size = 0;
    if (i == 2u) bad[1].weights = NULL;
    if (i == 3u) bad[1].limit = 0;
    if (i == 4u) bad[1].limit = 122; /* no room */
    if (i == 5u) bad[1].size = UINT32_C(1) << 31;
    if (i == 6u) {
      if (run->settings.common.rule != ZO_RUN_BITS) continue;
      bad[1].fraction = bad[1].weights;
    }
    const zo_status expected = i == 4u ? ZO_ERROR_HEADROOM : ZO_ERROR_ARGUMENT;
    if (run->stage == ZO_NODE_UPDATE) {
      CHECK(zo_node_run_update_weights(run, bad, 2, NULL, &report) == expected);
    } else {
      CHECK(zo_node_run_perturb_weights(run, bad, 2) == expected);
      if (run->stage == ZO_NODE_RESTORE) CHECK(zo_node_run_abandon(run, bad, 2) == expected);
    }
    CHECK(memcmp(kept, first, tensors[0].size) == 0);
    CHECK(memcmp(run, &before, sizeof before) == 0);
  }
  free(kept);
}

/* One task of weights: where queries put them, and that each part of a step leaves them alone. */
void test_weight_task(void) {
  for (int round = 0; round < 100; ++round) {
    enum { kTensors = 2, kSizes = 1300 };
    const uint32_t batch = 1 + random_below(3), boundary = random_below(2) * 5u;
    zo_node_settings settings;
    memset(&settings, 0, sizeof settings);
    zo_control_settings* s = &settings.common;
    s->run_seed = random_u32();
    s->steps = 1 + random_below(3);
    s->samples = 7;
    s->batch = batch;
    s->parts = 1 + random_below(3);
    s->queries = 1;
    s->estimator = random_below(2);
    s->rule = random_below(4);
    s->distribution.kind = ZO_SPARSE_UNIFORM;
    s->distribution.mu = 6;
    s->rate = 1 + random_below(1 << 18);
    s->clip = 1;
    s->stage_steps[0] = 1;
    s->stage_p_zero[0] = 200;
    settings.tasks = 1;
    settings.weight_bits = 2;
    zo_node_task task;
    memset(&task, 0, sizeof task);
    task.kind = ZO_TASK_WEIGHTS;
    task.queries = 1 + random_below(3);
    task.rate = 1 << 16;
    task.boundary_bytes = boundary;
    task.nodes = boundary > 0u ? (int8_t*)allocate(batch * boundary) : NULL;
    task.sums = (int64_t*)allocate(sizeof(int64_t) * task.queries);
    int8_t* weights[kTensors];
    int8_t* before[kTensors];
    zo_tensor tensors[kTensors];
    for (uint32_t i = 0; i < kTensors; ++i) {
      weights[i] = (int8_t*)allocate(kSizes);
      before[i] = (int8_t*)allocate(kSizes);
      memset(&tensors[i], 0, sizeof tensors[i]);
      tensors[i].weights = weights[i];
      tensors[i].size = kSizes;
      tensors[i].stream = i;
      tensors[i].limit = 121;
      for (uint32_t j = 0; j < kSizes; ++j) weights[i][j] = (int8_t)((int32_t)random_below(243) - 121);
    }
    int8_t* entering = (int8_t*)allocate(batch * boundary + 1u);
    memset(entering, 3, batch * boundary + 1u);
    int32_t* losses = (int32_t*)allocate(sizeof(int32_t) * batch);
    zo_node_run run;
    zo_node_request request;
    zo_report report;
    CHECK(zo_node_run_init(&run, &settings, &task) == ZO_OK);
    uint32_t counts[5] = {0, 0, 0, 0, 0};
    while (zo_node_run_next(&run, &request) == ZO_OK && request.action != ZO_NODE_DONE) {
      ++counts[request.action];
      for (uint32_t i = 0; i < batch; ++i) losses[i] = (int32_t)random_below(1u << 20);
      switch (request.action) {
        case ZO_NODE_FORWARD:
          for (uint32_t i = 0; i < kTensors; ++i) memcpy(before[i], weights[i], kSizes);
          if (boundary > 0u) CHECK(zo_node_run_capture_boundary(&run, 0, entering) == ZO_OK);
          CHECK(zo_node_run_perturb_weights(&run, tensors, kTensors) == ZO_ERROR_ARGUMENT);
          CHECK(zo_node_run_report(&run, losses, batch, &report) == ZO_OK);
          break;
        case ZO_NODE_QUERY:
          CHECK(zo_node_run_report(&run, losses, batch, &report) == ZO_ERROR_ORDER);
          test_refused_tensors(&run, tensors, weights[0]);
          CHECK(zo_node_run_perturb_weights(&run, tensors, kTensors) == ZO_OK);
          if (boundary > 0u) CHECK(zo_node_run_perturb(&run, entering) == ZO_OK);
          for (uint32_t i = 0; i < kTensors; ++i) {
            for (uint32_t j = 0; j < kSizes; ++j) {
              const int32_t moved = weights[i][j] - before[i][j];
              CHECK(moved >= -6 && moved <= 6);
            }
          }
          CHECK(zo_node_run_report(&run, losses, batch, &report) == ZO_OK);
          break;
        case ZO_NODE_RESTORE:
          CHECK(zo_node_run_report(&run, losses, batch, &report) == ZO_ERROR_ARGUMENT);
          test_refused_tensors(&run, tensors, weights[0]);
          CHECK(zo_node_run_perturb_weights(&run, tensors, kTensors) == ZO_OK);
          for (uint32_t i = 0; i < kTensors; ++i) {
            CHECK(memcmp(before[i], weights[i], kSizes) == 0);
          }
          break;
        default:
          CHECK(zo_node_run_update(&run, tensors, 1, NULL, NULL, &report) == ZO_ERROR_ARGUMENT);
          test_refused_tensors(&run, tensors, weights[0]);
          CHECK(zo_node_run_update_weights(&run, tensors, kTensors, NULL, &report) == ZO_OK);
          CHECK(report.step_done == 1u);
      }
    }
    const uint32_t sides = s->estimator == ZO_ANTITHETIC ? 2u : 1u;
    CHECK(counts[ZO_NODE_FORWARD] == s->steps * s->parts);
    CHECK(counts[ZO_NODE_QUERY] == s->steps * s->parts * task.queries * sides);
    CHECK(counts[ZO_NODE_RESTORE] == s->steps * s->parts && counts[ZO_NODE_UPDATE] == s->steps);
    for (uint32_t i = 0; i < kTensors; ++i) {
      free(weights[i]);
      free(before[i]);
    }
    free(task.nodes);
    free(task.sums);
    free(entering);
    free(losses);
  }
}
