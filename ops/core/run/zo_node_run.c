/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/run/zo_node_run.h"

#include <string.h>

#include "ops/core/run/zo_node_parts.h"

/* First task from `task` on that has queries. */
static uint32_t next_with_queries(const zo_node_run* run, uint32_t task) {
  while (task < run->settings.tasks && run->tasks[task].queries == 0u) ++task;
  return task;
}

zo_status zo_node_run_init(zo_node_run* run, const zo_node_settings* settings, zo_node_task* tasks) {
  if (run == NULL || tasks == NULL) return ZO_ERROR_ARGUMENT;
#if ZO_WITH_CHECKS
  const zo_status status = zo_node_tasks_check(settings, tasks);
  if (status != ZO_OK) return status;
#endif
  memset(run, 0, sizeof *run);
  run->settings = *settings;
  run->tasks = tasks;
  run->stage = ZO_NODE_FORWARD;
  for (uint32_t t = 0; t < settings->tasks; ++t) {
    tasks[t].mean_square.mantissa = 0;
    tasks[t].mean_square.exponent = 0;
  }
  return ZO_OK;
}

zo_status zo_node_run_resume(zo_node_run* run, uint32_t step, int32_t largest_loss, const zo_scale* mean_squares) {
  if (run == NULL || step > run->settings.common.steps || largest_loss < 0) {
    return ZO_ERROR_ARGUMENT;
  }
  const zo_scale none = {0, 0};
  for (uint32_t t = 0; mean_squares != NULL && t < run->settings.tasks; ++t) {
    if (!zo_task_mean_square_is_valid(run->tasks[t].kind, mean_squares[t])) {
      return ZO_ERROR_ARGUMENT;
    }
  }
  for (uint32_t t = 0; t < run->settings.tasks; ++t) {
    run->tasks[t].mean_square = mean_squares != NULL ? mean_squares[t] : none;
  }
  run->largest_loss = largest_loss;
  run->step = step;
  run->part = run->task = run->query = run->side = run->moved = 0;
  run->stage = ZO_NODE_FORWARD;
  return ZO_OK;
}

zo_status zo_node_run_next(const zo_node_run* run, zo_node_request* request) {
  if (run == NULL || request == NULL) return ZO_ERROR_ARGUMENT;
  const zo_control_settings* s = &run->settings.common;
  memset(request, 0, sizeof *request);
  request->step = run->step;
  if (run->step == s->steps) return ZO_OK;
  request->action = run->stage;
  request->first_sample = run->step * zo_node_minibatch(run) + run->part * s->batch;
  request->task = run->task;
  request->start_segment =
      run->stage == ZO_NODE_QUERY ? run->tasks[run->task].start_segment : run->settings.first_segment;
  return ZO_OK;
}

static int is_head(const zo_node_task* task) { return zo_task_is_exact(task) && !zo_task_is_in_tail(task); }

/* The task to capture for, or null. */
static zo_node_task* capturing_task(zo_node_run* run, uint32_t task) {
  return run != NULL && task < run->settings.tasks && run->stage == ZO_NODE_FORWARD &&
                 run->step < run->settings.common.steps
             ? &run->tasks[task]
             : NULL;
}

/* The caller may have put it there already. */
static void keep_values(int8_t* place, const int8_t* values, size_t bytes) {
  if (place != values) memcpy(place, values, bytes);
}

static void keep_inputs(const zo_node_run* run, const zo_node_task* task, const int8_t* inputs) {
  const size_t bytes = (size_t)run->settings.common.batch * zo_node_input_bytes(&task->layer);
  if (task->inputs == NULL) return;
  keep_values(task->inputs + run->part * bytes, inputs, bytes);
}

#if ZO_KERNEL_SETS
typedef struct routing {
  const zo_node_layer* layer;
  uint32_t samples, parts;
  const int8_t* outputs;
  uint8_t* routes;
} routing;

static void route_part(void* context, uint32_t part) {
  const routing* self = (const routing*)context;
  const uint32_t begin = zo_part_begin(self->samples, part, self->parts);
  const uint32_t end = zo_part_begin(self->samples, part + 1u, self->parts);
  const size_t outputs = (size_t)self->layer->out_h * self->layer->out_w * self->layer->out_c;
  (void)zo_route_nodes_s8(self->layer, end - begin, self->outputs + begin * outputs,
                          self->routes + (size_t)begin * zo_node_route_bytes(self->layer));
}
#endif

/* zo_route_nodes_s8 of a part of the minibatch. */
static zo_status route_samples(const zo_node_run* run, const zo_node_task* task, const int8_t* outputs,
                               uint8_t* routes) {
  const uint32_t batch = run->settings.common.batch;
#if ZO_KERNEL_SETS
  routing divided = {&task->layer, batch, zo_parts_of(run->workers, batch), outputs, routes};
  if (divided.parts > 1u) {
    const zo_status status = zo_node_layer_check(&task->layer);
    if (status == ZO_OK) zo_divide_work(run->workers, divided.parts, route_part, &divided);
    return status;
  }
#endif
  return zo_route_nodes_s8(&task->layer, batch, outputs, routes);
}

zo_status zo_node_run_capture(zo_node_run* run, uint32_t task, const int8_t* inputs, const int8_t* outputs,
                              const int8_t* nodes) {
  zo_node_task* t = capturing_task(run, task);
  if (t == NULL || (inputs == NULL && t->inputs != NULL) || zo_task_is_weights(t) || is_head(t)) {
    return ZO_ERROR_ARGUMENT;
  }
  if (zo_task_is_in_tail(t)) {
    keep_inputs(run, t, inputs);
    return ZO_OK;
  }
  if (outputs == NULL || (nodes == NULL && t->kind == ZO_TASK_NODES)) return ZO_ERROR_ARGUMENT;
  const uint32_t batch = run->settings.common.batch;
  const size_t routes = (size_t)batch * zo_node_route_bytes(&t->layer);
  const zo_status status = route_samples(run, t, outputs, t->routes + run->part * routes);
  if (status != ZO_OK) return status;
  keep_inputs(run, t, inputs);
  if (t->kind == ZO_TASK_NODES) keep_values(t->nodes, nodes, (size_t)batch * zo_node_count(&t->layer));
  return ZO_OK;
}

/* Errors of the outputs of a head. */
static zo_status derive_errors(const zo_model_loss* loss, const int8_t* outputs, uint32_t samples, uint32_t elements,
                               const void* labels, int16_t* errors) {
#if ZO_WITH_LOSS_SUM
  if (loss->kind == ZO_LOSS_SUM) {
    return zo_sum_loss_error_s8(loss->parts, loss->places, outputs, samples, elements, (const int32_t*)labels, errors);
  }
#endif
#if ZO_WITH_OTHER_LOSSES
  if (loss->kind == ZO_LOSS_BINARY_CROSS_ENTROPY) {
    return zo_binary_cross_entropy_error_s8(outputs, samples, elements, loss->zero_point, loss->scale,
                                            (const int32_t*)labels, errors);
  }
  if (loss->kind == ZO_LOSS_MEAN_SQUARED_ERROR) {
    return zo_mean_squared_error_error_s8(outputs, (const int8_t*)labels, samples, elements, errors);
  }
#endif
  return zo_cross_entropy_error_s8(outputs, samples * loss->places, elements / loss->places, loss->scale,
                                   (const int32_t*)labels, errors);
}

zo_status zo_node_run_capture_head(zo_node_run* run, uint32_t task, const int8_t* inputs, const int8_t* outputs,
                                   const zo_model_loss* loss, const void* labels) {
  zo_node_task* t = capturing_task(run, task);
  if (t == NULL || (inputs == NULL && t->inputs != NULL) || loss == NULL || loss->places == 0u || !is_head(t)) {
    return ZO_ERROR_ARGUMENT;
  }
  const uint32_t batch = run->settings.common.batch;
  const uint32_t nodes = zo_node_count(&t->layer);
  const size_t first = (size_t)run->part * batch;
  const zo_status status = derive_errors(loss, outputs, batch, nodes, labels, t->errors + first * nodes);
  if (status != ZO_OK) return status;
  if (t->exponents != NULL) memset(t->exponents + first, 0, batch);
#if ZO_WITH_EXACT_TASKS
  run->of_classes = loss->kind != ZO_LOSS_MEAN_SQUARED_ERROR && loss->kind != ZO_LOSS_SUM;
#endif
  keep_inputs(run, t, inputs);
  /* Nodes, and so bytes of a route: a head's nodes are its outputs. */
  return zo_route_nodes_s8(&t->layer, batch, outputs, t->routes + first * nodes);
}

#if ZO_WITH_WEIGHT_TASKS
zo_status zo_node_run_capture_boundary(zo_node_run* run, uint32_t task, const int8_t* boundary) {
  zo_node_task* t = capturing_task(run, task);
  if (t == NULL || boundary == NULL || !zo_task_is_weights(t) || t->boundary_bytes == 0u) {
    return ZO_ERROR_ARGUMENT;
  }
  keep_values(t->nodes, boundary, (size_t)run->settings.common.batch * t->boundary_bytes);
  return ZO_OK;
}
#endif

/* Writes the perturbed nodes of samples [begin, end) of one evaluation of the task in progress. */
static zo_status perturb_samples(const zo_node_run* run, uint32_t query, uint32_t side, uint32_t begin, uint32_t end,
                                 int8_t* nodes) {
  const zo_node_task* t = &run->tasks[run->task];
  const uint32_t first = run->part * run->settings.common.batch + begin;
  const size_t skipped = (size_t)begin * zo_node_count(&t->layer);
  const int32_t mu = (int32_t)t->mu;
  return zo_perturb_nodes_s8(&t->layer, end - begin, first, t->nodes + skipped, zo_node_seed(run, run->task, query),
                             side == 0u ? mu : -mu, nodes + skipped);
}

zo_status zo_node_run_perturb(const zo_node_run* run, int8_t* nodes) {
  if (run == NULL || nodes == NULL || run->stage != ZO_NODE_QUERY) return ZO_ERROR_ARGUMENT;
  const zo_node_task* t = &run->tasks[run->task];
  if (zo_task_is_weights(t)) {
    memcpy(nodes, t->nodes, (size_t)run->settings.common.batch * t->boundary_bytes);
    return ZO_OK;
  }
  return perturb_samples(run, run->query, run->side, 0, run->settings.common.batch, nodes);
}

uint32_t zo_node_run_evaluations(const zo_node_run* run) {
  if (run == NULL || run->stage != ZO_NODE_QUERY) return 0;
  const zo_node_task* t = &run->tasks[run->task];
  if (zo_task_is_weights(t)) return 1;
  const uint32_t sides = zo_is_one_sided(run->settings.common.estimator) ? 1u : 2u;
  return (t->queries - run->query) * sides - run->side;
}

/* Samples [begin, end) of all evaluations. */
static zo_status perturb_all(const zo_node_run* run, uint32_t count, uint32_t begin, uint32_t end, int8_t* nodes) {
  const zo_node_task* t = &run->tasks[run->task];
  const size_t bytes = (size_t)run->settings.common.batch * zo_node_count(&t->layer);
  const uint32_t sides = zo_is_one_sided(run->settings.common.estimator) ? 1u : 2u;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t at = run->query * sides + run->side + i;
    const zo_status status = perturb_samples(run, at / sides, at % sides, begin, end, nodes + i * bytes);
    if (status != ZO_OK) return status;
  }
  return ZO_OK;
}

#if ZO_KERNEL_SETS
typedef struct perturbing {
  const zo_node_run* run;
  uint32_t count, parts;
  int8_t* nodes;
  zo_status status; /* of the first part: it does not depend on samples */
} perturbing;

static void perturb_part(void* context, uint32_t part) {
  perturbing* self = (perturbing*)context;
  const uint32_t batch = self->run->settings.common.batch;
  const zo_status status = perturb_all(self->run, self->count, zo_part_begin(batch, part, self->parts),
                                       zo_part_begin(batch, part + 1u, self->parts), self->nodes);
  if (part == 0u) self->status = status;
}
#endif

zo_status zo_node_run_perturb_all(const zo_node_run* run, uint32_t count, int8_t* nodes) {
  if (run == NULL || nodes == NULL || run->stage != ZO_NODE_QUERY || count > zo_node_run_evaluations(run) ||
      zo_task_is_weights(&run->tasks[run->task])) {
    return ZO_ERROR_ARGUMENT;
  }
#if ZO_KERNEL_SETS
  perturbing divided = {run, count, zo_parts_of(run->workers, run->settings.common.batch), nodes, ZO_OK};
  if (divided.parts > 1u) {
    zo_divide_work(run->workers, divided.parts, perturb_part, &divided);
    return divided.status;
  }
#endif
  return perturb_all(run, count, 0, run->settings.common.batch, nodes);
}

static int32_t mean_loss(const zo_node_run* run) {
  const int64_t samples = (int64_t)zo_node_minibatch(run);
  return (int32_t)((run->total + samples / 2) / samples);
}

void zo_node_enter_queries(zo_node_run* run, uint32_t task) {
  /* Apart, since compilers move two neighbouring zeros through a register of the floating-point unit. */
  run->query = 0;
  run->task = next_with_queries(run, task);
  run->side = run->moved = 0;
  run->stage = ZO_NODE_QUERY;
  if (run->task < run->settings.tasks) return;
  run->part += 1u;
  run->task = 0;
  run->stage = ZO_NODE_FORWARD;
  if (run->part < run->settings.common.parts) return;
  /* To 0, but no constant, likewise. */
  run->part -= run->settings.common.parts;
  run->task = run->settings.tasks - 1u;
  run->stage = ZO_NODE_UPDATE;
  if (mean_loss(run) > run->largest_loss) run->largest_loss = mean_loss(run);
}

/* Called before the first query: keeps the base loss of one-sided differences. */
static void begin_differences(zo_node_run* run, const int32_t* losses) {
  const uint32_t batch = run->settings.common.batch;
  const int one_sided = zo_is_one_sided(run->settings.common.estimator);
  for (uint32_t i = 0; i < run->settings.tasks; ++i) {
    const zo_node_task* t = &run->tasks[i];
    for (uint32_t q = 0; q < t->queries; ++q) {
      if (zo_task_is_weights(t)) {
        const int64_t before = run->part == 0u ? 0 : t->sums[q];
        t->sums[q] = before - (one_sided ? run->base : 0);
        continue;
      }
      int32_t* differences = t->differences + (size_t)q * zo_node_minibatch(run) + (size_t)run->part * batch;
      for (uint32_t b = 0; b < batch; ++b) differences[b] = one_sided ? -losses[b] : 0;
    }
  }
}

static void add_losses(zo_node_run* run, const int32_t* losses, uint32_t count) {
  const zo_node_task* t = &run->tasks[run->task];
  const int32_t sign = run->side == 0u ? 1 : -1;
  if (zo_task_is_weights(t)) {
    for (uint32_t i = 0; i < count; ++i) t->sums[run->query] += sign * (int64_t)losses[i];
    return;
  }
  int32_t* differences = t->differences + (size_t)run->query * zo_node_minibatch(run) + (size_t)run->part * count;
  for (uint32_t i = 0; i < count; ++i) differences[i] += sign * losses[i];
}

/* None is negative, so that differences fit. */
static int losses_fit(const int32_t* losses, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (losses[i] < 0) return 0;
  }
  return 1;
}

zo_status zo_node_run_report(zo_node_run* run, const int32_t* losses, uint32_t count, zo_report* report) {
  if (run == NULL || losses == NULL || report == NULL || count != run->settings.common.batch ||
      (run->stage != ZO_NODE_FORWARD && run->stage != ZO_NODE_QUERY) || run->step == run->settings.common.steps) {
    return ZO_ERROR_ARGUMENT;
  }
  if (!losses_fit(losses, count)) return ZO_ERROR_ARGUMENT;
  zo_node_task* t = &run->tasks[run->task];
  if (run->stage == ZO_NODE_QUERY && zo_task_is_weights(t) && run->moved == 0u) return ZO_ERROR_ORDER;
  memset(report, 0, sizeof *report);
  if (run->stage == ZO_NODE_FORWARD) {
    run->base = 0;
    for (uint32_t i = 0; i < count; ++i) run->base += losses[i];
    run->total = (run->part == 0u ? 0 : run->total) + run->base;
    begin_differences(run, losses);
    zo_node_enter_queries(run, 0);
    return ZO_OK;
  }
  add_losses(run, losses, count);
  run->moved = 0;
  if (run->side == 0u && !zo_is_one_sided(run->settings.common.estimator)) {
    run->side = 1;
  } else if (run->query + 1u < t->queries) {
    run->side = 0;
    run->query += 1u;
  } else if (zo_task_is_weights(t)) {
    run->stage = ZO_NODE_RESTORE;
  } else {
    zo_node_enter_queries(run, run->task + 1u);
  }
  return ZO_OK;
}

zo_status zo_node_run_report_all(zo_node_run* run, uint32_t evaluations, const int32_t* losses, zo_report* report) {
  if (run == NULL || losses == NULL || report == NULL || evaluations > zo_node_run_evaluations(run)) {
    return ZO_ERROR_ARGUMENT;
  }
  const uint32_t batch = run->settings.common.batch;
  if (!losses_fit(losses, (size_t)evaluations * batch)) return ZO_ERROR_ARGUMENT;
  for (uint32_t i = 0; i < evaluations; ++i) {
    const zo_status status = zo_node_run_report(run, losses + (size_t)i * batch, batch, report);
    if (status != ZO_OK) return status;
  }
  return ZO_OK;
}

static void finish_node_step(zo_node_run* run, zo_report* report) {
  report->step_done = 1;
  report->step = run->step;
  report->rate = zo_control_rate(&run->settings.common, run->step, ZO_DECAYS_OF(run));
  report->mean_loss = mean_loss(run);
  run->step += 1u;
  run->task = 0;
  run->stage = ZO_NODE_FORWARD;
}

uint32_t zo_node_task_rate(zo_node_run* run, const zo_node_task* task) {
  const uint64_t rate = zo_control_rate(&run->settings.common, run->step, ZO_DECAYS_OF(run));
  const uint64_t own = rate * task->rate >> 16;
  return own < INT32_MAX ? (uint32_t)own : INT32_MAX;
}

#if ZO_WITH_EXACT_TASKS
/* Output channels that an exact task updates in this step; 0: all. */
static uint32_t updated_rows(const zo_node_run* run, const zo_node_task* task) {
  if (!ZO_WITH_ROWS || run->settings.rows_most == 0u) return 0;
  const uint64_t least = run->settings.rows_least;
  const uint64_t range = run->settings.rows_most - least;
  const uint64_t largest = (uint64_t)run->largest_loss;
  const uint64_t share = largest == 0u ? 0u : range * (uint64_t)mean_loss(run) / largest;
  const uint32_t count = (uint32_t)((least + share) * task->layer.out_c / 65535u);
  return count > 0u ? count : 1u;
}

/* Errors of samples differ by orders of magnitude: a sample whose answer is right has almost none. Relative to
 * gradients of such samples alone, the step of a wrong answer after them would be far above the rate, and destroy the
 * network. So mean squares are those of errors of 1. Returns the square errors of the head, whose update comes first.
 */
static uint64_t set_per_error(const zo_node_run* run, const zo_node_task* t, zo_node_step* step) {
  const uint32_t samples = zo_node_minibatch(run);
  const size_t errors = is_head(t) ? (size_t)samples * zo_node_count(&t->layer) : 0u;
  uint64_t squares = errors > 0u ? 0u : run->error_squares;
  for (size_t i = 0; i < errors; ++i) squares += (uint32_t)(t->errors[i] * t->errors[i]);
  const uint64_t least = squares > 0u ? squares : 1u; /* no errors make no step */
  step->per_error = zo_scale_ratio(zo_scale_of(samples, 30), zo_scale_of(least, 0));
  return squares;
}
#endif

void zo_node_leave_update(zo_node_run* run, zo_report* report) {
  memset(report, 0, sizeof *report);
  if (run->task == 0u) {
    finish_node_step(run, report);
  } else {
    run->task -= 1u;
  }
}

zo_status zo_node_run_update(zo_node_run* run, const zo_tensor* tensors, uint32_t count, int32_t* scratch,
                             uint32_t* saturated, zo_report* report) {
  if (run == NULL || report == NULL || run->stage != ZO_NODE_UPDATE || zo_task_is_weights(&run->tasks[run->task])) {
    return ZO_ERROR_ARGUMENT;
  }
  zo_node_task* t = &run->tasks[run->task];
  uint32_t asking = run->task; /* the task whose queries measure this one's nodes */
  while (run->tasks[asking].kind == ZO_TASK_SHARED_NODES) --asking;
  const uint32_t queries = run->tasks[asking].queries;
  const int is_exact = zo_task_is_exact(&run->tasks[asking]);
  uint32_t seeds[ZO_MAX_QUERIES];
  for (uint32_t q = 0; q < queries; ++q) seeds[q] = zo_node_seed(run, asking, q);
  zo_node_evidence evidence;
  memset(&evidence, 0, sizeof evidence);
  evidence.samples = zo_node_minibatch(run);
  evidence.queries = queries;
  evidence.inputs = t->inputs;
  evidence.routes = t->routes;
  evidence.differences = run->tasks[asking].differences;
  evidence.seeds = seeds;
  evidence.errors = is_exact ? t->errors : NULL;
  evidence.exponents = is_exact ? t->exponents : NULL;
  zo_node_step step;
  memset(&step, 0, sizeof step);
  step.rule = is_exact ? run->settings.exact_rule : run->settings.rule;
  step.rate = zo_node_task_rate(run, t);
  step.clip = run->settings.common.clip;
#if ZO_WITH_EXACT_TASKS
  uint64_t error_squares = run->error_squares;
  if (is_exact) {
    if (step.rule == ZO_RUN_RMS) {
      step.rule = ZO_NODE_RMS;
    } else if (run->of_classes) {
      error_squares = set_per_error(run, t, &step);
    }
    step.bits = run->settings.exact_bits[zo_control_stage(&run->settings.common, run->step)];
    step.rows = updated_rows(run, t);
  }
#endif
  step.gain = t->gain;
  step.seed = zo_node_seed(run, run->task, ZO_QUERY_SEEDS - 1u);
#if ZO_KERNEL_SETS
  step.workers = run->workers;
#endif
  step.mean_square = t->mean_square;
  const zo_status status = zo_node_update_s8(&t->layer, tensors, count, &evidence, &step, scratch, saturated);
  if (status != ZO_OK) return status;
#if ZO_WITH_EXACT_TASKS
  run->error_squares = error_squares;
#endif
  t->mean_square = step.mean_square;
  zo_node_leave_update(run, report);
  return ZO_OK;
}
