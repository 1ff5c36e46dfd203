/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The control unit of node perturbation: a state machine as in zo_control.h, that says what to do
 * next until a run is done, with a buffer for what it keeps of a minibatch.
 *
 * What a run trains are *tasks*. A node task is one layer, whose outputs are perturbed; the network
 * is cut into segments so that its input, its output and its nodes are at a boundary. An exact task
 * is a dense layer at the end that takes its gradient from the logits instead. A weight task is any
 * number of tensors that are perturbed together, as in zo_control.h; it needs no boundary but the
 * one before its first tensor. Whoever owns the interpreter runs this loop:
 *
 *   zo_node_run_init(&run, &settings, tasks);
 *   while (zo_node_run_next(&run, &request) == ZO_OK) {
 *     switch (request.action) {
 *       case ZO_NODE_FORWARD:  feed samples zo_sample_at(&settings, request.first_sample + i);
 *                              run from segment request.start_segment with losses;
 *                              for each task:
 *                                zo_node_run_capture(&run, task, input, output, nodes);
 *                              (exact heads: zo_node_run_capture_head(), from the logits; then
 *                              for each task before one, backwards: zo_node_run_backpropagate();
 *                              weight tasks: zo_node_run_capture_boundary())
 *                              zo_node_run_report(&run, losses, batch, &report);       break;
 *       case ZO_NODE_QUERY:    zo_node_run_perturb(&run, input of request.start_segment);
 *                              (weight tasks: its input as it was captured, and
 *                              zo_node_run_perturb_weights(&run, tensors, count))
 *                              run from there with losses;
 *                              zo_node_run_report(&run, losses, batch, &report);       break;
 *       case ZO_NODE_RESTORE:  zo_node_run_perturb_weights(&run, tensors, count);      break;
 *       case ZO_NODE_UPDATE:   zo_node_run_update(&run, tensor of request.task, scratch, NULL,
 *                                                 &report);
 *                              (weight tasks: zo_node_run_update_weights())            break;
 *       case ZO_NODE_DONE:     return;
 *     }
 *     if (report.step_done) append report's record to the log;
 *   }
 *
 * A step runs each part of the minibatch forward once, then, for every task and query, the suffix
 * from it on: twice (antithetic: d = L(+) - L(-)) or once (one-sided: d = L(+) - L); in the end it
 * moves every task's weights: all tasks are estimated at the same weights (Poor Man's Training,
 * sec. 3.2.2). The unperturbed losses are the step's mean loss.
 *
 * A node task has differences of its own for each sample; a weight task has the sum over the
 * minibatch, from which zo_step_size.h makes coefficients.
 *
 * Every decision is made in integers from settings and losses. Unlike a weight perturbation's, an
 * update of nodes depends on activations: the run is repeated by its data, not by its seeds alone.
 */
#ifndef TFLM_ZO_OPS_CORE_RUN_ZO_NODE_RUN_H_
#define TFLM_ZO_OPS_CORE_RUN_ZO_NODE_RUN_H_

#include "ops/core/loss/zo_loss.h"
#include "ops/core/nodes/zo_fc_backprop.h"
#include "ops/core/nodes/zo_node_update.h"
#include "ops/core/run/zo_control.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zo_task_kind {
  ZO_TASK_NODES = 0, /* with queries == 0: exact */
  ZO_TASK_WEIGHTS = 1,
} zo_task_kind;

/* What a run trains. The caller owns the buffers; nothing of them need survive a step. Fields that
 * a kind has no use for are 0. */
typedef struct zo_node_task {
  uint32_t kind;           /* zo_task_kind */
  zo_node_layer layer;     /* NODES */
  uint32_t start_segment;  /* NODES: first segment that reads the nodes; WEIGHTS: of its tensors */
  uint32_t queries;        /* 1..ZO_MAX_QUERIES; NODES, 0: trained by its exact gradient */
  uint32_t following;      /* exact: the task, trained likewise, that reads these nodes and
                              through which errors come back; ZO_NODE_HEAD: the loss does */
  uint32_t mu;             /* NODES: perturbation of a node, 1..127 LSB */
  uint32_t rate;           /* factor of the run's rate, unit 2^-16, < 2^24 */
  zo_scale gain;           /* NODES, ZO_NODE_FIXED: see zo_node_step; WEIGHTS, ZO_STEP_GRADIENT: one
                              more factor of the rate, mantissa 0: 1. The exponent is within
                              +-ZO_NODE_GAIN_EXPONENT_MAX */
  uint32_t boundary_bytes; /* WEIGHTS: of a sample, of what enters start_segment; 0: the inputs of
                              the whole network, which stay where they are */
  int8_t* inputs;          /* NODES: [minibatch, zo_node_input_bytes] */
  uint8_t* routes;         /* NODES: [minibatch, zo_node_route_bytes] */
  int8_t* nodes;           /* NODES: [batch, zo_node_count]; WEIGHTS: [batch, boundary_bytes] */
  int32_t* differences;    /* NODES: [queries, minibatch]; exact: null */
  int16_t* errors;         /* exact: [minibatch, zo_node_count], else null */
  int64_t* sums;           /* WEIGHTS: [queries] */
  zo_scale mean_square;    /* part of the run's state. NODES: see zo_node_step; WEIGHTS: the 64 bits
                              of zo_track_mean_square, the lower ones in the mantissa */
} zo_node_task;

/* Settings of a run. `common` are those of zo_control.h. Of them run_seed, steps, samples, batch,
 * parts, estimator, rate (RMS of a layer's step for ZO_NODE_RMS, LSB), final_rate, schedule,
 * warmup_steps, decay, decay_steps and the stages are used, for weight tasks rule and distribution,
 * and clip: the largest step of a weight in node tasks, unit 2^-16 LSB, 1..2^24. gradient_norm,
 * blocks, momentum and sharpness must be 0; queries may be any valid number. */
typedef struct zo_node_settings {
  zo_control_settings common;
  uint32_t tasks;         /* 1..ZO_NODE_TASKS_MAX */
  uint32_t first_segment; /* of a forward pass: what is before it does not change */
  uint32_t weight_clip;   /* `clip` of zo_control_settings for weight tasks */
  uint32_t rule;          /* zo_node_rule of node tasks, ZO_NODE_RMS or ZO_NODE_FIXED */
  uint32_t exact_rule;    /* of exact tasks, ZO_NODE_RMS, ZO_NODE_BITS or ZO_NODE_STANDARDIZED */
  uint32_t bits;          /* byte 0..2: ZO_NODE_BITS, by stage; byte 3: ZO_RUN_BITS */
  uint32_t rows;          /* shares of an exact task's outputs that are updated, unit 1 / 65535: the
                             least, the most << 16; 0: all. Their number is
                             floor((least + loss / largest (most - least)) out_c / 65535), at
                             least 1, loss: the step's mean loss, largest: that of the steps so
                             far (dynamic sparse gradients, FQT) */
} zo_node_settings;

/* A further rule of weight tasks: each query's tensors take zo_update_bits_s8 (ElasticZO-INT8). */
#define ZO_RUN_BITS 3u

#define ZO_NODE_TASKS_MAX 64

/* Nothing follows a task but the loss. */
#define ZO_NODE_HEAD UINT32_C(0xFFFFFFFF)

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

/* The state of a run. Read what you like, write nothing but the tasks' buffers. */
typedef struct zo_node_run {
  zo_node_settings settings;
  zo_node_task* tasks;
  uint32_t step;
  uint32_t stage; /* zo_node_action in progress */
  uint32_t part;
  uint32_t task;
  uint32_t query;
  uint32_t side;        /* 0: +mu, 1: -mu */
  uint32_t moved;       /* QUERY of a weight task: its weights are where the query wants them */
  int64_t total;        /* sum of the unperturbed losses of the step's parts so far */
  int64_t base;         /* of the part in progress */
  int32_t largest_loss; /* of the steps so far, mean over the minibatch; part of the state */
} zo_node_run;

/* Checks the settings and sets the state before the first step; the caller keeps `tasks`.
 * Errors: ZO_ERROR_ARGUMENT, ZO_ERROR_QUERIES, ZO_ERROR_DISTRIBUTION. */
zo_status zo_node_run_init(zo_node_run* run, const zo_node_settings* settings, zo_node_task* tasks);

/* The checks of zo_node_run_init: of the settings alone, and of the numbers of a task of either
 * kind that are not geometry. */
zo_status zo_node_settings_check(const zo_node_settings* settings);
zo_status zo_node_task_check(uint32_t kind, uint32_t queries, uint32_t mu, uint32_t rate,
                             zo_scale gain);

/* Whether a number can be the running mean of a task of this kind. */
int zo_task_mean_square_is_valid(uint32_t kind, zo_scale mean_square);

/* The state after `step` whole steps, as a log has it; all weights are the caller's to restore.
 *
 *   largest_loss  of zo_node_run
 *   mean_squares  [tasks], those of zo_node_task; null: all zero, the state before the first step
 *
 * Errors: ZO_ERROR_ARGUMENT: more steps than the run has, or no state of such a run; the run is
 * untouched then. */
zo_status zo_node_run_resume(zo_node_run* run, uint32_t step, int32_t largest_loss,
                             const zo_scale* mean_squares);

/* Says what to do next; the same again until it is reported or updated. */
zo_status zo_node_run_next(const zo_node_run* run, zo_node_request* request);

/* After a FORWARD's invoke, for a node task: keeps the pairs and the nodes of the part. What
 * lies where it is kept already (inputs in the part's place in the task's, nodes in the task's)
 * stays.
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

/* The same for a weight task that has boundary_bytes: keeps what enters its first segment, int8
 * [batch, boundary_bytes]. */
zo_status zo_node_run_capture_boundary(zo_node_run* run, uint32_t task, const int8_t* boundary);

/* Writes the perturbed nodes of a node task's QUERY in progress, int8 [batch, zo_node_count]; of a
 * weight task's what was captured, int8 [batch, boundary_bytes]. */
zo_status zo_node_run_perturb(const zo_node_run* run, int8_t* nodes);

/* After both have been captured, for a task with `following`: its errors from those of the task
 * that follows, a FULLY_CONNECTED layer with one input per node (zo_fc_backprop_s8).
 *
 *   weights  int8 [outputs, inputs] of the task that follows
 *   scales   int16 [outputs] or null, scratch: int32 [inputs], see zo_fc_backprop_s8 */
zo_status zo_node_run_backpropagate(zo_node_run* run, uint32_t task, const int8_t* weights,
                                    const int16_t* scales, int32_t* scratch);

/* Moves the weights of a weight task to where the QUERY in progress wants them, or, for RESTORE,
 * back. Asked again before the report, it does nothing.
 *   tensors  [count] of the task, always the same
 * Errors: ZO_ERROR_HEAD_ROOM, ZO_ERROR_ARGUMENT (one that zo_node_run_update_weights would not take
 * included); no weight has moved then. */
zo_status zo_node_run_perturb_weights(zo_node_run* run, const zo_tensor* tensors, uint32_t count);

/* For a step that cannot go on, because a sample cannot be had or the interpreter has failed: the
 * step begins anew, with the same seeds and samples.
 *   tensors  [count] of the weight task in progress (`task`), which are moved back to where the
 *            last whole step left them; not read in other tasks
 * Errors: ZO_ERROR_ORDER where an update is in progress: it needs neither samples nor interpreter;
 * those of zo_node_run_perturb_weights. Nothing has changed then. */
zo_status zo_node_run_abandon(zo_node_run* run, const zo_tensor* tensors, uint32_t count);

/* Takes the losses of a FORWARD or QUERY, int32 [batch], none negative.
 * Errors: ZO_ERROR_ARGUMENT; ZO_ERROR_ORDER where a weight task's weights have not been moved. */
zo_status zo_node_run_report(zo_node_run* run, const int32_t* losses, uint32_t count,
                             zo_report* report);

/* Moves the weights of the node task in progress.
 *   scratch  see zo_node_update_s8; saturated may be null */
zo_status zo_node_run_update(zo_node_run* run, const zo_tensor* tensor, int32_t* scratch,
                             uint32_t* saturated, zo_report* report);

/* The same for a weight task: its tensors, as zo_update_s8 takes them; ZO_RUN_BITS takes none with
 * fractions or a mask.
 * Errors: those of zo_node_run_perturb_weights; no weight has moved then. */
zo_status zo_node_run_update_weights(zo_node_run* run, const zo_tensor* tensors, uint32_t count,
                                     uint32_t* saturated, zo_report* report);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_RUN_ZO_NODE_RUN_H_ */
