/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The tasks of a run of node perturbation (zo_node_run.h), and its settings.
 */
#ifndef TFLM_ZO_OPS_CORE_RUN_ZO_NODE_SETTINGS_H_
#define TFLM_ZO_OPS_CORE_RUN_ZO_NODE_SETTINGS_H_

#include "ops/core/nodes/zo_node_update.h"
#include "ops/core/run/zo_run_settings.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zo_task_kind {
  ZO_TASK_NODES = 0, /* with queries == 0: exact */
  ZO_TASK_WEIGHTS = 1,
  /* A layer whose nodes are those of the last task of kind NODES before it, which has queries: both
     layers feed a sum whose nodes they are. It asks for none of its own. */
  ZO_TASK_SHARED_NODES = 2,
} zo_task_kind;

/* A task of a run. The caller owns the buffers; their content need not survive a step. Fields that
 * a kind does not use are 0. */
typedef struct zo_node_task {
  uint32_t kind;           /* zo_task_kind */
  zo_node_layer layer;     /* NODES, SHARED_NODES */
  uint32_t start_segment;  /* NODES: first segment that reads the nodes; WEIGHTS: of its tensors */
  uint32_t queries;        /* 1..ZO_MAX_QUERIES; NODES, 0: trained by its exact gradient;
                              SHARED_NODES: 0 */
  uint32_t in_tail;        /* exact, 0: a head, whose nodes the loss reads; others: a backward
                              program leads errors here (zo_node_backward.h). Such a task may share
                              its errors and exponents with others, because layers whose outputs
                              are added have the same, and nothing of its outputs is kept */
  uint32_t mu;             /* NODES, SHARED_NODES: perturbation of a node, 1..127 LSB */
  uint32_t rate;           /* factor of the run's rate, unit 2^-16, < 2^24 */
  zo_scale gain;           /* NODES, ZO_NODE_FIXED: see zo_node_step; WEIGHTS, ZO_STEP_GRADIENT: one
                              more factor of the rate, mantissa 0: 1. The exponent is within
                              +-ZO_NODE_GAIN_EXPONENT_MAX */
  uint32_t boundary_bytes; /* WEIGHTS: input of start_segment, of a sample; 0: the inputs of the
                              whole network, which stay in place */
  int8_t* inputs;          /* but for WEIGHTS: [minibatch, zo_node_input_bytes], or null if the
                              layer's biases are trained and its filter is not */
  uint8_t* routes;         /* but for WEIGHTS and in_tail: [minibatch, zo_node_route_bytes] */
  int8_t* nodes;           /* NODES but for in_tail: [batch, zo_node_count]; WEIGHTS: [batch,
                              boundary_bytes] */
  int32_t* differences;    /* NODES: [queries, minibatch]; exact: null */
  int16_t* errors;         /* exact: [minibatch, zo_node_count], else null */
  int8_t* exponents;       /* in_tail, and the head behind such tasks: [minibatch] of errors,
                              see zo_node_evidence; else null */
  int64_t* sums;           /* WEIGHTS: [queries] */
  zo_scale mean_square;    /* part of the run's state. NODES: see zo_node_step; WEIGHTS: the 64 bits
                              of zo_track_mean_square, the lower ones in the mantissa */
} zo_node_task;

static inline int zo_task_is_weights(const zo_node_task* task) {
  return ZO_WITH_WEIGHT_TASKS && task->kind == ZO_TASK_WEIGHTS;
}

static inline int zo_task_is_exact(const zo_node_task* task) {
  return ZO_WITH_EXACT_TASKS && task->kind == ZO_TASK_NODES && task->queries == 0u;
}

static inline int zo_task_is_in_tail(const zo_node_task* task) { return zo_task_is_exact(task) && task->in_tail != 0u; }

/* Settings of a run. `common` are those of zo_control.h. Of them run_seed, steps, samples, batch,
 * parts, estimator, rate (RMS of a layer's step for ZO_NODE_RMS, LSB), final_rate, schedule,
 * warmup_steps, decay, decay_steps and the stages are used, for weight tasks rule and distribution,
 * and clip: the largest step of a weight in node tasks, unit 2^-16 LSB, 1..2^24. gradient_norm
 * and blocks must be 0; queries may be any valid number. */
typedef struct zo_node_settings {
  zo_control_settings common;
  uint32_t tasks;         /* 1..ZO_NODE_TASKS_MAX */
  uint32_t first_segment; /* of a forward pass: layers before it do not change */
  uint32_t weight_clip;   /* `clip` of zo_control_settings for weight tasks */
  uint32_t rule;          /* zo_node_rule of node tasks, ZO_NODE_RMS or ZO_NODE_FIXED */
  uint32_t exact_rule;    /* of exact tasks, ZO_NODE_RMS, of errors of 1 if the loss is of classes
                             (`per_error` of zo_node_step), ZO_NODE_BITS, ZO_NODE_STANDARDIZED, or
                             ZO_RUN_RMS */
  uint32_t exact_bits[3]; /* ZO_NODE_BITS: bits of an update in each stage, 1..7; others: up to 255 */
  uint32_t weight_bits;   /* the same for ZO_RUN_BITS, in all stages */
  uint32_t rows_least;    /* shares of an exact task's outputs that are updated, unit 1 / 65535, */
  uint32_t rows_most;     /* rows_least <= rows_most <= 65535; both 0: all. Their number is
                             floor((least + loss / largest (most - least)) out_c / 65535), at
                             least 1, loss: the step's mean loss, largest: that of the steps so
                             far (dynamic sparse gradients, FQT) */
} zo_node_settings;

/* A further rule of weight tasks: each query's tensors take zo_update_bits_s8 (ElasticZO-INT8). */
#define ZO_RUN_BITS 3u

/* A further rule of exact tasks: ZO_NODE_RMS of errors as they are (ElasticZO). */
#define ZO_RUN_RMS 4u

#define ZO_NODE_TASKS_MAX 64

/* Whether a run can have such settings, and such tasks: all of zo_node_run_init's checks.
 * Errors: ZO_ERROR_ARGUMENT, ZO_ERROR_QUERIES, ZO_ERROR_DISTRIBUTION. */
zo_status zo_node_tasks_check(const zo_node_settings* settings, const zo_node_task* tasks);

/* The same for the settings alone, and for the numbers of a task that a log has. */
zo_status zo_node_settings_check(const zo_node_settings* settings);
zo_status zo_node_task_check(uint32_t kind, uint32_t queries, uint32_t mu, uint32_t rate, zo_scale gain);

/* Whether a number can be the running mean of a task of this kind. */
int zo_task_mean_square_is_valid(uint32_t kind, zo_scale mean_square);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_RUN_ZO_NODE_SETTINGS_H_ */
