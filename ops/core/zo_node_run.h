/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The control unit of node perturbation: a state machine as in zo_control.h, that says what to do
 * next until a run is done, with a buffer for what it keeps of a minibatch.
 *
 * The network is cut into segments so that each layer that carries nodes (a *task*) has its
 * input, its output and its nodes at a boundary. Whoever owns the interpreter runs this loop:
 *
 *   zo_node_run_init(&run, &settings, tasks);
 *   while (zo_node_run_next(&run, &request) == ZO_OK) {
 *     switch (request.action) {
 *       case ZO_NODE_FORWARD:  feed samples zo_sample_at(&settings, request.first_sample + i);
 *                              run from segment request.start_segment with losses;
 *                              for each task that zo_node_run_is_active():
 *                                zo_node_run_capture(&run, task, input, output, nodes);
 *                              (exact heads: zo_node_run_capture_head(), from the logits; then
 *                              for each task before one, backwards: zo_node_run_backpropagate())
 *                              zo_node_run_report(&run, losses, batch, &report);       break;
 *       case ZO_NODE_QUERY:    zo_node_run_perturb(&run, input of request.start_segment);
 *                              run from there with losses;
 *                              zo_node_run_report(&run, losses, batch, &report);       break;
 *       case ZO_NODE_UPDATE:   zo_node_run_update(&run, tensor of request.task, scratch, NULL,
 *                                                 &report);                             break;
 *       case ZO_NODE_DONE:     return;
 *     }
 *     if (report.step_done) append report's record to the log;
 *   }
 *
 * A step runs each part of the minibatch forward once, then the suffix of every task twice per
 * query, and in the end moves every task's weights: all tasks are estimated at the same weights.
 * The unperturbed losses are the step's mean loss.
 *
 * Every decision is made in integers from settings and losses. Unlike a weight perturbation's, an
 * update depends on activations: the run is repeated by its data, not by its seeds alone.
 */
#ifndef TFLM_ZO_OPS_CORE_ZO_NODE_RUN_H_
#define TFLM_ZO_OPS_CORE_ZO_NODE_RUN_H_

#include "zo_control.h"
#include "zo_fc_backprop.h"
#include "zo_loss.h"
#include "zo_node_update.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One layer that a run trains. The caller owns the buffers; nothing of them need survive a step.
 */
typedef struct zo_node_task {
  zo_node_layer layer;
  uint32_t start_segment; /* first segment that reads the nodes */
  uint32_t queries;       /* 1..ZO_MAX_QUERIES; 0: trained by its exact gradient */
  uint32_t following;     /* queries == 0: the task, trained likewise, that reads these nodes and
                             through which errors come back; ZO_NODE_HEAD: the loss does */
  uint32_t mu;            /* perturbation of a node, 1..127 LSB */
  uint32_t rate;          /* factor of the run's rate, unit 2^-16, < 2^24 */
  uint32_t period;        /* the task takes part in every period-th step, 1..ZO_NODE_PERIOD_MAX */
  int8_t* inputs;         /* [minibatch, zo_node_input_bytes] */
  uint8_t* routes;        /* [minibatch, zo_node_route_bytes] */
  int8_t* nodes;          /* [batch, zo_node_count] */
  int32_t* differences;   /* [queries, minibatch]; exact: null */
  int16_t* errors;        /* exact: [minibatch, zo_node_count], else null */
  zo_scale mean_square;   /* see zo_node_step; part of the run's state */
} zo_node_task;

/* Settings of a run. `common` are those of zo_control.h: run_seed, steps, samples, batch, parts,
 * rate (RMS of a layer's step, LSB), final_rate, schedule, warmup_steps, decay, decay_steps are
 * used; the others must be 0 but for queries, distribution (any valid ones), and clip: the largest
 * step of a weight, unit 2^-16 LSB, 1..2^24. */
typedef struct zo_node_settings {
  zo_control_settings common;
  uint32_t tasks;         /* 1..ZO_NODE_TASKS_MAX */
  uint32_t first_segment; /* of a forward pass: what is before it does not change */
} zo_node_settings;

#define ZO_NODE_TASKS_MAX 64

/* Nothing follows a task but the loss. */
#define ZO_NODE_HEAD UINT32_C(0xFFFFFFFF)
#define ZO_NODE_PERIOD_MAX 65535u

typedef enum zo_node_action {
  ZO_NODE_DONE = 0,
  ZO_NODE_FORWARD = 1,
  ZO_NODE_QUERY = 2,
  ZO_NODE_UPDATE = 3,
} zo_node_action;

typedef struct zo_node_request {
  uint32_t action;
  uint32_t step;
  uint32_t task;          /* QUERY, UPDATE */
  uint32_t start_segment; /* FORWARD, QUERY */
  uint32_t first_sample;  /* position of the part's first sample; see zo_sample_at */
} zo_node_request;

/* The state of a run. Read what you like, write nothing but the tasks' buffers. */
typedef struct zo_node_run {
  zo_node_settings settings;
  zo_node_task* tasks;
  uint32_t step;
  uint32_t part;
  uint32_t stage; /* zo_node_action in progress */
  uint32_t task;
  uint32_t query;
  uint32_t side; /* 0: +mu, 1: -mu */
  int64_t total; /* sum of the unperturbed losses of the step's parts so far */
} zo_node_run;

/* Checks the settings and sets the state before the first step; the caller keeps `tasks`, one of
 * which at least has period 1.
 * Errors: ZO_ERROR_ARGUMENT, ZO_ERROR_QUERIES, ZO_ERROR_DISTRIBUTION. */
zo_status zo_node_run_init(zo_node_run* run, const zo_node_settings* settings, zo_node_task* tasks);

/* The state after `step` whole steps; the tasks' mean_square and all weights are the caller's to
 * restore. */
zo_status zo_node_run_resume(zo_node_run* run, uint32_t step);

/* Says what to do next; the same again until it is reported or updated. */
zo_status zo_node_run_next(const zo_node_run* run, zo_node_request* request);

/* Whether a task takes part in the step in progress. */
int zo_node_run_is_active(const zo_node_run* run, uint32_t task);

/* After a FORWARD's invoke, for an active task: keeps the pairs and the nodes of the part.
 *
 *   inputs   int8 [batch, zo_node_input_bytes], the layer's input
 *   outputs  int8 [batch, out_h, out_w, out_c], its output before any pooling
 *   nodes    int8 [batch, zo_node_count]; for ZO_NODES_PLAIN the outputs */
zo_status zo_node_run_capture(zo_node_run* run, uint32_t task, const int8_t* inputs,
                              const int8_t* outputs, const int8_t* nodes);

/* The same for an exact head, a layer whose outputs are the logits of a softmax cross-entropy:
 * instead of asking for queries, its errors are taken to be softmax - one-hot, 0 where an output
 * is clamped.
 * Errors: as zo_cross_entropy_error_s8. */
zo_status zo_node_run_capture_head(zo_node_run* run, uint32_t task, const int8_t* inputs,
                                   const int8_t* logits, zo_logit_scale scale,
                                   const int32_t* labels);

/* Writes the perturbed nodes of the QUERY in progress, int8 [batch, zo_node_count]. */
zo_status zo_node_run_perturb(const zo_node_run* run, int8_t* nodes);

/* After both have been captured, for a task with `following`: its errors from those of the task
 * that follows, a FULLY_CONNECTED layer with one input per node (zo_fc_backprop_s8).
 *
 *   weights  int8 [outputs, inputs] of the task that follows
 *   scales   int16 [outputs] or null, scratch: int32 [inputs], see zo_fc_backprop_s8 */
zo_status zo_node_run_backpropagate(zo_node_run* run, uint32_t task, const int8_t* weights,
                                    const int16_t* scales, int32_t* scratch);

/* Takes the losses of a FORWARD or QUERY, int32 [batch]. */
zo_status zo_node_run_report(zo_node_run* run, const int32_t* losses, uint32_t count,
                             zo_report* report);

/* Moves the weights of the task in progress.
 *   scratch  see zo_node_update_s8; saturated may be null */
zo_status zo_node_run_update(zo_node_run* run, const zo_tensor* tensor, int32_t* scratch,
                             uint32_t* saturated, zo_report* report);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_ZO_NODE_RUN_H_ */
