/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions: CONV_2D and FULLY_CONNECTED, which is one with images of a pixel, and DEPTHWISE_CONV_2D.
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

/* DEPTHWISE_CONV_2D. */
typedef struct zo_depthwise_conv zo_depthwise_conv;

/* The layer's channels are a multiple of its window's. Null as above. */
zo_depthwise_conv* zo_depthwise_conv_create(const zo_kernel_set* kernels, const zo_layer* layer);

/* As zo_conv_begin, with filters [filter height, filter width, out channels]. */
void zo_depthwise_conv_begin(zo_depthwise_conv* conv, const int8_t* filters, const int32_t* bias);

/* As zo_conv_run. */
void zo_depthwise_conv_run(const zo_depthwise_conv* conv, const int8_t* x, zo_share share, int8_t* y);

void zo_depthwise_conv_free(zo_depthwise_conv* conv);

/* FULLY_CONNECTED whose filters have a zero point that is not 0. TFLM computes it, no converter
 * makes it: slow, and the same on every machine. */
typedef struct zo_offset_filters zo_offset_filters;

/* The layer's window is one of a pixel. Null if there is no memory. */
zo_offset_filters* zo_offset_filters_create(const zo_layer* layer, int32_t filter_zero_point);

/* As zo_conv_begin. */
void zo_offset_filters_begin(zo_offset_filters* self, const int8_t* filters, const int32_t* bias);

/* As zo_conv_run. */
void zo_offset_filters_run(const zo_offset_filters* self, const int8_t* x, zo_share share, int8_t* y);

void zo_offset_filters_free(zo_offset_filters* self);

#endif /* TFLM_ZO_OPS_KERNELS_ZO_CONV_H_ */
