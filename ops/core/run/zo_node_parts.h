/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Shared code of the control unit of zo_node_run.h: zo_node_run.c has the machine and node tasks,
 * zo_node_weights.c moves the weights of weight tasks. */
#ifndef TFLM_ZO_OPS_CORE_RUN_ZO_NODE_PARTS_H_
#define TFLM_ZO_OPS_CORE_RUN_ZO_NODE_PARTS_H_

#include "ops/core/random/zo_stream.h"
#include "ops/core/run/zo_node_run.h"

/* Samples of a step. */
static inline uint32_t zo_node_minibatch(const zo_node_run* run) {
  return run->settings.common.batch * run->settings.common.parts;
}

/* The seed of a task's query in the step in progress. */
static inline uint32_t zo_node_seed(const zo_node_run* run, uint32_t task, uint32_t query) {
  return zo_query_seed(run->settings.common.run_seed, run->step, task * ZO_QUERY_SEEDS + query);
}

/* Enters the first query from `task` on, or the state behind the part's last query. */
void zo_node_enter_queries(zo_node_run* run, uint32_t task);

/* The rate of a task in this step, unit 2^-16. */
uint32_t zo_node_task_rate(zo_node_run* run, const zo_node_task* task);

/* Goes on to the update of the task before or, after the first one, to the next step. */
void zo_node_leave_update(zo_node_run* run, zo_report* report);

#endif /* TFLM_ZO_OPS_CORE_RUN_ZO_NODE_PARTS_H_ */
