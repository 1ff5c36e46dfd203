/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Steps that lie in memory, applied to a row of weights: the rules of zo_update.h. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_H_

#include "ops/core/zo_types.h"

/* Whether the core has vectors for rows, of words with the DSP extension or of MVE; define
 * ZO_PORTABLE to do without. */
#if defined(__ARM_FEATURE_SIMD32) && defined(__ARMEL__) && !defined(ZO_PORTABLE)
#define ZO_ROW_VECTORS 1
#else
#define ZO_ROW_VECTORS 0
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Moves weights by steps, rounded by the words after `stream`, four weights a word, and returns how
 * many were clipped.
 *
 *   weights  int8 [count]
 *   steps    int32 [count], unit 2^-16 LSB, |step| <= largest <= 2^30
 *   stream   state of a random stream; on return, that after the words of all fours of weights */
uint32_t zo_apply_row_8(int8_t* weights, const int32_t* steps, uint32_t count, int32_t limit,
                        int32_t largest, uint32_t* stream);

/* The same with fractions, which need no random stream. */
uint32_t zo_apply_row_16(int8_t* weights, int8_t* fraction, const int32_t* steps, uint32_t count,
                         int32_t limit, int32_t largest);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_H_ */
