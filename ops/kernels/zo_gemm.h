/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Products of patches and filters: the inner loops of CONV_2D and FULLY_CONNECTED.
 *
 * A row is the patch of inputs that one output position looks at. It lies in memory in steps of a
 * few neighbouring values, wherever the image has them: the same distances for every row. Columns
 * are output channels.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_GEMM_H_
#define TFLM_ZO_OPS_KERNELS_ZO_GEMM_H_

#include <stddef.h>

#include "ops/kernels/zo_output.h"

/* Columns come in blocks of so many in packed filters. */
enum { kZoColumns = 16 };

/* How a kernel takes rows and filters. */
typedef struct zo_gemm_layout {
  int32_t step; /* values of a row in a step: 4 bytes or 2 of int16 */
  bool wide;    /* rows are int16, x - zero point; else bytes, x ^ flip */
  uint8_t flip; /* 0x80 if a kernel takes unsigned bytes, x + 128 */
} zo_gemm_layout;

typedef struct zo_gemm {
  const uint8_t* rows;   /* memory that rows lie in; steps of the last one may reach past its values */
  const int32_t* row_at; /* bytes from there to each row, [row_count] */
  int32_t row_count;
  const int32_t* step_at; /* bytes from the beginning of a row to each step, [steps] */
  int32_t steps;
  const int8_t* filters; /* packed: [blocks, steps, kZoColumns, layout.step] */
  int32_t columns;
  const zo_output* output;
  int8_t* y; /* [row_count, columns] */
} zo_gemm;

typedef void zo_gemm_function(const zo_gemm* gemm);

/* Packs steps of up to kZoColumns filters: [steps, kZoColumns, layout.step]. Missing columns, and
 * missing values of the last step, are 0 or stay unchanged.
 *   from  the first of `values` neighbouring values of the first filter
 *   next  values from there to those of the next filter */
typedef void zo_pack_function(const int8_t* from, ptrdiff_t next, int32_t columns, int32_t values, int8_t* to);

/* For steps of two values and of four. */
zo_pack_function zo_pack_twos, zo_pack_fours;

#endif /* TFLM_ZO_OPS_KERNELS_ZO_GEMM_H_ */
