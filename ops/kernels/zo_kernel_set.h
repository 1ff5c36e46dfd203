/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of the int8 layers and of their weights' updates, one set of them for each
 * instruction set.
 *
 * All sets give the same bits: sums are integers, and their requantization is TFLM's.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_KERNEL_SET_H_
#define TFLM_ZO_OPS_KERNELS_ZO_KERNEL_SET_H_

#include "ops/kernels/zo_add.h"
#include "ops/kernels/zo_dense.h"
#include "ops/kernels/zo_depthwise.h"
#include "ops/kernels/zo_dots.h"
#include "ops/kernels/zo_gemm.h"
#include "ops/kernels/zo_layers.h"
#include "ops/kernels/zo_weights.h"

typedef struct zo_kernel_set {
  const char* name;
  zo_gemm_layout layout; /* of gemm and dots */
  zo_gemm_function* gemm;
  zo_pack_function* pack; /* filters for gemm */
  zo_dots_function* dots;
  zo_dense_function* dense; /* null: gemm, with packed filters, is as fast */
  int32_t depthwise_lanes;  /* channels at a time */
  zo_depthwise_function* depthwise;
  zo_add_function* add;
  const zo_weight_loops* weights; /* null: the core's portable ones */
  const zo_layers* layers;
} zo_kernel_set;

/* The set of this name, or the best of this machine if name is null; null if there is none of
 * this name, or the machine cannot run it. Names: zo_kernel_set_names. */
const zo_kernel_set* zo_kernel_set_of(const char* name);

/* Names of all sets of this build, the machine's or not, ended by null. */
extern const char* const zo_kernel_set_names[];

#endif /* TFLM_ZO_OPS_KERNELS_ZO_KERNEL_SET_H_ */
