/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_ARM_H_
#define TFLM_ZO_OPS_KERNELS_ZO_ARM_H_

#include "ops/kernels/zo_add.h"
#include "ops/kernels/zo_depthwise.h"
#include "ops/kernels/zo_dots.h"
#include "ops/kernels/zo_gemm.h"
#include "ops/kernels/zo_weights.h"

/* Kernels for every 64-bit Arm: rows in steps of 2 int16, blocks of 8 lanes. */
zo_gemm_function zo_neon_gemm;
zo_dots_function zo_neon_dots;
zo_depthwise_function zo_neon_depthwise;
zo_add_function zo_neon_add;
extern const zo_weight_loops zo_neon_weights;

/* With dot products (Armv8.2): rows in steps of 4 signed bytes. */
zo_gemm_function zo_neon_dot_gemm;
zo_dots_function zo_neon_dot_dots;

#endif /* TFLM_ZO_OPS_KERNELS_ZO_ARM_H_ */
