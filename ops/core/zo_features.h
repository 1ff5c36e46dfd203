/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * What a firmware can leave out of the core, to save flash: everything is in unless a macro is
 * defined as 0. ZO_FEATURES=0 leaves out all that is listed here; ZO_FEATURES=0 with, say,
 * ZO_WITH_MASKS=1 keeps one. Every source of a program must be compiled with the same values. A
 * file of papers/ is included where its macro is not 0 alone, so a program without it need not have
 * it.
 *
 * What remains does the same, bit for bit: perturbation and updates of 8 and 16 bits along random
 * signs, replay, cross-entropy, the control unit with its rules, constant and linear rates. What is
 * left out is refused where it is asked for: ZO_ERROR_DISTRIBUTION for a distribution,
 * ZO_ERROR_OPTIONS for a model that has masks, multipliers or another loss, ZO_ERROR_ARGUMENT for a
 * tensor or a run's settings.
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
/* Directions with memory and int16 tensors, which need ZO_GAUSSIAN, too (papers/zo_chain.h). */
#ifndef ZO_WITH_CHAINS
#define ZO_WITH_CHAINS ZO_FEATURES
#endif
/* The distribution ZO_SPARSE_UNIFORM, and the stages of its p_zero. */
#ifndef ZO_WITH_SPARSE_UNIFORM
#define ZO_WITH_SPARSE_UNIFORM ZO_FEATURES
#endif
/* The distribution ZO_COORDINATE (papers/zo_coordinate.h). */
#ifndef ZO_WITH_COORDINATE
#define ZO_WITH_COORDINATE ZO_FEATURES
#endif
/* Tensors of which not all weights are trained. */
#ifndef ZO_WITH_MASKS
#define ZO_WITH_MASKS ZO_FEATURES
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
/* The loss ZO_LOSS_FLOOR_LOG2 (papers/zo_floor_log2_loss.h). */
#ifndef ZO_WITH_FLOOR_LOG2
#define ZO_WITH_FLOOR_LOG2 ZO_FEATURES
#endif
/* Updates of a few bits: ZO_NODE_BITS and ZO_RUN_BITS (papers/zo_update_bits.h). */
#ifndef ZO_WITH_BITS
#define ZO_WITH_BITS ZO_FEATURES
#endif
/* Exact tails beyond dense layers that feed each other (backward/, run/zo_node_backward.h): the
 * trainer of firmware alone asks for them, and a program without them need not have these files. */
#ifndef ZO_WITH_BACKWARD
#define ZO_WITH_BACKWARD ZO_FEATURES
#endif
/* Sharpness-aware steps. */
#ifndef ZO_WITH_SHARPNESS
#define ZO_WITH_SHARPNESS ZO_FEATURES
#endif
/* Rates that follow a cosine or fall in steps, or depend on the number of weights. */
#ifndef ZO_WITH_SCHEDULES
#define ZO_WITH_SCHEDULES ZO_FEATURES
#endif
/* Faster loops for updates (zo_step_signs.h, zo_step_gaussian.h), replays (zo_replay_tile.h),
 * perturbations of two terms and Gaussian ones (zo_add_gaussian.h), beside the plain ones that
 * serve everything. Replays take 2 KiB of stack on cores without DSP, perturbations of two terms
 * 1 KiB, on Cortex-M55 none, Gaussian directions 256 bytes. */
#ifndef ZO_WITH_FAST_STEPS
#define ZO_WITH_FAST_STEPS ZO_FEATURES
#endif

/* Which distribution it is, of those that the build has: constants where there is no choice. */
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
  return (!ZO_WITH_GAUSSIAN && !ZO_WITH_SPARSE_UNIFORM && !ZO_WITH_COORDINATE) ||
         distribution.kind == ZO_RADEMACHER;
}

/* A tensor's mask and multipliers, of a build that has such things. */
static inline const uint8_t* zo_mask_of(const zo_tensor* tensor) {
  return ZO_WITH_MASKS ? tensor->mask : NULL;
}
static inline const int32_t* zo_multiplier_of(const zo_tensor* tensor) {
  return ZO_WITH_MULTIPLIERS ? tensor->multiplier : NULL;
}

/* Whether a tensor is of biases, in a build that trains any; number of its weights or biases. */
static inline int zo_is_of_biases(const zo_tensor* tensor) {
  return ZO_WITH_BIASES && tensor->type == ZO_TENSOR_INT32;
}
static inline uint32_t zo_values(const zo_tensor* tensor) {
  return zo_is_of_biases(tensor) ? tensor->size / (uint32_t)sizeof(int32_t) : tensor->size;
}

/* Whether the build can do with a tensor what it asks for. What is behind the last tile of the
 * largest tensor is a number of 32 bits, too. */
static inline int zo_tensor_is_supported(const zo_tensor* tensor) {
  return tensor->size <= INT32_MAX && tensor->type <= ZO_TENSOR_INT32 &&
         zo_mask_of(tensor) == tensor->mask && zo_multiplier_of(tensor) == tensor->multiplier &&
         (ZO_WITH_CHAINS || tensor->type != ZO_TENSOR_INT16) &&
         (ZO_WITH_BIASES || tensor->type != ZO_TENSOR_INT32);
}

#endif /* TFLM_ZO_OPS_CORE_ZO_FEATURES_H_ */
