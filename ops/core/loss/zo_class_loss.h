/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Shared code of losses of logits: the range of the scale, the checks, the largest logit. */
#ifndef TFLM_ZO_OPS_CORE_LOSS_ZO_CLASS_LOSS_H_
#define TFLM_ZO_OPS_CORE_LOSS_ZO_CLASS_LOSS_H_

#include "ops/core/loss/zo_loss.h"

/* Scales outside this range would overflow a loss, or resolve nothing. */
#define ZO_LOGIT_SCALE_MIN UINT32_C(16)         /* 2^-20 */
#define ZO_LOGIT_SCALE_MAX (UINT32_C(64) << 24) /* 64 */

static inline int zo_logit_scale_is_valid(zo_logit_scale scale) {
  return scale.scale >= ZO_LOGIT_SCALE_MIN && scale.scale <= ZO_LOGIT_SCALE_MAX && scale.scale_log2e >= scale.scale &&
         scale.scale_log2e <= 2u * ZO_LOGIT_SCALE_MAX;
}

/* Checks the arguments of a loss with one class label per sample; result is where it writes.
 *
 * Errors: ZO_ERROR_ARGUMENT, ZO_ERROR_LABEL. */
zo_status zo_check_class_loss(const int8_t* logits, uint32_t samples, uint32_t classes, zo_logit_scale scale,
                              const int32_t* labels, const void* result);

/* The largest of at least one logit. */
int32_t zo_largest_logit(const int8_t* logits, uint32_t classes);

#endif /* TFLM_ZO_OPS_CORE_LOSS_ZO_CLASS_LOSS_H_ */
