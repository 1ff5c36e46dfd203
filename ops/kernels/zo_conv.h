/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * CONV_2D and FULLY_CONNECTED, which is one with images of a pixel.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_CONV_H_
#define TFLM_ZO_OPS_KERNELS_ZO_CONV_H_

#include "ops/kernels/zo_kernel_set.h"
#include "ops/kernels/zo_layer.h"

typedef struct zo_conv zo_conv;

/* Null if the layer is too large for 32-bit distances, or there is no memory. */
zo_conv* zo_conv_create(const zo_kernel_set* kernels, const zo_layer* layer);

/* Takes filters and bias of the next runs.
 *   filters  [out channels, filter height, filter width, channels], packed if they differ from the
 *            last ones; their place and values stay the same until the runs are over
 *   bias     [out channels], or null for zeros */
void zo_conv_begin(zo_conv* conv, const int8_t* filters, const int32_t* bias);

/* Computes a share of the samples; several threads may, at the same time, each with a number of its
 * own.
 *   x  [samples, height, width, channels]
 *   y  [samples, out height, out width, out channels] */
void zo_conv_run(const zo_conv* conv, const int8_t* x, zo_share share, int8_t* y);

void zo_conv_free(zo_conv* conv);

#endif /* TFLM_ZO_OPS_KERNELS_ZO_CONV_H_ */
