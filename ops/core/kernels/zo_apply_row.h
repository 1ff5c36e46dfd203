/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Steps that lie in memory, applied to a row of weights: the rules of zo_update.h. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_H_

#include "ops/core/zo_target.h"
#include "ops/core/zo_types.h"

/* Whether the core has vectors for rows, of words with the DSP extension or of MVE. Loops take more
 * registers than code that is not optimized leaves. */
#if ZO_DSP && defined(__OPTIMIZE__)
#define ZO_ROW_VECTORS 1
#else
#define ZO_ROW_VECTORS 0
#endif

/* Rows that vectors move together by the same steps. */
#if ZO_ROW_VECTORS && ZO_MVE
#define ZO_ROWS_TOGETHER 4u
#else
#define ZO_ROWS_TOGETHER 1u
#endif

/* The same with fractions. */
#if ZO_ROWS_TOGETHER > 1u && !defined(__OPTIMIZE_SIZE__)
#define ZO_ROWS_FRACTIONS 1
#else
#define ZO_ROWS_FRACTIONS 0
#endif

/* Moves weights by steps, rounded by the words after `stream`, four weights a word, and returns how
 * many were clipped.
 *
 *   weights  int8 [count]
 *   steps    int32 [count], unit 2^-16 LSB, |step| <= largest <= 2^30
 *   stream   state of a random stream; on return, that after the words of all fours of weights */
uint32_t zo_apply_row_8(int8_t* weights, const int32_t* steps, uint32_t count, int32_t limit, int32_t largest,
                        uint32_t* stream);

#if ZO_ROWS_TOGETHER > 1u
/* The same of ZO_ROWS_TOGETHER rows, which lie in one tensor, by the same steps.
 *
 *   weights  int8, of the first row in memory
 *   apart    [ZO_ROWS_TOGETHER] bytes from there to each of the rows
 *   streams  [ZO_ROWS_TOGETHER] */
uint32_t zo_apply_rows_8(int8_t* weights, const uint32_t* apart, const int32_t* steps, uint32_t count, int32_t limit,
                         int32_t largest, uint32_t* streams);
#endif

/* zo_apply_row_8 of weights with fractions, which need no random stream. */
uint32_t zo_apply_row_16(int8_t* weights, int8_t* fraction, const int32_t* steps, uint32_t count, int32_t limit,
                         int32_t largest);

#if ZO_ROWS_FRACTIONS
/* The same of ZO_ROWS_TOGETHER rows; weights and fractions are as many bytes apart. */
uint32_t zo_apply_rows_16(int8_t* weights, int8_t* fraction, const uint32_t* apart, const int32_t* steps,
                          uint32_t count, int32_t limit, int32_t largest);
#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_H_ */
