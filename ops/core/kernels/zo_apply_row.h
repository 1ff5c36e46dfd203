/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Steps that lie in memory, applied to a row of 8-bit weights whose rounding stream is its own: the
 * rule of zo_update.h. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_H_

#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Moves weights by steps, rounded by the words after `stream`, four weights a word, and returns how
 * many were clipped.
 *
 *   weights  int8 [count], within +-limit
 *   steps    int32 [count], unit 2^-16 LSB, |step| <= largest <= 2^24
 *   stream   state of a random stream; on return, that after the words of all fours of weights */
uint32_t zo_apply_row_8(int8_t* weights, const int32_t* steps, uint32_t count, int32_t limit,
                        int32_t largest, uint32_t* stream);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_H_ */
