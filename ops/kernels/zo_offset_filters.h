/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * FULLY_CONNECTED whose filters have a zero point that is not 0. TFLM computes it, no converter
 * makes it: slow, and the same on every machine.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_OFFSET_FILTERS_H_
#define TFLM_ZO_OPS_KERNELS_ZO_OFFSET_FILTERS_H_

#include "ops/kernels/zo_layer.h"

typedef struct zo_offset_filters zo_offset_filters;

/* The layer's window is one of a pixel. Null if there is no memory. */
zo_offset_filters* zo_offset_filters_create(const zo_layer* layer, int32_t filter_zero_point);

/* As zo_conv_begin. */
void zo_offset_filters_begin(zo_offset_filters* self, const int8_t* filters, const int32_t* bias);

/* As zo_conv_run. */
void zo_offset_filters_run(const zo_offset_filters* self, const int8_t* x, zo_share share, int8_t* y);

void zo_offset_filters_free(zo_offset_filters* self);

#endif /* TFLM_ZO_OPS_KERNELS_ZO_OFFSET_FILTERS_H_ */
