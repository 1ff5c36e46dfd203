/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The weight tasks of zo_node_run.h: tensors that are perturbed together. */
#include <string.h>

#include "ops/core/run/zo_node_parts.h"
#include "ops/core/weights/zo_perturb.h"
#include "ops/core/weights/zo_update.h"
#include "ops/core/zo_features.h"

#if ZO_WITH_BITS
#include "ops/core/papers/zo_update_bits.h"
#endif

#if ZO_WITH_WEIGHT_TASKS
/* How a query's last evaluation is undone. */
static int32_t undoing_factor(const zo_node_run* run) {
  return zo_is_one_sided(run->settings.common.estimator) ? -1 : 1;
}

/* The terms from the present weights to the wanted ones: one pass. */
static uint32_t list_perturbation(const zo_node_run* run, zo_perturb_term* terms) {
  uint32_t count = 0;
  if (run->stage == ZO_NODE_QUERY && run->side == 1u) {
    terms[count].seed = zo_node_seed(run, run->task, run->query);
    terms[count++].k = -2;
    return count;
  }
  const uint32_t last = run->stage == ZO_NODE_RESTORE ? run->query + 1u : run->query;
  if (last > 0u) {
    terms[count].seed = zo_node_seed(run, run->task, last - 1u);
    terms[count++].k = undoing_factor(run);
  }
  if (run->stage == ZO_NODE_QUERY) {
    terms[count].seed = zo_node_seed(run, run->task, run->query);
    terms[count++].k = 1;
  }
  return count;
}

/* Whether a weight task's tensors can be moved: all of them are seen to before the first moves. */
static zo_status check_task_tensors(const zo_node_run* run, const zo_tensor* tensors, uint32_t count) {
  if (tensors == NULL || count == 0u) return ZO_ERROR_ARGUMENT;
  const zo_distribution distribution = zo_control_distribution(&run->settings.common, run->step);
  const int in_bits = run->settings.common.rule == ZO_RUN_BITS;
  for (uint32_t i = 0; i < count; ++i) {
    const zo_tensor* t = &tensors[i];
    if (!zo_update_takes(t) || (in_bits && t->fraction != NULL)) {
      return ZO_ERROR_ARGUMENT;
    }
    if (zo_distribution_reach(distribution) > 127 - t->limit) return ZO_ERROR_HEADROOM;
  }
  return ZO_OK;
}

zo_status zo_node_run_perturb_weights(zo_node_run* run, const zo_tensor* tensors, uint32_t count) {
  if (run == NULL || (run->stage != ZO_NODE_QUERY && run->stage != ZO_NODE_RESTORE) ||
      !zo_task_is_weights(&run->tasks[run->task])) {
    return ZO_ERROR_ARGUMENT;
  }
  if (run->moved != 0u) return ZO_OK;
  const zo_status checked = check_task_tensors(run, tensors, count);
  if (checked != ZO_OK) return checked;
  const zo_distribution distribution = zo_control_distribution(&run->settings.common, run->step);
  zo_perturb_term terms[2];
  const uint32_t used = list_perturbation(run, terms);
  const zo_perturb_terms all = {terms, used};
  for (uint32_t i = 0; i < count; ++i) {
    const zo_status status = zo_perturb_s8(&tensors[i], distribution, &all);
    if (status != ZO_OK) return status;
  }
  if (run->stage == ZO_NODE_RESTORE) {
    zo_node_enter_queries(run, run->task + 1u);
  } else {
    run->moved = 1;
  }
  return ZO_OK;
}

/* The term that undoes the perturbation in force. */
static uint32_t list_undoing(const zo_node_run* run, zo_perturb_term* term) {
  uint32_t query = run->query;
  term->k = undoing_factor(run);
  if (run->stage == ZO_NODE_QUERY && (run->moved != 0u ? run->side == 0u : run->side == 1u)) {
    term->k = -1; /* w + z */
  } else if (run->stage == ZO_NODE_QUERY && run->moved == 0u) {
    if (query == 0u) return 0;
    query -= 1u; /* the last evaluation of the query before */
  }
  term->seed = zo_node_seed(run, run->task, query);
  return 1;
}
#endif

zo_status zo_node_run_abandon(zo_node_run* run, const zo_tensor* tensors, uint32_t count) {
  if (run == NULL) return ZO_ERROR_ARGUMENT;
  if (run->stage == ZO_NODE_UPDATE) return ZO_ERROR_ORDER;
#if ZO_WITH_WEIGHT_TASKS
  zo_perturb_term term;
  const uint32_t moved =
      (run->stage == ZO_NODE_QUERY || run->stage == ZO_NODE_RESTORE) && zo_task_is_weights(&run->tasks[run->task])
          ? list_undoing(run, &term)
          : 0u;
  const zo_status checked = moved != 0u ? check_task_tensors(run, tensors, count) : ZO_OK;
  if (checked != ZO_OK) return checked;
#else
  (void)tensors;
  (void)count;
#endif
  run->part = run->task = run->query = run->side = run->moved = 0;
#if ZO_WITH_WEIGHT_TASKS
  const zo_distribution distribution = zo_control_distribution(&run->settings.common, run->step);
  const zo_perturb_terms terms = {&term, 1};
  for (uint32_t i = 0; moved != 0u && i < count; ++i) {
    const zo_status status = zo_perturb_s8(&tensors[i], distribution, &terms);
    if (status != ZO_OK) return status;
  }
#endif
  run->stage = ZO_NODE_FORWARD;
  return ZO_OK;
}

#if ZO_WITH_WEIGHT_TASKS
static int64_t read_mean_square(zo_scale s) { return (int64_t)((uint64_t)(uint32_t)s.exponent << 32 | s.mantissa); }

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
static zo_status update_bits(const zo_node_run* run, const zo_node_task* task, const zo_tensor* tensor,
                             uint32_t* saturated) {
  const zo_distribution distribution = zo_control_distribution(&run->settings.common, run->step);
  for (uint32_t q = 0; q < task->queries; ++q) {
    const int64_t sum = task->sums[q];
    const zo_status status = zo_update_bits_s8(tensor, distribution, zo_node_seed(run, run->task, q),
                                               sum > 0 ? 1 : (sum < 0 ? -1 : 0), run->settings.weight_bits, saturated);
    if (status != ZO_OK) return status;
  }
  return ZO_OK;
}

#endif

zo_status zo_node_run_update_weights(zo_node_run* run, const zo_tensor* tensors, uint32_t count, uint32_t* saturated,
                                     zo_report* report) {
  if (run == NULL || report == NULL || run->stage != ZO_NODE_UPDATE || !zo_task_is_weights(&run->tasks[run->task])) {
    return ZO_ERROR_ARGUMENT;
  }
  const zo_status checked = check_task_tensors(run, tensors, count);
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
      s->rule == ZO_STEP_GRADIENT ? gained_rate(zo_node_task_rate(run, t), t->gain) : zo_node_task_rate(run, t);
  int64_t mean_square = read_mean_square(t->mean_square);
  for (uint32_t q = 0; q < t->queries; ++q) {
    mean_square = zo_track_mean_square(mean_square, zo_mean_difference(t->sums[q], (int64_t)zo_node_minibatch(run)));
  }
  zo_query queries[ZO_MAX_QUERIES];
  for (uint32_t q = 0; q < t->queries; ++q) {
    queries[q].seed = zo_node_seed(run, run->task, q);
    queries[q].coefficient =
        zo_step_coefficient(&size, zo_mean_difference(t->sums[q], (int64_t)zo_node_minibatch(run)), rate, mean_square);
  }
  for (uint32_t i = 0; i < count; ++i) {
#if ZO_WITH_BITS
    if (s->rule == ZO_RUN_BITS) {
      const zo_status status = update_bits(run, t, &tensors[i], saturated);
      if (status != ZO_OK) return status;
      continue;
    }
#endif
    const zo_status status = zo_update_s8(&tensors[i], size.distribution, NULL, queries, t->queries, saturated);
    if (status != ZO_OK) return status;
  }
  t->mean_square = write_mean_square(mean_square);
  zo_node_leave_update(run, report);
  return ZO_OK;
}
#endif
