/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* A layer-wise run with buffers of exact size, whose interpreter answers at random. */
#include "core_test.h"

static void make_node_task(node_run* r, uint32_t t) {
  const zo_control_settings* s = &r->settings.common;
  zo_node_task* task = &r->tasks[t];
  memset(task, 0, sizeof *task);
  task->layer = random_layer();
  zo_node_layer* l = &task->layer;
  task->queries = random_below(4);
  if (task->queries == 0u && (l->form != ZO_NODES_PLAIN || zo_node_count(l) < 2u)) {
    task->queries = random_below(8) == 0u ? ZO_MAX_QUERIES : 1u;
  }
  task->mu = random_below(3) == 0u ? 127u : 1u + random_below(4);
  task->rate = random_below(2) == 0u ? 65536u : random_below(1u << 24);
  task->start_segment = random_below(5);
  const uint32_t whole = s->batch * s->parts, count = zo_node_count(l);
  task->inputs = (int8_t*)allocate((size_t)whole * zo_node_input_bytes(l));
  task->routes = (uint8_t*)allocate((size_t)whole * zo_node_route_bytes(l));
  task->nodes = (int8_t*)allocate((size_t)s->batch * count);
  if (task->queries == 0u) {
    task->errors = (int16_t*)allocate(sizeof(int16_t) * whole * count);
  } else {
    task->differences = (int32_t*)allocate(sizeof(int32_t) * task->queries * whole);
  }
  r->weights[t] = make_array(zo_node_row(l) * l->out_c, 1, 120);
  r->fractions[t] = copy_array(&r->weights[t], 3);
  r->inputs[t] = make_array(s->batch * zo_node_input_bytes(l), 1, 127);
  r->outputs[t] = make_array(s->batch * l->out_h * l->out_w * l->out_c, 0, 127);
  r->nodes[t] = make_array(s->batch * count, 1, 127);
  if (t % 2u != 0u) return;
  r->multipliers[t] = (int32_t*)allocate(sizeof(int32_t) * l->out_c);
  for (uint32_t c = 0; c < l->out_c; ++c) r->multipliers[t][c] = random_between(0, INT32_MAX);
}

void make_node_run(node_run* r) {
  memset(r, 0, sizeof *r);
  zo_control_settings* s = &r->settings.common;
  s->run_seed = random_u32();
  s->steps = 1 + random_below(4);
  s->samples = 1 + random_below(9);
  s->batch = 1 + random_below(3);
  s->parts = 1 + random_below(3);
  s->queries = 1;
  s->distribution.mu = 1;
  s->rate = 1 + random_shifted(1, 31);
  s->schedule = random_below(ZO_SCHEDULE_STEP + 1u);
  s->decay = random_below(65537);
  s->decay_steps = 1 + random_below(3);
  s->warmup_steps = random_below(3);
  s->clip = 1 + random_below(1u << 24);
  r->settings.first_segment = random_below(3);
  r->settings.tasks = 1 + random_below(kMostTasks);
  uint32_t row = 0;
  for (uint32_t t = 0; t < r->settings.tasks; ++t) {
    make_node_task(r, t);
    const uint32_t values = zo_node_scratch_values(&r->tasks[t].layer);
    if (values > row) row = values;
  }
  r->scratch = (int32_t*)allocate(sizeof(int32_t) * row);
}

void free_node_run(node_run* r) {
  for (uint32_t t = 0; t < r->settings.tasks; ++t) {
    free(r->tasks[t].inputs);
    free(r->tasks[t].routes);
    free(r->tasks[t].nodes);
    free(r->tasks[t].differences);
    free(r->tasks[t].errors);
    free(r->weights[t].memory);
    free(r->fractions[t].memory);
    free(r->inputs[t].memory);
    free(r->outputs[t].memory);
    free(r->nodes[t].memory);
    free(r->multipliers[t]);
  }
  free(r->scratch);
}

static void fill(array* b, int32_t limit) {
  for (uint32_t i = 0; i < b->size; ++i) b->at[i] = (int8_t)random_between(-limit, limit);
}

zo_tensor task_tensor(const node_run* r, uint32_t t) {
  zo_tensor tensor = tensor_of(&r->weights[t], t == 1u ? NULL : &r->fractions[t], t);
  tensor.channels = r->tasks[t].layer.out_c;
  tensor.inner = zo_node_row(&r->tasks[t].layer);
  tensor.multiplier = r->multipliers[t];
  return tensor;
}

/* No evaluation counts if a loss of the last one does not. */
static void refuse_losses(zo_node_run* run, zo_report* report) {
  const uint32_t evaluations = zo_node_run_evaluations(run);
  const uint32_t count = evaluations * run->settings.common.batch;
  int32_t* losses = (int32_t*)allocate(sizeof(int32_t) * count);
  memset(losses, 0, sizeof(int32_t) * count);
  losses[count - 1u] = -1;
  CHECK(zo_node_run_report_all(run, evaluations, losses, report) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_run_report_all(run, evaluations + 1u, losses, report) == ZO_ERROR_ARGUMENT);
  free(losses);
}

/* One request as an interpreter would answer it. Every call that does not fit is tried before, and
 * must leave the state alone. */
zo_report answer(node_run* r, zo_node_run* run, const zo_node_request* request) {
  const zo_control_settings* s = &r->settings.common;
  zo_node_run before = *run;
  const zo_model_loss read_by = {random_below(4), random_between(-128, 127), scale_of(0.1), 1, NULL};
  zo_report report;
  memset(&report, 0, sizeof report);
  int32_t* losses = (int32_t*)allocate(sizeof(int32_t) * s->batch);
  int32_t* labels = (int32_t*)allocate(sizeof(int32_t) * s->batch);
  for (uint32_t i = 0; i < s->batch; ++i) {
    losses[i] = (int32_t)random_shifted(1, 31);
    labels[i] = random_between(-1, 1);
    CHECK(zo_sample_at(s, request->first_sample + i) < s->samples);
  }
  for (uint32_t t = 0; t < r->settings.tasks; ++t) {
    array *x = &r->inputs[t], *y = &r->outputs[t], *n = &r->nodes[t];
    const int exact = r->tasks[t].queries == 0u;
    const int expected = request->action == ZO_NODE_FORWARD;
    fill(x, 127);
    fill(y, 127);
    fill(n, 127);
    const uint32_t values = s->batch * zo_node_count(&r->tasks[t].layer);
    int32_t* several = (int32_t*)allocate(sizeof(int32_t) * values);
    for (uint32_t i = 0; i < values; ++i) several[i] = random_between(-1, 1);
    int32_t* own = read_by.kind == ZO_LOSS_BINARY_CROSS_ENTROPY ? several : labels;
    const void* given = read_by.kind == ZO_LOSS_MEAN_SQUARED_ERROR ? (const void*)several : own;
    CHECK((zo_node_run_capture(run, t, x->at, y->at, n->at) == ZO_OK) == (expected && !exact));
    CHECK((zo_node_run_capture_head(run, t, x->at, n->at, &read_by, given) == ZO_OK) == (expected && exact));
    CHECK(zo_node_run_capture(run, t, NULL, y->at, n->at) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_capture_head(run, t, x->at, NULL, &read_by, given) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_capture_head(run, t, x->at, n->at, NULL, given) == ZO_ERROR_ARGUMENT);
    if (expected && exact && read_by.kind != ZO_LOSS_MEAN_SQUARED_ERROR) {
      own[0] = -2;
      CHECK(zo_node_run_capture_head(run, t, x->at, n->at, &read_by, given) == ZO_ERROR_LABEL);
      own[0] = 0;
    }
    free(several);
  }
  CHECK(zo_node_run_capture(run, r->settings.tasks, r->inputs[0].at, r->outputs[0].at, r->nodes[0].at) ==
        ZO_ERROR_ARGUMENT);
  const zo_tensor tensor = task_tensor(r, request->task);
  if (request->action != ZO_NODE_QUERY) {
    CHECK(zo_node_run_perturb(run, r->nodes[0].at) == ZO_ERROR_ARGUMENT);
  }
  if (request->action != ZO_NODE_UPDATE) {
    CHECK(zo_node_run_update(run, &tensor, 1, r->scratch, NULL, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_report(run, losses, s->batch + 1u, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_report(run, NULL, s->batch, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_report(run, losses, s->batch, NULL) == ZO_ERROR_ARGUMENT);
    const int32_t loss = losses[s->batch - 1u];
    losses[s->batch - 1u] = INT32_MIN; /* no loss: its negative is no number */
    CHECK(zo_node_run_report(run, losses, s->batch, &report) == ZO_ERROR_ARGUMENT);
    losses[s->batch - 1u] = loss;
    if (request->action == ZO_NODE_QUERY) refuse_losses(run, &report);
  } else {
    CHECK(zo_node_run_report(run, losses, s->batch, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_update(run, &tensor, 1, NULL, NULL, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_update(run, NULL, 1, r->scratch, NULL, &report) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_update(run, &tensor, 1, r->scratch, NULL, NULL) == ZO_ERROR_ARGUMENT);
  }
  before.decays = run->decays;         /* its cache follows from the settings */
  before.of_classes = run->of_classes; /* of the captures above */
  CHECK(memcmp(run, &before, sizeof before) == 0);
  if (request->action == ZO_NODE_QUERY) {
    CHECK(zo_node_run_perturb(run, NULL) == ZO_ERROR_ARGUMENT);
    CHECK(zo_node_run_perturb(run, r->nodes[request->task].at) == ZO_OK);
  }
  if (request->action == ZO_NODE_UPDATE) {
    uint32_t saturated = 0;
    CHECK(zo_node_run_update(run, &tensor, 1, r->scratch, &saturated, &report) == ZO_OK);
    CHECK(saturated <= tensor.size);
    for (uint32_t i = 0; i < tensor.size; ++i) digest = digest * 31u + (uint8_t)tensor.weights[i];
  } else {
    CHECK(zo_node_run_report(run, losses, s->batch, &report) == ZO_OK && report.step_done == 0u);
  }
  free(losses);
  free(labels);
  return report;
}
