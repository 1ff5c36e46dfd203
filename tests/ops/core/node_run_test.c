/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Layer-wise runs, whole, resumed and refused. */
#include "core_test.h"

/* Running means that a run cannot have come to are refused before anything is changed. */
static void test_resumed_states(node_run* r, zo_node_run* run) {
  static const zo_scale unlikely[] = {
      {UINT32_C(1) << 31, ZO_SCALE_EXPONENT_MAX + 1},
      {UINT32_MAX, INT32_MIN},
      {UINT32_MAX, INT32_MAX},
      {UINT32_C(0x7FFFFFFF), 0},
      {1, -5},
  };
  const uint32_t tasks = r->settings.tasks;
  zo_scale squares[kMostTasks];
  for (uint32_t t = 0; t < tasks; ++t) squares[t] = r->tasks[t].mean_square;
  const zo_node_run before = *run;
  for (size_t i = 0; i < sizeof unlikely / sizeof unlikely[0]; ++i) {
    const uint32_t t = random_below(tasks);
    const zo_scale kept = squares[t];
    squares[t] = unlikely[i];
    CHECK(zo_node_run_resume(run, run->step, run->largest_loss, squares) == ZO_ERROR_ARGUMENT);
    /* As it comes out of a log. */
    uint8_t head[16 + 8 * kMostTasks];
    r->tasks[t].mean_square = unlikely[i];
    zo_snapshot_write_head(run, 0, 1, head);
    r->tasks[t].mean_square = kept;
    CHECK(zo_snapshot_read_head(run, head) == ZO_ERROR_ARGUMENT);
    squares[t] = kept;
    CHECK(memcmp(run, &before, sizeof before) == 0);
    CHECK(memcmp(&r->tasks[t].mean_square, &kept, sizeof kept) == 0);
  }
  for (uint32_t t = 0; t < tasks; ++t) {
    squares[t].mantissa = UINT32_C(0x80000000) | random_u32();
    squares[t].exponent = random_between(-ZO_SCALE_EXPONENT_MAX, ZO_SCALE_EXPONENT_MAX);
  }
  CHECK(zo_node_run_resume(run, run->step, 7, squares) == ZO_OK);
  CHECK(run->largest_loss == 7);
  for (uint32_t t = 0; t < tasks; ++t) {
    CHECK(memcmp(&r->tasks[t].mean_square, &squares[t], sizeof squares[t]) == 0);
  }
}

static void test_node_run_errors(node_run* r) {
  zo_node_run run;
  const node_run good = *r;
  zo_control_settings* s = &r->settings.common;
  zo_node_task* t = &r->tasks[0];
#define REFUSED(change, status)                                        \
  do {                                                                 \
    change;                                                            \
    CHECK(zo_node_run_init(&run, &r->settings, r->tasks) == (status)); \
    *r = good;                                                         \
  } while (0)
  REFUSED(r->settings.tasks = 0, ZO_ERROR_ARGUMENT);
  REFUSED(r->settings.tasks = ZO_NODE_TASKS_MAX + 1, ZO_ERROR_ARGUMENT);
  REFUSED(s->clip = 0, ZO_ERROR_ARGUMENT);
  REFUSED(s->clip = (1u << 24) + 1u, ZO_ERROR_ARGUMENT);
  REFUSED(s->steps = 0, ZO_ERROR_ARGUMENT);
  REFUSED(s->samples = 0, ZO_ERROR_ARGUMENT);
  REFUSED(s->batch = 0, ZO_ERROR_ARGUMENT);
  REFUSED(s->parts = 0, ZO_ERROR_ARGUMENT);
  REFUSED(s->rate = 0, ZO_ERROR_ARGUMENT);
  REFUSED(s->estimator = 2, ZO_ERROR_ARGUMENT);
  REFUSED(s->rule = 4, ZO_ERROR_ARGUMENT);
  REFUSED(s->rule = ZO_RUN_BITS, ZO_ERROR_ARGUMENT); /* of 0 bits */
  REFUSED(s->rule = ZO_RUN_BITS; s->distribution.kind = ZO_COORDINATE, ZO_ERROR_DISTRIBUTION);
  REFUSED(r->settings.rule = ZO_NODE_BITS, ZO_ERROR_ARGUMENT);
  REFUSED(r->settings.exact_rule = ZO_NODE_FIXED, ZO_ERROR_ARGUMENT);
  REFUSED(r->settings.exact_rule = ZO_RUN_RMS + 1u, ZO_ERROR_ARGUMENT);
  REFUSED(s->stage_p_zero[1] = 256, ZO_ERROR_ARGUMENT);
  for (uint32_t stage = 0; stage < 3u; ++stage) {
    for (uint32_t i = 0; i < 3u; ++i) r->settings.exact_bits[i] = i == stage ? 8u : 7u;
    REFUSED(r->settings.exact_rule = ZO_NODE_BITS, ZO_ERROR_ARGUMENT);
    REFUSED(r->settings.exact_bits[stage] = 256, ZO_ERROR_ARGUMENT); /* even if no rule has them */
  }
  REFUSED(r->settings.weight_bits = 256, ZO_ERROR_ARGUMENT);
  REFUSED(r->settings.rows_least = 2; r->settings.rows_most = 1, ZO_ERROR_ARGUMENT);
  REFUSED(r->settings.rows_most = 65536, ZO_ERROR_ARGUMENT);
  REFUSED(t->kind = ZO_TASK_SHARED_NODES + 1, ZO_ERROR_ARGUMENT);
  REFUSED(t->kind = ZO_TASK_SHARED_NODES; t->queries = 1, ZO_ERROR_QUERIES);
  REFUSED(t->kind = ZO_TASK_SHARED_NODES; t->queries = 0, ZO_ERROR_ARGUMENT); /* the first */
  REFUSED(t->kind = ZO_TASK_WEIGHTS; t->queries = 0, ZO_ERROR_QUERIES);
  REFUSED(t->kind = ZO_TASK_WEIGHTS; t->queries = 1; t->sums = NULL, ZO_ERROR_ARGUMENT);
  REFUSED(s->gradient_norm = 1, ZO_ERROR_ARGUMENT);
  REFUSED(s->blocks = 1, ZO_ERROR_ARGUMENT);
  REFUSED(s->queries = 0, ZO_ERROR_QUERIES);
  REFUSED(s->distribution.mu = 0, ZO_ERROR_DISTRIBUTION);
  REFUSED(t->layer.out_c = 0, ZO_ERROR_ARGUMENT);
  REFUSED(t->queries = ZO_MAX_QUERIES + 1u, ZO_ERROR_QUERIES);
  REFUSED(t->mu = 0, ZO_ERROR_ARGUMENT);
  REFUSED(t->mu = 128, ZO_ERROR_ARGUMENT);
  REFUSED(t->rate = 1u << 24, ZO_ERROR_ARGUMENT);
  REFUSED(t->gain.exponent = ZO_NODE_GAIN_EXPONENT_MAX + 1, ZO_ERROR_ARGUMENT);
  REFUSED(t->gain.exponent = INT32_MIN, ZO_ERROR_ARGUMENT);
  REFUSED(t->routes = NULL, ZO_ERROR_ARGUMENT);
  REFUSED(t->nodes = NULL, ZO_ERROR_ARGUMENT);
  REFUSED(t->differences = NULL; t->queries = 1, ZO_ERROR_ARGUMENT);
  REFUSED(t->errors = NULL; t->queries = 0, ZO_ERROR_ARGUMENT);
#undef REFUSED
  zo_node_request request;
  CHECK(zo_node_run_init(NULL, &r->settings, r->tasks) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_run_init(&run, NULL, r->tasks) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_run_init(&run, &r->settings, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_run_init(&run, &r->settings, r->tasks) == ZO_OK);
  CHECK(zo_node_run_resume(NULL, 0, 0, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_run_resume(&run, s->steps + 1u, 0, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_run_resume(&run, 0, -1, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_run_next(NULL, &request) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_run_next(&run, NULL) == ZO_ERROR_ARGUMENT);
}

void test_node_run(void) {
  for (int round = 0; round < ROUNDS(200); ++round) {
    node_run r;
    make_node_run(&r);
    const zo_control_settings* s = &r.settings.common;
    zo_node_run run;
    CHECK(zo_node_run_init(&run, &r.settings, r.tasks) == ZO_OK);
    const uint32_t first = random_below(3) == 0 ? random_below(s->steps + 1u) : 0;
    CHECK(zo_node_run_resume(&run, first, 0, NULL) == ZO_OK);
    uint32_t counts[4] = {0, 0, 0, 0}, expected[4] = {0, 0, 0, 0};
    for (uint32_t step = first; step < s->steps; ++step) {
      expected[ZO_NODE_FORWARD] += s->parts;
      for (uint32_t t = 0; t < r.settings.tasks; ++t) {
        expected[ZO_NODE_QUERY] += 2u * s->parts * r.tasks[t].queries;
        expected[ZO_NODE_UPDATE] += 1u;
      }
    }
    zo_node_request request, again;
    uint32_t done = first;
    while (zo_node_run_next(&run, &request) == ZO_OK && request.action != ZO_NODE_DONE) {
      CHECK(zo_node_run_next(&run, &again) == ZO_OK); /* as often as one likes */
      CHECK(memcmp(&request, &again, sizeof request) == 0);
      CHECK(request.action <= ZO_NODE_UPDATE && request.step == done);
      ++counts[request.action];
      const zo_report report = answer(&r, &run, &request);
      if (report.step_done == 0u) continue;
      CHECK(report.step == done && report.rate <= s->rate && report.mean_loss >= 0);
      ++done;
      test_snapshot_log(&r, &run);
    }
    zo_node_run resumed = run;
    CHECK(request.action == ZO_NODE_DONE && done == s->steps && run.step == s->steps);
    CHECK(memcmp(counts, expected, sizeof counts) == 0);
    /* Nothing goes on after the end. */
    zo_report report;
    int32_t* losses = (int32_t*)allocate(sizeof(int32_t) * s->batch);
    memset(losses, 0, sizeof(int32_t) * s->batch);
    const zo_tensor tensor = task_tensor(&r, 0);
    CHECK(zo_node_run_report(&run, losses, s->batch, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_update(&run, &tensor, 1, r.scratch, NULL, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_perturb(&run, r.nodes[0].at) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_capture(&run, 0, r.inputs[0].at, r.outputs[0].at, r.nodes[0].at) == ZO_ERROR_ARGUMENT);
    free(losses);
    test_resumed_states(&r, &resumed);
    test_node_run_errors(&r);
    free_node_run(&r);
  }
}
