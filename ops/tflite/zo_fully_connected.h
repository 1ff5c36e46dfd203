/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * FULLY_CONNECTED on int8 with TFLM's arithmetic, for the desktop modes that promise TFLM's bits.
 *
 * LiteRT's kernels do not keep that promise for this one op: the reference kernel requantizes in
 * float, the optimized one rounds ties its own way; both differ from TFLM's fixed-point rounding by
 * one LSB in about one output of a thousand, which is enough to part two training runs.
 */
#ifndef TFLM_ZO_OPS_TFLITE_ZO_FULLY_CONNECTED_H_
#define TFLM_ZO_OPS_TFLITE_ZO_FULLY_CONNECTED_H_

#include "ops/abi/tflite_c_api.h"

typedef struct zo_fully_connected zo_fully_connected;

/* Whether this kernel computes the op: all int8, default weights layout, a fused activation
 * that clamps. */
bool zo_fully_connected_supports(const TfLiteContext* context, const TfLiteIntArray* inputs,
                                 const TfLiteIntArray* outputs,
                                 const TfLiteFullyConnectedParams* params);

/* Shapes, multipliers and clamps of such an op; null where it is none (any more), a shape does not
 * fit or memory is short. Tensors are those of `context`, found again at each run. */
zo_fully_connected* zo_fully_connected_create(const TfLiteContext* context,
                                              const TfLiteIntArray* inputs,
                                              const TfLiteIntArray* outputs,
                                              const TfLiteFullyConnectedParams* params);

/* False where a tensor has no data; nothing is written then. */
bool zo_fully_connected_run(const zo_fully_connected* self, TfLiteContext* context);

/* `context` is null where the tensors are gone already. */
void zo_fully_connected_free(zo_fully_connected* self, TfLiteContext* context);

#endif /* TFLM_ZO_OPS_TFLITE_ZO_FULLY_CONNECTED_H_ */
