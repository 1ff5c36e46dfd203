/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The control unit of node perturbation: a state machine as in zo_control.h, that returns the next
 * request until a run is done, with a buffer for pairs, inputs and nodes of a minibatch.
 *
 * A run trains *tasks*. A node task is one layer, whose outputs are perturbed; its input, its output
 * and its nodes are at boundaries of segments. An exact task is a layer at the end that takes its
 * gradient from the logits instead. A weight task is any number of tensors that are perturbed
 * together, as in zo_control.h; it needs no boundary but the one before its first tensor. The owner
 * of the interpreter runs this loop:
 *
 *   zo_node_run_init(&run, &settings, tasks);
 *   while (zo_node_run_next(&run, &request) == ZO_OK) {
 *     switch (request.action) {
 *       case ZO_NODE_FORWARD:  feed samples zo_sample_at(&settings, request.first_sample + i);
 *                              run from segment request.start_segment with losses;
 *                              for each task:
 *                                zo_node_run_capture(&run, task, input, output, nodes);
 *                              (exact heads: zo_node_run_capture_head(), from the logits;
 *                              weight tasks: zo_node_run_capture_boundary())
 *                              for the exact tasks before a head: zo_node_run_backward()
 *                              zo_node_run_report(&run, losses, batch, &report);       break;
 *       case ZO_NODE_QUERY:    zo_node_run_perturb(&run, input of request.start_segment);
 *                              (weight tasks: its input as it was captured, and
 *                              zo_node_run_perturb_weights(&run, tensors, count))
 *                              run from there with losses;
 *                              zo_node_run_report(&run, losses, batch, &report);       break;
 *       case ZO_NODE_RESTORE:  zo_node_run_perturb_weights(&run, tensors, count);      break;
 *       case ZO_NODE_UPDATE:   zo_node_run_update(&run, tensors, count, scratch, NULL, &report);
 *                              (weight tasks: zo_node_run_update_weights())            break;
 *       case ZO_NODE_DONE:     return;
 *     }
 *     if (report.step_done) append report's record to the log;
 *   }
 *
 * A step runs each part of the minibatch forward once, then, for every task and query, the suffix
 * from it on: twice (antithetic: d = L(+) - L(-)) or once (one-sided: d = L(+) - L); in the end it
 * moves every task's weights, the last task first: all tasks are estimated at the same weights (Poor
 * Man's Training, sec. 3.2.2). The unperturbed losses are the step's mean loss. A node task has
 * differences of its own for each sample; a weight task has the sum over the minibatch, from which
 * zo_step_size.h makes coefficients. Tasks of the kind ZO_TASK_SHARED_NODES, captured alike, are
 * updated by the differences of the first layer that feeds the same sum.
 */
#ifndef TFLM_ZO_OPS_CORE_RUN_ZO_NODE_RUN_H_
#define TFLM_ZO_OPS_CORE_RUN_ZO_NODE_RUN_H_

#include "ops/core/loss/zo_loss.h"
#include "ops/core/run/zo_control.h"
#include "ops/core/run/zo_node_settings.h"
#include "ops/core/zo_workers.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zo_node_action {
  ZO_NODE_DONE = 0,
  ZO_NODE_FORWARD = 1,
  ZO_NODE_QUERY = 2,
  ZO_NODE_UPDATE = 3,
  ZO_NODE_RESTORE = 4,
} zo_node_action;

typedef struct zo_node_request {
  uint32_t action;
  uint32_t step;
  uint32_t task;          /* QUERY, UPDATE, RESTORE */
  uint32_t start_segment; /* FORWARD, QUERY */
  uint32_t first_sample;  /* position of the part's first sample; see zo_sample_at */
} zo_node_request;

/* The state of a run. All fields may be read; only the tasks' buffers may be written. */
typedef struct zo_node_run {
  zo_node_settings settings;
  zo_node_task* tasks;
  uint32_t step;
  uint32_t stage; /* zo_node_action in progress */
  uint32_t part;
  uint32_t task;
  uint32_t query;
  uint32_t side;        /* 0: +mu, 1: -mu */
  uint32_t moved;       /* QUERY of a weight task: its weights are perturbed */
  int64_t total;        /* sum of the unperturbed losses of the step's parts so far */
  int64_t base;         /* of the part in progress */
  int32_t largest_loss; /* of the steps so far, mean over the minibatch; part of the state */
#if ZO_WITH_EXACT_TASKS
  uint32_t of_classes;    /* errors of the head are p - y, unit 2^-15 */
  uint64_t error_squares; /* of the head in this step, all samples */
#endif
#if ZO_WITH_SCHEDULES
  zo_decays decays; /* of the rate of the last step */
#endif
#if ZO_KERNEL_SETS
  const zo_workers* workers; /* the caller's, set after zo_node_run_init; null: the caller alone */
#endif
} zo_node_run;

/* Checks the settings and sets the state before the first step; the caller keeps `tasks`.
 * Errors: ZO_ERROR_ARGUMENT, ZO_ERROR_QUERIES, ZO_ERROR_DISTRIBUTION. */
zo_status zo_node_run_init(zo_node_run* run, const zo_node_settings* settings, zo_node_task* tasks);

/* Sets the state after `step` complete steps, from a log. The caller restores the weights.
 *
 *   largest_loss  of zo_node_run
 *   mean_squares  [tasks], those of zo_node_task; null: all zero, the state before the first step
 *
 * Errors: ZO_ERROR_ARGUMENT: more steps than the run has, or no state of such a run. */
zo_status zo_node_run_resume(zo_node_run* run, uint32_t step, int32_t largest_loss, const zo_scale* mean_squares);

/* Returns the next request; the same again until it is reported or updated. */
zo_status zo_node_run_next(const zo_node_run* run, zo_node_request* request);

/* Called after a FORWARD's invoke, for a node task: keeps the pairs and the nodes of the part, of an
 * exact task before a head the inputs alone. Values that are already in the task's buffers (inputs at
 * the part's place, nodes) are not copied.
 *
 *   inputs   int8 [batch, zo_node_input_bytes], the layer's input; not read of a task that keeps
 *            none
 *   outputs  int8 [batch, out_h, out_w, out_c], its output before any pooling
 *   nodes    int8 [batch, zo_node_count]; for ZO_NODES_PLAIN the outputs; not read of a task that
 *            shares them */
zo_status zo_node_run_capture(zo_node_run* run, uint32_t task, const int8_t* inputs, const int8_t* outputs,
                              const int8_t* nodes);

/* The same for an exact head, a layer whose outputs the loss reads: instead of asking for queries,
 * its errors are the loss's derivative, 0 if an output is clamped. Of floor(log2) losses they
 * are those of the cross-entropy.
 *
 *   labels  as the loss takes them, of MEAN_SQUARED_ERROR its targets
 *
 * Errors: those of the functions of zo_loss.h. */
zo_status zo_node_run_capture_head(zo_node_run* run, uint32_t task, const int8_t* inputs, const int8_t* outputs,
                                   const zo_model_loss* loss, const void* labels);

/* The same for a weight task that has boundary_bytes: keeps the input of its first segment, int8
 * [batch, boundary_bytes]. */
zo_status zo_node_run_capture_boundary(zo_node_run* run, uint32_t task, const int8_t* boundary);

/* Writes the perturbed nodes of a node task's QUERY in progress, int8 [batch, zo_node_count]; of a
 * weight task the captured input, int8 [batch, boundary_bytes]. */
zo_status zo_node_run_perturb(const zo_node_run* run, int8_t* nodes);

/* Evaluations of the task in progress that are left in this part: 0 if none is, 1 for a weight
 * task. Those of a node task move no weight, so a desktop may pass all of them on in one invoke. */
uint32_t zo_node_run_evaluations(const zo_node_run* run);

/* Writes the perturbed nodes of a node task's next evaluations, int8 [count, batch, zo_node_count].
 * Their losses are reported one evaluation after the other.
 *   count  at most zo_node_run_evaluations() */
zo_status zo_node_run_perturb_all(const zo_node_run* run, uint32_t count, int8_t* nodes);

/* Perturbs the weights of a weight task for the QUERY in progress, or, for RESTORE, moves them
 * back. Called again before the report, it does nothing.
 *   tensors  [count] of the task, always the same
 * Errors: ZO_ERROR_HEADROOM, ZO_ERROR_ARGUMENT; no weight has moved then. */
zo_status zo_node_run_perturb_weights(zo_node_run* run, const zo_tensor* tensors, uint32_t count);

/* For a step that cannot go on, because a sample is unavailable or the interpreter has failed: the
 * step begins anew, with the same seeds and samples.
 *   tensors  [count] of the weight task in progress (`task`), which are restored to the last
 *            complete step; not read in other tasks
 * Errors: ZO_ERROR_ORDER if an update is in progress: it needs neither samples nor interpreter;
 * those of zo_node_run_perturb_weights. Nothing has changed then. */
zo_status zo_node_run_abandon(zo_node_run* run, const zo_tensor* tensors, uint32_t count);

/* Takes the losses of a FORWARD or QUERY, int32 [batch], none negative.
 * Errors: ZO_ERROR_ARGUMENT; ZO_ERROR_ORDER if a weight task's weights have not been moved. */
zo_status zo_node_run_report(zo_node_run* run, const int32_t* losses, uint32_t count, zo_report* report);

/* The same for the next evaluations of the task in progress, int32 [evaluations, batch].
 *   evaluations  at most zo_node_run_evaluations() */
zo_status zo_node_run_report_all(zo_node_run* run, uint32_t evaluations, const int32_t* losses, zo_report* report);

/* Moves weights, biases or both of the node task in progress.
 *   tensors, count, scratch  see zo_node_update_s8; saturated may be null
 * Errors: those of zo_node_update_s8; nothing has moved then. */
zo_status zo_node_run_update(zo_node_run* run, const zo_tensor* tensors, uint32_t count, int32_t* scratch,
                             uint32_t* saturated, zo_report* report);

/* The same for a weight task: its tensors, as zo_update_s8 takes them; ZO_RUN_BITS takes none with
 * fractions.
 * Errors: those of zo_node_run_perturb_weights; no weight has moved then. */
zo_status zo_node_run_update_weights(zo_node_run* run, const zo_tensor* tensors, uint32_t count, uint32_t* saturated,
                                     zo_report* report);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_RUN_ZO_NODE_RUN_H_ */
