/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The control unit of layer-wise runs: any settings, tasks, losses and order of calls. Calls out of
 * order change nothing; every perturbation of a step is undone before its update, and an abandoned
 * step leaves the weights of the last complete one.
 */
#include "node_world.h"

static void take_settings(fuzz_input* in, node_world* w) {
  zo_node_settings* s = &w->settings;
  zo_control_settings* c = &s->common;
  c->run_seed = take_u8(in);
  c->steps = take_between(in, 1, 4);
  c->samples = take_between(in, 1, 9);
  c->batch = take_between(in, 1, 3);
  c->parts = take_between(in, 1, 2);
  c->queries = 1;
  c->estimator = (uint32_t)take_flag(in);
  c->rule = take_between(in, 0, 3);
  c->distribution.kind = (uint8_t)take_between(in, 0, 3);
  c->distribution.mu =
      (uint16_t)(c->distribution.kind == ZO_GAUSSIAN ? take_between(in, 1, 400) : take_between(in, 1, 9));
  c->rate = take_flag(in) ? take_between(in, 1, UINT32_C(1) << 20) : take_any(in);
  c->schedule = take_between(in, 0, ZO_SCHEDULE_STEP);
  if (c->schedule == ZO_SCHEDULE_STEP) {
    c->decay = take_between(in, 0, 65536);
    c->decay_steps = take_between(in, 1, 3);
  }
  c->clip = take_flag(in) ? take_between(in, 1, UINT32_C(1) << 24) : 65536u;
  s->tasks = take_between(in, 1, kWorldTasks);
  s->weight_clip = take_flag(in) ? 0u : take_any(in);
  s->rule = (uint32_t)take_flag(in);
  s->exact_rule = take_between(in, 0, 4);
  const uint32_t bits = take_flag(in) ? UINT32_C(0x03020104) : take_u32(in);
  for (uint32_t stage = 0; stage < 3u; ++stage) s->exact_bits[stage] = bits >> (8u * stage) & 255u;
  s->weight_bits = bits >> 24;
  const uint32_t rows = take_flag(in) ? 0u : take_u32(in);
  s->rows_least = rows & 0xFFFFu;
  s->rows_most = rows >> 16;
  for (uint32_t damaged = take_u8(in); damaged > 220u; damaged = take_u8(in)) {
    ((uint32_t*)s)[take_between(in, 0, sizeof *s / 4u - 1u)] = take_any(in);
  }
}

static void take_task(fuzz_input* in, node_world* w, uint32_t t) {
  zo_node_task* task = &w->tasks[t];
  task->kind = (uint32_t)take_flag(in);
  task->queries = take_between(in, task->kind, 3);
  task->in_tail = !take_flag(in);
  if (task->in_tail) (void)take_between(in, 0, kWorldTasks); /* keeps the stored corpus valid */
  task->mu = take_between(in, 1, 20);
  task->rate = take_flag(in) ? 65536u : take_any(in);
  (void)take_between(in, 1, 2); /* keeps the stored corpus valid */
  task->gain.mantissa = take_any(in);
  task->gain.exponent = take_flag(in) ? (int32_t)take_any(in) : (int32_t)take_between(in, 0, 99) - 60;
}

/* Each of them is out of order, or wrong. */
static void call_wrongly(fuzz_input* in, node_world* w, const zo_node_request* request) {
  zo_tensor tensors[kWorldTensors];
  zo_report report;
  const zo_node_run before = w->run;
  const uint32_t count = world_tensors(w, request->task, tensors);
  const int updates = request->action == ZO_NODE_UPDATE;
  const int reports = request->action == ZO_NODE_FORWARD || request->action == ZO_NODE_QUERY;
  for (uint32_t i = 0; i < w->settings.common.batch; ++i) w->losses[i] = 1;
  switch (take_between(in, 0, 5)) {
    case 0:
      if (reports) w->losses[0] = -1 - (int32_t)(take_any(in) >> 1);
      HOLDS(zo_node_run_report(&w->run, w->losses, w->settings.common.batch, &report) != ZO_OK);
      break;
    case 1:
      if (!updates) {
        HOLDS(zo_node_run_update(&w->run, tensors, 1, w->scratch, NULL, &report) != ZO_OK);
        HOLDS(zo_node_run_update_weights(&w->run, tensors, count, NULL, &report) != ZO_OK);
      }
      break;
    case 2:
      HOLDS(zo_node_run_capture(&w->run, w->settings.tasks, w->inputs[0], w->outputs[0], w->nodes[0]) != ZO_OK);
      break;
    case 3:
      HOLDS(zo_node_run_perturb_weights(&w->run, tensors, 0) != ZO_OK);
      break;
    case 4:
      if (w->settings.common.steps < UINT32_MAX) {
        HOLDS(zo_node_run_resume(&w->run, w->settings.common.steps + 1u, 0, NULL) != ZO_OK);
      }
      break;
    default:
      HOLDS(zo_node_run_perturb(&w->run, NULL) != ZO_OK);
  }
  HOLDS(memcmp(&before, &w->run, sizeof before) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_input in = {data, size};
  static node_world w; /* 64 tasks: too large to clear on every stack */
  memset(&w, 0, sizeof w);
  take_settings(&in, &w);
  if (!world_is_small(&w.settings)) {
    HOLDS(w.settings.tasks != 0u || zo_node_run_init(&w.run, &w.settings, w.tasks) != ZO_OK);
    return 0;
  }
  for (uint32_t t = 0; t < w.settings.tasks; ++t) take_task(&in, &w, t);
  world_make(&in, &w);
  const zo_status status = zo_node_run_init(&w.run, &w.settings, w.tasks);
  uint32_t abandoned = 0;
  world_begin_step(&w);
  for (uint32_t calls = 0; status == ZO_OK && calls < 200u; ++calls) {
    zo_node_request request;
    zo_report report;
    HOLDS(zo_node_run_next(&w.run, &request) == ZO_OK);
    if (request.action == ZO_NODE_DONE) break;
    if (in.left > 0u && take_u8(&in) > 230u) call_wrongly(&in, &w, &request);
    if (in.left > 0u && take_u8(&in) > 235u && abandoned++ < 4u) {
      zo_tensor tensors[kWorldTensors];
      const uint32_t count = world_tensors(&w, request.task, tensors);
      if (zo_node_run_abandon(&w.run, tensors, count) == ZO_OK) {
        world_check_unmoved(&w);
        HOLDS(w.run.stage == ZO_NODE_FORWARD && w.run.part == 0u);
      } else {
        HOLDS(request.action == ZO_NODE_UPDATE);
      }
      continue;
    }
    if (world_answer(&in, &w, &request, &report) != ZO_OK) break;
    if (report.step_done != 0u) world_begin_step(&w);
  }
  world_free(&w);
  return 0;
}
