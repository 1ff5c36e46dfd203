/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_X86_H_
#define TFLM_ZO_OPS_KERNELS_ZO_X86_H_

#include "ops/kernels/zo_add.h"
#include "ops/kernels/zo_dense.h"
#include "ops/kernels/zo_depthwise.h"
#include "ops/kernels/zo_dots.h"
#include "ops/kernels/zo_gemm.h"
#include "ops/kernels/zo_weights.h"

/* Kernels for AVX2: rows in steps of 2 int16, blocks of 16 lanes. */
zo_gemm_function zo_avx2_gemm;
zo_dots_function zo_avx2_dots;
zo_depthwise_function zo_avx2_depthwise;
zo_add_function zo_avx2_add;
extern const zo_weight_loops zo_avx2_weights;

/* Kernels for AVX-512 with BW, VL and VNNI: rows in steps of 4 unsigned bytes, blocks of 32 lanes.
 */
zo_gemm_function zo_avx512_gemm;
zo_pack_function zo_avx512_pack;
zo_dots_function zo_avx512_dots;
zo_dense_function zo_avx512_dense;
zo_depthwise_function zo_avx512_depthwise;
zo_add_function zo_avx512_add;
extern const zo_weight_loops zo_avx512_weights;

#endif /* TFLM_ZO_OPS_KERNELS_ZO_X86_H_ */
