/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_PORTABLE_H_
#define TFLM_ZO_OPS_KERNELS_ZO_PORTABLE_H_

#include "ops/kernels/zo_add.h"
#include "ops/kernels/zo_depthwise.h"
#include "ops/kernels/zo_dots.h"
#include "ops/kernels/zo_gemm.h"

/* Kernels in C: rows in steps of 2 int16, blocks of 8 lanes. */
zo_gemm_function zo_portable_gemm;
zo_dots_function zo_portable_dots;
zo_depthwise_function zo_portable_depthwise;
zo_add_function zo_portable_add;

#endif /* TFLM_ZO_OPS_KERNELS_ZO_PORTABLE_H_ */
