/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_DEPTHWISE_CONV_H_
#define TFLM_ZO_OPS_KERNELS_ZO_DEPTHWISE_CONV_H_

#include "ops/kernels/zo_kernel_set.h"
#include "ops/kernels/zo_layer.h"

/* DEPTHWISE_CONV_2D. */
typedef struct zo_depthwise_conv zo_depthwise_conv;

/* The layer's channels are a multiple of its window's. Null if it is too large for 32-bit
 * distances, or there is no memory. */
zo_depthwise_conv* zo_depthwise_conv_create(const zo_kernel_set* kernels, const zo_layer* layer);

/* As zo_conv_begin, with filters [filter height, filter width, out channels]. */
void zo_depthwise_conv_begin(zo_depthwise_conv* conv, const int8_t* filters, const int32_t* bias);

/* As zo_conv_run. */
void zo_depthwise_conv_run(const zo_depthwise_conv* conv, const int8_t* x, zo_share share, int8_t* y);

void zo_depthwise_conv_free(zo_depthwise_conv* conv);

#endif /* TFLM_ZO_OPS_KERNELS_ZO_DEPTHWISE_CONV_H_ */
