/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/run/zo_node_run.h"

#include <string.h>

#include "ops/core/random/zo_stream.h"
#include "ops/core/weights/zo_perturb.h"
#include "ops/core/weights/zo_update.h"
#include "ops/core/zo_features.h"

#if ZO_WITH_BITS
#include "ops/core/papers/zo_update_bits.h"
#endif

/* Added to a step's number for the seeds of its nodes, task by task. */
#define TASK_SEEDS ZO_QUERY_SEEDS

static uint32_t minibatch(const zo_node_run* run) {
  return run->settings.common.batch * run->settings.common.parts;
}

static uint32_t seed_of(const zo_node_run* run, uint32_t task, uint32_t query) {
  return zo_query_seed(run->settings.common.run_seed, run->step, task * TASK_SEEDS + query);
}

/* First task from `task` on that has queries. */
static uint32_t next_with_queries(const zo_node_run* run, uint32_t task) {
  while (task < run->settings.tasks && run->tasks[task].queries == 0u) ++task;
  return task;
}

static int is_weights(const zo_node_task* task) { return task->kind == ZO_TASK_WEIGHTS; }

static int buffers_are_valid(const zo_node_task* t) {
  if (is_weights(t)) return t->sums != NULL && (t->boundary_bytes == 0u || t->nodes != NULL);
  return t->inputs != NULL && t->routes != NULL && t->nodes != NULL &&
         (t->queries == 0u ? t->errors != NULL && t->layer.form == ZO_NODES_PLAIN
                           : t->differences != NULL);
}

zo_status zo_node_task_check(uint32_t kind, uint32_t queries, uint32_t mu, uint32_t rate,
                             zo_scale gain) {
  if (kind > ZO_TASK_WEIGHTS) return ZO_ERROR_ARGUMENT;
  const int weights = kind == ZO_TASK_WEIGHTS;
  if (queries > ZO_MAX_QUERIES || (weights && queries == 0u)) return ZO_ERROR_QUERIES;
  const int valid = (weights || (mu >= 1u && mu <= 127u)) && rate < UINT32_C(1) << 24 &&
                    gain.exponent >= -ZO_NODE_GAIN_EXPONENT_MAX &&
                    gain.exponent <= ZO_NODE_GAIN_EXPONENT_MAX;
  return valid ? ZO_OK : ZO_ERROR_ARGUMENT;
}

static zo_status check_task(const zo_node_task* t) {
  if (t->kind > ZO_TASK_WEIGHTS) return ZO_ERROR_ARGUMENT;
  zo_status status = is_weights(t) ? ZO_OK : zo_node_layer_check(&t->layer);
  if (status == ZO_OK) {
    status = zo_node_task_check(t->kind, t->queries, t->mu, t->rate, t->gain);
  }
  if (status != ZO_OK) return status;
  return buffers_are_valid(t) ? ZO_OK : ZO_ERROR_ARGUMENT;
}

/* Errors come back through a dense layer that reads each node once, in the same steps. */
static zo_status check_following(const zo_node_task* tasks, uint32_t count, uint32_t task) {
  const zo_node_task* t = &tasks[task];
  if (is_weights(t) || t->queries > 0u || t->following == ZO_NODE_HEAD) return ZO_OK;
  if (t->following <= task || t->following >= count) return ZO_ERROR_ARGUMENT;
  const zo_node_task* next = &tasks[t->following];
  const zo_node_layer* l = &next->layer;
  const int valid = !is_weights(next) && next->queries == 0u &&
                    (l->in_h | l->in_w | l->k_h | l->k_w | l->out_h | l->out_w) == 1u &&
                    l->in_c == zo_node_count(&t->layer);
  return valid ? ZO_OK : ZO_ERROR_ARGUMENT;
}

static int rules_are_valid(const zo_node_settings* s) {
  int valid = s->rule <= ZO_NODE_FIXED && s->exact_rule <= ZO_NODE_STANDARDIZED &&
              s->exact_rule != ZO_NODE_FIXED && (s->rows >> 16) >= (s->rows & 0xFFFFu);
  for (uint32_t i = 0; i < 4u; ++i) {
    const uint32_t bits = s->bits >> (8u * i) & 0xFFu;
    const int needed = i == 3u ? s->common.rule == ZO_RUN_BITS : s->exact_rule == ZO_NODE_BITS;
    if (needed && (!ZO_WITH_BITS || bits < 1u || bits > ZO_UPDATE_BITS_MAX)) valid = 0;
  }
  return valid;
}

zo_status zo_node_settings_check(const zo_node_settings* settings) {
  if (settings == NULL || settings->tasks < 1u || settings->tasks > ZO_NODE_TASKS_MAX ||
      settings->common.clip < 1u || settings->common.clip > UINT32_C(1) << 24) {
    return ZO_ERROR_ARGUMENT;
  }
  const zo_control_settings* common = &settings->common;
  zo_control_settings known = *common;
  if (known.rule == ZO_RUN_BITS) known.rule = ZO_STEP_SIGN; /* a rule of this control unit alone */
  const zo_status status = zo_control_settings_check(&known);
  if (status != ZO_OK) return status;
  if (common->rule == ZO_RUN_BITS && zo_is_coordinate(common->distribution)) {
    return ZO_ERROR_DISTRIBUTION; /* zo_update_bits_s8 does not take it */
  }
  const int valid = common->gradient_norm == 0u && common->blocks == 0u && common->momentum == 0u &&
                    common->sharpness == 0u && rules_are_valid(settings);
  return valid ? ZO_OK : ZO_ERROR_ARGUMENT;
}

zo_status zo_node_run_init(zo_node_run* run, const zo_node_settings* settings,
                           zo_node_task* tasks) {
  if (run == NULL || tasks == NULL) return ZO_ERROR_ARGUMENT;
  zo_status status = zo_node_settings_check(settings);
  for (uint32_t t = 0; status == ZO_OK && t < settings->tasks; ++t) {
    status = check_task(&tasks[t]);
  }
  for (uint32_t t = 0; status == ZO_OK && t < settings->tasks; ++t) {
    status = check_following(tasks, settings->tasks, t);
  }
  if (status != ZO_OK) return status;
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

/* Of a weight task, the highest of its 64 bits is the exponent's: they are not negative. */
int zo_task_mean_square_is_valid(uint32_t kind, zo_scale mean_square) {
  return kind == ZO_TASK_WEIGHTS ? mean_square.exponent >= 0 : zo_scale_is_valid(mean_square);
}

zo_status zo_node_run_resume(zo_node_run* run, uint32_t step, int32_t largest_loss,
                             const zo_scale* mean_squares) {
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
  request->first_sample = run->step * minibatch(run) + run->part * s->batch;
  request->task = run->task;
  request->start_segment = run->stage == ZO_NODE_QUERY ? run->tasks[run->task].start_segment
                                                       : run->settings.first_segment;
  return ZO_OK;
}

static int is_head(const zo_node_task* task) {
  return task->kind == ZO_TASK_NODES && task->queries == 0u && task->following == ZO_NODE_HEAD;
}

/* The task to capture for, or null. */
static zo_node_task* capturing(zo_node_run* run, uint32_t task) {
  return run != NULL && task < run->settings.tasks && run->stage == ZO_NODE_FORWARD &&
                 run->step < run->settings.common.steps
             ? &run->tasks[task]
             : NULL;
}

/* The caller may have put it there already. */
static void keep(int8_t* place, const int8_t* values, size_t bytes) {
  if (place != values) memcpy(place, values, bytes);
}

static void keep_inputs(const zo_node_run* run, const zo_node_task* task, const int8_t* inputs) {
  const size_t bytes = (size_t)run->settings.common.batch * zo_node_input_bytes(&task->layer);
  keep(task->inputs + run->part * bytes, inputs, bytes);
}

zo_status zo_node_run_capture(zo_node_run* run, uint32_t task, const int8_t* inputs,
                              const int8_t* outputs, const int8_t* nodes) {
  zo_node_task* t = capturing(run, task);
  if (t == NULL || inputs == NULL || outputs == NULL || nodes == NULL || is_weights(t) ||
      is_head(t)) {
    return ZO_ERROR_ARGUMENT;
  }
  const uint32_t batch = run->settings.common.batch;
  const size_t routes = (size_t)batch * zo_node_route_bytes(&t->layer);
  const zo_status status =
      zo_route_nodes_s8(&t->layer, batch, outputs, t->routes + run->part * routes);
  if (status != ZO_OK) return status;
  keep_inputs(run, t, inputs);
  keep(t->nodes, nodes, (size_t)batch * zo_node_count(&t->layer));
  return ZO_OK;
}

zo_status zo_node_run_capture_head(zo_node_run* run, uint32_t task, const int8_t* inputs,
                                   const int8_t* logits, zo_logit_scale scale,
                                   const int32_t* labels) {
  zo_node_task* t = capturing(run, task);
  if (t == NULL || inputs == NULL || logits == NULL || !is_head(t)) return ZO_ERROR_ARGUMENT;
  const uint32_t batch = run->settings.common.batch;
  const uint32_t nodes = zo_node_count(&t->layer);
  const zo_status status = zo_cross_entropy_error_s8(logits, batch, nodes, scale, labels,
                                                     t->errors + (size_t)run->part * batch * nodes);
  if (status != ZO_OK) return status;
  keep_inputs(run, t, inputs);
  /* Nodes, and so bytes of a route: a head's nodes are its outputs. */
  return zo_route_nodes_s8(&t->layer, batch, logits, t->routes + (size_t)run->part * batch * nodes);
}

zo_status zo_node_run_backpropagate(zo_node_run* run, uint32_t task, const int8_t* weights,
                                    const int16_t* scales, int32_t* scratch) {
  zo_node_task* t = capturing(run, task);
  if (t == NULL || t->queries != 0u || is_head(t)) return ZO_ERROR_ARGUMENT;
  const zo_node_task* next = &run->tasks[t->following];
  const uint32_t batch = run->settings.common.batch;
  const size_t first = (size_t)run->part * batch;
  const uint32_t inputs = zo_node_count(&t->layer);
  const uint32_t outputs = zo_node_count(&next->layer);
  return zo_fc_backprop_s8(batch, inputs, outputs, weights, scales, next->errors + first * outputs,
                           t->routes + first * inputs, t->errors + first * inputs, scratch);
}

zo_status zo_node_run_capture_boundary(zo_node_run* run, uint32_t task, const int8_t* boundary) {
  zo_node_task* t = capturing(run, task);
  if (t == NULL || boundary == NULL || !is_weights(t) || t->boundary_bytes == 0u) {
    return ZO_ERROR_ARGUMENT;
  }
  keep(t->nodes, boundary, (size_t)run->settings.common.batch * t->boundary_bytes);
  return ZO_OK;
}

zo_status zo_node_run_perturb(const zo_node_run* run, int8_t* nodes) {
  if (run == NULL || nodes == NULL || run->stage != ZO_NODE_QUERY) return ZO_ERROR_ARGUMENT;
  const zo_node_task* t = &run->tasks[run->task];
  const uint32_t batch = run->settings.common.batch;
  if (is_weights(t)) {
    memcpy(nodes, t->nodes, (size_t)batch * t->boundary_bytes);
    return ZO_OK;
  }
  const int32_t mu = (int32_t)t->mu;
  return zo_perturb_nodes_s8(&t->layer, batch, run->part * batch, t->nodes,
                             seed_of(run, run->task, run->query), run->side == 0u ? mu : -mu,
                             nodes);
}

/* How a query's last evaluation is undone. */
static int32_t undo(const zo_node_run* run) {
  return run->settings.common.estimator == ZO_ANTITHETIC ? 1 : -1;
}

/* What leads from where the weights are to where they are wanted: one pass. */
static uint32_t perturbation(const zo_node_run* run, zo_perturb_term* terms) {
  uint32_t count = 0;
  if (run->stage == ZO_NODE_QUERY && run->side == 1u) {
    terms[count].seed = seed_of(run, run->task, run->query);
    terms[count++].k = -2;
    return count;
  }
  const uint32_t last = run->stage == ZO_NODE_RESTORE ? run->query + 1u : run->query;
  if (last > 0u) {
    terms[count].seed = seed_of(run, run->task, last - 1u);
    terms[count++].k = undo(run);
  }
  if (run->stage == ZO_NODE_QUERY) {
    terms[count].seed = seed_of(run, run->task, run->query);
    terms[count++].k = 1;
  }
  return count;
}

static int32_t mean_loss(const zo_node_run* run) {
  const int64_t samples = (int64_t)minibatch(run);
  return (int32_t)((run->total + samples / 2) / samples);
}

/* Enters the first query from `task` on, or what follows the part's last one. */
static void enter_queries(zo_node_run* run, uint32_t task) {
  run->query = run->side = run->moved = 0;
  run->task = next_with_queries(run, task);
  run->stage = ZO_NODE_QUERY;
  if (run->task < run->settings.tasks) return;
  run->part += 1u;
  run->task = 0;
  run->stage = ZO_NODE_FORWARD;
  if (run->part < run->settings.common.parts) return;
  run->part = 0;
  run->stage = ZO_NODE_UPDATE;
  if (mean_loss(run) > run->largest_loss) run->largest_loss = mean_loss(run);
}

/* Whether a weight task's tensors can be moved: all of them are seen to before the first moves. */
static zo_status check_tensors(const zo_node_run* run, const zo_tensor* tensors, uint32_t count) {
  if (tensors == NULL || count == 0u) return ZO_ERROR_ARGUMENT;
  const zo_distribution distribution = zo_control_distribution(&run->settings.common, run->step);
  const int in_bits = run->settings.common.rule == ZO_RUN_BITS;
  for (uint32_t i = 0; i < count; ++i) {
    const zo_tensor* t = &tensors[i];
    if (!zo_update_takes(t) || (in_bits && (t->fraction != NULL || t->mask != NULL))) {
      return ZO_ERROR_ARGUMENT;
    }
    if (zo_distribution_reach(distribution) > 127 - t->limit) return ZO_ERROR_HEAD_ROOM;
  }
  return ZO_OK;
}

zo_status zo_node_run_perturb_weights(zo_node_run* run, const zo_tensor* tensors, uint32_t count) {
  if (run == NULL || (run->stage != ZO_NODE_QUERY && run->stage != ZO_NODE_RESTORE) ||
      !is_weights(&run->tasks[run->task])) {
    return ZO_ERROR_ARGUMENT;
  }
  if (run->moved != 0u) return ZO_OK;
  const zo_status checked = check_tensors(run, tensors, count);
  if (checked != ZO_OK) return checked;
  const zo_distribution distribution = zo_control_distribution(&run->settings.common, run->step);
  zo_perturb_term terms[2];
  const uint32_t used = perturbation(run, terms);
  const zo_perturb_terms all = {terms, used, 0};
  for (uint32_t i = 0; i < count; ++i) {
    const zo_status status = zo_perturb_s8(&tensors[i], distribution, &all);
    if (status != ZO_OK) return status;
  }
  if (run->stage == ZO_NODE_RESTORE) {
    enter_queries(run, run->task + 1u);
  } else {
    run->moved = 1;
  }
  return ZO_OK;
}

/* What undoes the perturbation that is in force. */
static uint32_t undoing(const zo_node_run* run, zo_perturb_term* term) {
  uint32_t query = run->query;
  term->k = undo(run);
  if (run->stage == ZO_NODE_QUERY && (run->moved != 0u ? run->side == 0u : run->side == 1u)) {
    term->k = -1; /* w + z */
  } else if (run->stage == ZO_NODE_QUERY && run->moved == 0u) {
    if (query == 0u) return 0;
    query -= 1u; /* the last evaluation of the query before */
  }
  term->seed = seed_of(run, run->task, query);
  return 1;
}

zo_status zo_node_run_abandon(zo_node_run* run, const zo_tensor* tensors, uint32_t count) {
  if (run == NULL) return ZO_ERROR_ARGUMENT;
  if (run->stage == ZO_NODE_UPDATE) return ZO_ERROR_ORDER;
  zo_perturb_term term;
  const uint32_t moved = (run->stage == ZO_NODE_QUERY || run->stage == ZO_NODE_RESTORE) &&
                                 is_weights(&run->tasks[run->task])
                             ? undoing(run, &term)
                             : 0u;
  const zo_status checked = moved != 0u ? check_tensors(run, tensors, count) : ZO_OK;
  if (checked != ZO_OK) return checked;
  run->part = run->task = run->query = run->side = run->moved = 0;
  const zo_distribution distribution = zo_control_distribution(&run->settings.common, run->step);
  const zo_perturb_terms terms = {&term, 1, 0};
  for (uint32_t i = 0; moved != 0u && i < count; ++i) {
    const zo_status status = zo_perturb_s8(&tensors[i], distribution, &terms);
    if (status != ZO_OK) return status;
  }
  run->stage = ZO_NODE_FORWARD;
  return ZO_OK;
}

/* Before the first query: of one-sided differences what is subtracted. */
static void begin_differences(zo_node_run* run, const int32_t* losses) {
  const uint32_t batch = run->settings.common.batch;
  const int one_sided = run->settings.common.estimator == ZO_ONE_SIDED;
  for (uint32_t i = 0; i < run->settings.tasks; ++i) {
    const zo_node_task* t = &run->tasks[i];
    for (uint32_t q = 0; q < t->queries; ++q) {
      if (is_weights(t)) {
        const int64_t before = run->part == 0u ? 0 : t->sums[q];
        t->sums[q] = before - (one_sided ? run->base : 0);
        continue;
      }
      int32_t* differences =
          t->differences + (size_t)q * minibatch(run) + (size_t)run->part * batch;
      for (uint32_t b = 0; b < batch; ++b) differences[b] = one_sided ? -losses[b] : 0;
    }
  }
}

static void add_losses(zo_node_run* run, const int32_t* losses, uint32_t count) {
  const zo_node_task* t = &run->tasks[run->task];
  const int32_t sign = run->side == 0u ? 1 : -1;
  if (is_weights(t)) {
    for (uint32_t i = 0; i < count; ++i) t->sums[run->query] += sign * (int64_t)losses[i];
    return;
  }
  int32_t* differences =
      t->differences + (size_t)run->query * minibatch(run) + (size_t)run->part * count;
  for (uint32_t i = 0; i < count; ++i) differences[i] += sign * losses[i];
}

zo_status zo_node_run_report(zo_node_run* run, const int32_t* losses, uint32_t count,
                             zo_report* report) {
  if (run == NULL || losses == NULL || report == NULL || count != run->settings.common.batch ||
      (run->stage != ZO_NODE_FORWARD && run->stage != ZO_NODE_QUERY) ||
      run->step == run->settings.common.steps) {
    return ZO_ERROR_ARGUMENT;
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (losses[i] < 0) return ZO_ERROR_ARGUMENT; /* so that differences fit */
  }
  zo_node_task* t = &run->tasks[run->task];
  if (run->stage == ZO_NODE_QUERY && is_weights(t) && run->moved == 0u) return ZO_ERROR_ORDER;
  memset(report, 0, sizeof *report);
  if (run->stage == ZO_NODE_FORWARD) {
    run->base = 0;
    for (uint32_t i = 0; i < count; ++i) run->base += losses[i];
    run->total = (run->part == 0u ? 0 : run->total) + run->base;
    begin_differences(run, losses);
    enter_queries(run, 0);
    return ZO_OK;
  }
  add_losses(run, losses, count);
  run->moved = 0;
  if (run->side == 0u && run->settings.common.estimator == ZO_ANTITHETIC) {
    run->side = 1;
  } else if (run->query + 1u < t->queries) {
    run->side = 0;
    run->query += 1u;
  } else if (is_weights(t)) {
    run->stage = ZO_NODE_RESTORE;
  } else {
    enter_queries(run, run->task + 1u);
  }
  return ZO_OK;
}

static void finish_step(zo_node_run* run, zo_report* report) {
  report->step_done = 1;
  report->step = run->step;
  report->rate = zo_control_rate(&run->settings.common, run->step);
  report->mean_loss = mean_loss(run);
  run->step += 1u;
  run->task = 0;
  run->stage = ZO_NODE_FORWARD;
}

/* The rate of a task in this step, unit 2^-16. */
static uint32_t rate_of(const zo_node_run* run, const zo_node_task* task) {
  const uint64_t rate =
      (uint64_t)zo_control_rate(&run->settings.common, run->step) * task->rate >> 16;
  return rate < INT32_MAX ? (uint32_t)rate : INT32_MAX;
}

/* Output channels that an exact task updates in this step; 0: all. */
static uint32_t rows_of(const zo_node_run* run, const zo_node_task* task) {
  const uint32_t rows = run->settings.rows;
  if (rows == 0u) return 0;
  const uint64_t least = rows & 0xFFFFu;
  const uint64_t range = (rows >> 16) - least;
  const uint64_t largest = (uint64_t)run->largest_loss;
  const uint64_t share = largest == 0u ? 0u : range * (uint64_t)mean_loss(run) / largest;
  const uint32_t count = (uint32_t)((least + share) * task->layer.out_c / 65535u);
  return count > 0u ? count : 1u;
}

static void leave_update(zo_node_run* run, zo_report* report) {
  memset(report, 0, sizeof *report);
  run->task += 1u;
  if (run->task == run->settings.tasks) finish_step(run, report);
}

zo_status zo_node_run_update(zo_node_run* run, const zo_tensor* tensor, int32_t* scratch,
                             uint32_t* saturated, zo_report* report) {
  if (run == NULL || report == NULL || run->stage != ZO_NODE_UPDATE ||
      is_weights(&run->tasks[run->task])) {
    return ZO_ERROR_ARGUMENT;
  }
  zo_node_task* t = &run->tasks[run->task];
  uint32_t seeds[ZO_MAX_QUERIES];
  for (uint32_t q = 0; q < t->queries; ++q) seeds[q] = seed_of(run, run->task, q);
  zo_node_evidence evidence;
  memset(&evidence, 0, sizeof evidence);
  evidence.samples = minibatch(run);
  evidence.queries = t->queries;
  evidence.inputs = t->inputs;
  evidence.routes = t->routes;
  evidence.differences = t->differences;
  evidence.seeds = seeds;
  evidence.errors = t->queries == 0u ? t->errors : NULL;
  zo_node_step step;
  memset(&step, 0, sizeof step);
  step.rule = t->queries == 0u ? run->settings.exact_rule : run->settings.rule;
  step.rate = rate_of(run, t);
  step.clip = run->settings.common.clip;
  if (t->queries == 0u) {
    step.bits =
        run->settings.bits >> (8u * zo_control_stage(&run->settings.common, run->step)) & 0xFFu;
    step.rows = rows_of(run, t);
  }
  step.gain = t->gain;
  step.seed = seed_of(run, run->task, TASK_SEEDS - 1u);
  step.mean_square = t->mean_square;
  const zo_status status =
      zo_node_update_s8(&t->layer, tensor, &evidence, &step, scratch, saturated);
  if (status != ZO_OK) return status;
  t->mean_square = step.mean_square;
  leave_update(run, report);
  return ZO_OK;
}

static int64_t read_mean_square(zo_scale s) {
  return (int64_t)((uint64_t)(uint32_t)s.exponent << 32 | s.mantissa);
}

static zo_scale write_mean_square(int64_t mean_square) {
  zo_scale s;
  s.mantissa = (uint32_t)mean_square;
  s.exponent = (int32_t)((uint64_t)mean_square >> 32); /* not negative: below 2^31 */
  return s;
}

/* The rate times the task's gain. */
static uint32_t gained_rate(uint32_t rate, zo_scale gain) {
  if (gain.mantissa == 0u) return rate;
  return zo_scale_round(zo_scale_product(zo_scale_of(rate, 0), gain), INT32_MAX);
}

#if ZO_WITH_BITS
/* ElasticZO-INT8: each query's direction by the sign of its difference, rounded to few bits. */
static zo_status update_bits(const zo_node_run* run, const zo_node_task* task,
                             const zo_tensor* tensor, uint32_t* saturated) {
  const zo_distribution distribution = zo_control_distribution(&run->settings.common, run->step);
  for (uint32_t q = 0; q < task->queries; ++q) {
    const int64_t sum = task->sums[q];
    const zo_status status =
        zo_update_bits_s8(tensor, distribution, seed_of(run, run->task, q),
                          sum > 0 ? 1 : (sum < 0 ? -1 : 0), run->settings.bits >> 24, saturated);
    if (status != ZO_OK) return status;
  }
  return ZO_OK;
}

#endif

zo_status zo_node_run_update_weights(zo_node_run* run, const zo_tensor* tensors, uint32_t count,
                                     uint32_t* saturated, zo_report* report) {
  if (run == NULL || report == NULL || run->stage != ZO_NODE_UPDATE ||
      !is_weights(&run->tasks[run->task])) {
    return ZO_ERROR_ARGUMENT;
  }
  const zo_status checked = check_tensors(run, tensors, count);
  if (checked != ZO_OK) return checked;
  zo_node_task* t = &run->tasks[run->task];
  const zo_control_settings* s = &run->settings.common;
  zo_step_size size;
  size.estimator = s->estimator;
  size.rule = s->rule;
  size.distribution = zo_control_distribution(s, run->step);
  size.queries = t->queries;
  size.clip = run->settings.weight_clip;
  const uint32_t rate =
      s->rule == ZO_STEP_GRADIENT ? gained_rate(rate_of(run, t), t->gain) : rate_of(run, t);
  int64_t mean_square = read_mean_square(t->mean_square);
  for (uint32_t q = 0; q < t->queries; ++q) {
    mean_square =
        zo_track_mean_square(mean_square, zo_mean_difference(t->sums[q], (int64_t)minibatch(run)));
  }
  zo_query queries[ZO_MAX_QUERIES];
  for (uint32_t q = 0; q < t->queries; ++q) {
    queries[q].seed = seed_of(run, run->task, q);
    queries[q].coefficient = zo_step_coefficient(
        &size, zo_mean_difference(t->sums[q], (int64_t)minibatch(run)), rate, mean_square);
  }
  for (uint32_t i = 0; i < count; ++i) {
#if ZO_WITH_BITS
    if (s->rule == ZO_RUN_BITS) {
      const zo_status status = update_bits(run, t, &tensors[i], saturated);
      if (status != ZO_OK) return status;
      continue;
    }
#endif
    const zo_status status =
        zo_update_s8(&tensors[i], size.distribution, NULL, queries, t->queries, saturated);
    if (status != ZO_OK) return status;
  }
  t->mean_square = write_mean_square(mean_square);
  leave_update(run, report);
  return ZO_OK;
}
