/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Parts that a firmware can exclude from the core, to save flash: everything is included unless a
 * macro is defined as 0. ZO_FEATURES=0 excludes every part below; ZO_FEATURES=0 with, say,
 * ZO_WITH_BIASES=1 keeps one. Every source of a program must be compiled with the same values. A
 * file of papers/ is only included if its macro is not 0, so a program without it need not have it.
 *
 * The rest does the same, bit for bit: perturbation and updates of 8 and 16 bits along random
 * signs, replay, cross-entropy, the control unit with normalized steps of two-sided differences,
 * constant and linear rates; node perturbation of dense layers and convolutions. Requests for
 * excluded parts are refused: ZO_ERROR_DISTRIBUTION for a distribution, ZO_ERROR_OPTIONS for a
 * model that has multipliers or another loss, ZO_ERROR_ARGUMENT for a tensor or a run's
 * settings.
 */
#ifndef TFLM_ZO_OPS_CORE_ZO_FEATURES_H_
#define TFLM_ZO_OPS_CORE_ZO_FEATURES_H_

#include "ops/core/zo_types.h"

#ifndef ZO_FEATURES
#define ZO_FEATURES 1
#endif

/* The distribution ZO_GAUSSIAN. */
#ifndef ZO_WITH_GAUSSIAN
#define ZO_WITH_GAUSSIAN ZO_FEATURES
#endif
/* The distribution ZO_SPARSE_UNIFORM, and the stages of its p_zero. */
#ifndef ZO_WITH_SPARSE_UNIFORM
#define ZO_WITH_SPARSE_UNIFORM ZO_FEATURES
#endif
/* The distribution ZO_COORDINATE (papers/zo_coordinate.h). */
#ifndef ZO_WITH_COORDINATE
#define ZO_WITH_COORDINATE ZO_FEATURES
#endif
/* Factors of channels' steps. */
#ifndef ZO_WITH_MULTIPLIERS
#define ZO_WITH_MULTIPLIERS ZO_FEATURES
#endif
/* Trainable biases. */
#ifndef ZO_WITH_BIASES
#define ZO_WITH_BIASES ZO_FEATURES
#endif
/* Binary cross-entropy and mean squared error. */
#ifndef ZO_WITH_OTHER_LOSSES
#define ZO_WITH_OTHER_LOSSES ZO_FEATURES
#endif
/* The loss ZO_LOSS_SUM. */
#ifndef ZO_WITH_LOSS_SUM
#define ZO_WITH_LOSS_SUM ZO_FEATURES
#endif
/* The loss ZO_LOSS_FLOOR_LOG2 (papers/zo_floor_log2_loss.h). */
#ifndef ZO_WITH_FLOOR_LOG2
#define ZO_WITH_FLOOR_LOG2 ZO_FEATURES
#endif
/* Updates of a few bits: ZO_NODE_BITS and ZO_RUN_BITS (papers/zo_update_bits.h). */
#ifndef ZO_WITH_BITS
#define ZO_WITH_BITS ZO_FEATURES
#endif
/* Exact tails of more than a head (backward/, run/zo_node_backward.h): the trainer of firmware alone
 * asks for them, and a program without them need not have these files. */
#ifndef ZO_WITH_BACKWARD
#define ZO_WITH_BACKWARD ZO_FEATURES
#endif
/* Steps along perturbed weights by a fixed gain or by the sign of the difference. */
#ifndef ZO_WITH_STEP_RULES
#define ZO_WITH_STEP_RULES ZO_FEATURES
#endif
/* The estimator ZO_ONE_SIDED. */
#ifndef ZO_WITH_ONE_SIDED
#define ZO_WITH_ONE_SIDED ZO_FEATURES
#endif
/* Of layer-wise runs: perturbed weights, exact gradients of the last layers, layers that share
 * their nodes, rules of a step but ZO_NODE_RMS, and steps of some output channels alone. */
#ifndef ZO_WITH_WEIGHT_TASKS
#define ZO_WITH_WEIGHT_TASKS ZO_FEATURES
#endif
#ifndef ZO_WITH_EXACT_TASKS
#define ZO_WITH_EXACT_TASKS ZO_FEATURES
#endif
#ifndef ZO_WITH_NODE_RULES
#define ZO_WITH_NODE_RULES ZO_FEATURES
#endif
#ifndef ZO_WITH_ROWS
#define ZO_WITH_ROWS ZO_FEATURES
#endif
/* Nodes behind a maximum pooling or a mean, and depthwise layers. */
#ifndef ZO_WITH_MAX_POOL_NODES
#define ZO_WITH_MAX_POOL_NODES ZO_FEATURES
#endif
#ifndef ZO_WITH_MEAN_NODES
#define ZO_WITH_MEAN_NODES ZO_FEATURES
#endif
#ifndef ZO_WITH_DEPTHWISE
#define ZO_WITH_DEPTHWISE ZO_FEATURES
#endif
/* Commands to the weights (graph/zo_command.h): the trainers of firmware move weights themselves.
 */
#ifndef ZO_WITH_COMMANDS
#define ZO_WITH_COMMANDS ZO_FEATURES
#endif
/* Of firmware: networks of several segments, and boundaries that enter later ones, too. */
#ifndef ZO_WITH_SEGMENTS
#define ZO_WITH_SEGMENTS ZO_FEATURES
#endif
#ifndef ZO_WITH_SKIPS
#define ZO_WITH_SKIPS ZO_FEATURES
#endif
/* Updates of 8 bits, of weights alone, and of 16 bits, of weights and fractions. */
#ifndef ZO_WITH_8_BITS
#define ZO_WITH_8_BITS 1
#endif
#ifndef ZO_WITH_16_BITS
#define ZO_WITH_16_BITS 1
#endif
/* Checks of a run's settings and tasks, of layers, of operators' options, and of whether tensors
 * and steps fit them. All of these are constants of generated firmware, which its generator has
 * passed through the same checks, or follow from them. External data are always checked: samples,
 * labels, logs, weights, commands. */
#ifndef ZO_WITH_CHECKS
#define ZO_WITH_CHECKS 1
#endif
/* Steps that move a block of the model's layers alone. */
#ifndef ZO_WITH_BLOCKS
#define ZO_WITH_BLOCKS ZO_FEATURES
#endif
/* Rates that follow a cosine or fall in steps, or depend on the number of weights. */
#ifndef ZO_WITH_SCHEDULES
#define ZO_WITH_SCHEDULES ZO_FEATURES
#endif
/* Faster loops for updates (zo_step_signs.h, zo_step_gaussian.h), replays (zo_replay_tile.h),
 * perturbations of two terms and Gaussian ones (zo_add_gaussian.h), beside the plain ones that
 * serve everything: some kilobytes, so a build for size (-Os) has them only if it asks for them.
 * Replays take 2 KiB of stack on cores without DSP, perturbations of two terms 1 KiB, on Cortex-M55
 * none, Gaussian directions 256 bytes. */
#ifndef ZO_WITH_FAST_STEPS
#ifdef __OPTIMIZE_SIZE__
#define ZO_WITH_FAST_STEPS 0
#else
#define ZO_WITH_FAST_STEPS ZO_FEATURES
#endif
#endif

/* The distribution, among those of the build: constants if there is no choice. */
static inline int zo_is_gaussian(zo_distribution distribution) {
  return ZO_WITH_GAUSSIAN && distribution.kind == ZO_GAUSSIAN;
}
static inline int zo_is_sparse_uniform(zo_distribution distribution) {
  return ZO_WITH_SPARSE_UNIFORM && distribution.kind == ZO_SPARSE_UNIFORM;
}
static inline int zo_is_coordinate(zo_distribution distribution) {
  return ZO_WITH_COORDINATE && distribution.kind == ZO_COORDINATE;
}
static inline int zo_is_rademacher(zo_distribution distribution) {
  return (!ZO_WITH_GAUSSIAN && !ZO_WITH_SPARSE_UNIFORM && !ZO_WITH_COORDINATE) || distribution.kind == ZO_RADEMACHER;
}

/* A tensor's multipliers, of a build that has such things. */
static inline const int32_t* zo_multiplier_of(const zo_tensor* tensor) {
  return ZO_WITH_MULTIPLIERS ? tensor->multiplier : NULL;
}

/* A tensor's fractions, in a build that has such tensors; whether it has any. */
static inline int8_t* zo_fraction_of(const zo_tensor* tensor) { return ZO_WITH_16_BITS ? tensor->fraction : NULL; }
static inline int zo_has_fraction(const zo_tensor* tensor) { return !ZO_WITH_8_BITS || zo_fraction_of(tensor) != NULL; }

/* Whether a tensor is of biases, in a build that trains any; number of its weights or biases. */
static inline int zo_is_of_biases(const zo_tensor* tensor) { return ZO_WITH_BIASES && tensor->type == ZO_TENSOR_INT32; }
static inline uint32_t zo_values(const zo_tensor* tensor) {
  return zo_is_of_biases(tensor) ? tensor->size / (uint32_t)sizeof(int32_t) : tensor->size;
}

/* Whether the build supports a tensor. The position behind the last tile of the largest tensor fits
 * 32 bits, too. */
static inline int zo_tensor_is_supported(const zo_tensor* tensor) {
  return tensor->size <= INT32_MAX && zo_fraction_of(tensor) == tensor->fraction &&
         zo_multiplier_of(tensor) == tensor->multiplier && (tensor->type == ZO_TENSOR_INT8 || zo_is_of_biases(tensor));
}

#endif /* TFLM_ZO_OPS_CORE_ZO_FEATURES_H_ */
