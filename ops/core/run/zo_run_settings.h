/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Settings of a run, and the rate, stage and distribution of a step. Both control units
 * (zo_control.h, zo_node_run.h) have them.
 */
#ifndef TFLM_ZO_OPS_CORE_RUN_ZO_RUN_SETTINGS_H_
#define TFLM_ZO_OPS_CORE_RUN_ZO_RUN_SETTINGS_H_

#include "ops/core/run/zo_step_size.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zo_schedule {
  ZO_SCHEDULE_CONSTANT = 0,
  ZO_SCHEDULE_LINEAR = 1, /* from rate to final_rate at the last step */
  ZO_SCHEDULE_COSINE = 2, /* the same along half a cosine */
  ZO_SCHEDULE_STEP = 3,   /* times decay / 2^16 every decay_steps steps, not below final_rate */
} zo_schedule;

/* Settings of a run: every field is an integer, so they are the same everywhere. */
typedef struct zo_control_settings {
  uint32_t run_seed;
  uint32_t steps;   /* of the whole run, >= 1 */
  uint32_t samples; /* in the training set, >= 1 */
  uint32_t batch;   /* samples per invoke, >= 1 */
  uint32_t parts;   /* invokes per evaluation of the loss; minibatch = batch * parts */
  uint32_t queries; /* per step, 1..ZO_MAX_QUERIES */
  uint32_t estimator;
  uint32_t rule;
  zo_distribution distribution;
  uint32_t rate;       /* unit 2^-16, see zo_step_rule */
  uint32_t final_rate; /* unit 2^-16 */
  uint32_t schedule;
  uint32_t warmup_steps;    /* the rate rises linearly over so many first steps */
  uint32_t decay;           /* ZO_SCHEDULE_STEP, unit 2^-16, <= 2^16 */
  uint32_t decay_steps;     /* ZO_SCHEDULE_STEP, >= 1 */
  uint32_t clip;            /* of |d| (gradient rule, unit 2^-16 nat) or |d| / rms (normalized rule,
                               unit 2^-16); 0: none */
  uint32_t gradient_norm;   /* d, number of weights: the rate times N Q / (N Q + d - 1), N the
                               minibatch (Poor Man's Training, sec. 3.1.2); 0: off */
  uint32_t blocks;          /* 0: every step moves the whole model; else step t moves block t % blocks,
                               whose first segment is block_segments[.]; at most ZO_BLOCKS_MAX */
  uint32_t stage_steps[2];  /* steps at which a second and a third stage begin; 0: none */
  uint32_t stage_p_zero[2]; /* ZO_SPARSE_UNIFORM: p_zero of the second and of the third stage
                               (ElasticZO-INT8, sec. 5.1.1) */
} zo_control_settings;

/* The settings of a run. Firmware generated for weight perturbation has one run, so ZO_RUN_SETTINGS
 * replaces the argument: the compiler then removes constants and excluded cases. */
static inline const zo_control_settings* zo_settings_of(const zo_control_settings* settings) {
#ifdef ZO_RUN_SETTINGS
  static const zo_control_settings run = ZO_RUN_SETTINGS;
  (void)settings;
  return &run;
#else
  return settings;
#endif
}

/* Queries of a step, a constant if the build has room for one; samples of a step. */
static inline uint32_t zo_queries_of(const zo_control_settings* settings) {
  return ZO_MAX_QUERIES == 1 ? 1u : zo_settings_of(settings)->queries;
}
/* Blocks that steps move in turns, in a build that has such steps. */
static inline uint32_t zo_blocks_of(const zo_control_settings* settings) {
  return ZO_WITH_BLOCKS ? zo_settings_of(settings)->blocks : 0u;
}
static inline uint32_t zo_minibatch_of(const zo_control_settings* settings) {
  return zo_settings_of(settings)->batch * zo_settings_of(settings)->parts; /* times the steps below 2^32 */
}

/* Errors: ZO_ERROR_ARGUMENT, ZO_ERROR_QUERIES, ZO_ERROR_DISTRIBUTION if no run has such
 * settings. */
zo_status zo_control_settings_check(const zo_control_settings* settings);

/* Stage of a step, 0..2. */
static inline uint32_t zo_control_stage(const zo_control_settings* settings, uint32_t step) {
  const zo_control_settings* s = zo_settings_of(settings);
  uint32_t stage = 0;
  for (uint32_t i = 0; i < 2u; ++i) {
    if (s->stage_steps[i] > 0u && step >= s->stage_steps[i]) stage = i + 1u;
  }
  return stage;
}

/* Distribution of a step's perturbation; inline, so that a constant stays one. */
zo_distribution zo_control_distribution(const zo_control_settings* settings, uint32_t step);
static inline zo_distribution zo_distribution_of_step(const zo_control_settings* settings, uint32_t step) {
  const zo_control_settings* s = zo_settings_of(settings);
  /* By field: of a copy of the whole compilers do not see that it is a constant. */
  zo_distribution distribution;
  distribution.kind = s->distribution.kind;
  distribution.p_zero = s->distribution.p_zero;
  distribution.mu = s->distribution.mu;
  if (ZO_WITH_SPARSE_UNIFORM && zo_is_sparse_uniform(distribution)) {
    const uint32_t stage = zo_control_stage(s, step);
    if (stage > 0u) distribution.p_zero = (uint8_t)s->stage_p_zero[stage - 1u];
  }
  return distribution;
}

/* How far ZO_SCHEDULE_STEP has come: each decay is rounded, so a rate follows from the one before
 * it alone. Zero before the first step. */
typedef struct zo_decays {
  uint32_t count;
  uint32_t rate; /* after so many, final_rate not looked at; not read if there is none */
} zo_decays;

/* Those of a run, which has them if there are such schedules. */
#if ZO_WITH_SCHEDULES
#define ZO_DECAYS_OF(run) (&(run)->decays)
#else
#define ZO_DECAYS_OF(run) NULL
#endif

/* Rate of a step, warm-up, schedule and gradient norm included, unit 2^-16.
 *   decays  of the last call with these settings, moved on; if the step comes before that
 * call's, or without (null), all decays are done again */
uint32_t zo_control_rate(const zo_control_settings* settings, uint32_t step, zo_decays* decays);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_RUN_ZO_RUN_SETTINGS_H_ */
