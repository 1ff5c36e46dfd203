/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Errors and gradients of whole layers by a desktop's loops (ops/kernels). They give the bits of the
 * portable forms, which call them; firmware has none.
 */
#ifndef TFLM_ZO_OPS_CORE_NODES_ZO_LAYER_LOOPS_H_
#define TFLM_ZO_OPS_CORE_NODES_ZO_LAYER_LOOPS_H_

#include "ops/core/nodes/zo_node_update.h"
#include "ops/core/zo_workers.h"

/* --- Errors of a layer's inputs ------------------------------------------------------------------ */

/* int16 values of a layer's turned weights, and bytes of memory of zo_loops_backprop, aligned like a size_t. */
size_t zo_loops_turned_values(const zo_node_layer* layer);
size_t zo_loops_backprop_bytes(const zo_node_layer* layer);

/* Weights in the order in which zo_loops_backprop reads them: once for all samples. The memory is zo_loops_backprop's.
 */
void zo_loops_turn(const zo_node_layer* layer, const int8_t* weights, int16_t* turned, void* memory);

/* zo_conv_backprop_s8 of checked arguments. */
void zo_loops_backprop(const zo_node_layer* layer, const int16_t* turned, uint32_t norm, const int16_t* scales,
                       const int16_t* output_errors, int8_t exponent, int16_t* input_errors, int8_t* input_exponent,
                       void* memory);

/* Memory for these loops, or null; zo_loops_free takes both. */
void* zo_loops_allocate(size_t bytes);
void zo_loops_free(void* memory);

/* --- Gradients of all channels ------------------------------------------------------------------- */

typedef struct zo_gradients zo_gradients;

/* The gradients of a layer by given errors, which are shifted by shift - exponent. Workers divide samples.
 * Null if the loops do not support the layer or the evidence, or there is no memory. */
zo_gradients* zo_gradients_form(const zo_node_layer* layer, const zo_node_evidence* evidence, int32_t shift,
                                const zo_workers* workers);
void zo_gradients_free(zo_gradients* gradients);

/* Writes G of a channel, unless `row` is null, and the sum of its errors; returns that of their magnitudes. */
int32_t zo_gradients_row(const zo_gradients* gradients, uint32_t channel, int32_t* row, int32_t* sum);

#endif /* TFLM_ZO_OPS_CORE_NODES_ZO_LAYER_LOOPS_H_ */
