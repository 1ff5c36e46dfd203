/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/*
 * Base-2 exponential and logarithm in integers, for a cross-entropy.
 */
#ifndef TFLM_ZO_OPS_CORE_MATH_ZO_LOG2_H_
#define TFLM_ZO_OPS_CORE_MATH_ZO_LOG2_H_

#include <stdint.h>

/* 2^-(x / 2^24) in units of 2^-30, x < 31 * 2^24. Relative error below 1.6e-5.
 *
 * With x = 2^24 whole + 2^18 i + rest, T_i = round(2^30 2^(-i / 64)) and
 * slope = floor((T_i - T_(i+1)) / 2^8):
 *
 *   floor((T_i - floor(slope * floor(rest / 4) / 2^8)) / 2^whole). */
uint32_t zo_exp2_negative(uint32_t x);

/* log2(x / 2^30) in units of 2^-26, x in 2^30..2^62. Absolute error below 5e-5.
 *
 * With floor(x / 2^whole) = 2^30 + 2^24 i + rest, T_i = round(2^26 log2(1 + i / 64)) and
 * slope = floor((T_(i+1) - T_i) / 2^5):
 *
 *   2^26 whole + T_i + floor(slope * floor(rest / 2^8) / 2^11). */
uint32_t zo_log2(uint64_t x);

#endif /* TFLM_ZO_OPS_CORE_MATH_ZO_LOG2_H_ */
