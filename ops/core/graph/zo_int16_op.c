/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/graph/zo_int16_fully_connected.h"
#include "ops/core/graph/zo_op.h"
#include "ops/core/zo_little_endian.h"

/* Node inputs. */
enum { kInput = 0, kWeights = 1, kBias = 2, kInt16Fraction = 3 };
/* Node outputs, as a zo_buffer_source counts them. */
enum { kOutput = -1 };

/* Layout of the options. */
enum {
  kInt16Version = 0,
  kInt16Flags = 1,
  kOptionInputZeroPoint = 2,
  kOptionOutputZeroPoint = 3,
  kOptionOutputMin = 4,
  kOptionOutputMax = 5,
  kOptionFirst = 8,
  kOptionUnits = 12,
  kOptionMultipliers = 16,
};

typedef struct int16_op {
  zo_int16_fully_connected layer;
  const int8_t* input;
  int8_t* output;
  uint32_t samples;
} int16_op;

static int multipliers_are_valid(const zo_int16_fully_connected* layer) {
  for (uint32_t i = 0; i < layer->multiplier_count; ++i) {
    const uint8_t* at = layer->multipliers + (size_t)i * ZO_INT16_MULTIPLIER_BYTES;
    const int32_t shift = (int8_t)at[4];
    if ((at[3] & 0x80u) != 0u || shift < -31 || shift > 30) return 0;
  }
  return 1;
}

static zo_status read_int16_op(const uint8_t* options, size_t length, zo_buffer_source source, void* context,
                               int16_op* op) {
  if (options == NULL || length < kOptionMultipliers || options[kInt16Version] != ZO_OPTIONS_VERSION) {
    return ZO_ERROR_OPTIONS;
  }
  zo_int16_fully_connected* layer = &op->layer;
  layer->units = zo_read_u32(options + kOptionUnits);
  layer->multipliers = options + kOptionMultipliers;
  layer->multiplier_count = (options[kInt16Flags] & ZO_OPTION_PER_CHANNEL) != 0u ? layer->units : 1u;
  layer->input_zero_point = (int8_t)options[kOptionInputZeroPoint];
  layer->output_zero_point = (int8_t)options[kOptionOutputZeroPoint];
  layer->output_min = (int8_t)options[kOptionOutputMin];
  layer->output_max = (int8_t)options[kOptionOutputMax];
  const uint64_t multiplier_bytes = ZO_INT16_MULTIPLIER_BYTES * (uint64_t)layer->multiplier_count;
  if (layer->units == 0u || length - kOptionMultipliers != multiplier_bytes || layer->output_min > layer->output_max ||
      !multipliers_are_valid(layer)) {
    return ZO_ERROR_OPTIONS;
  }
  if (source == NULL) return ZO_ERROR_ARGUMENT;
  const zo_buffer input = source(context, kInput);
  const zo_buffer weights = source(context, kWeights);
  const zo_buffer bias = source(context, kBias);
  const zo_buffer fraction = source(context, kInt16Fraction);
  const zo_buffer output = source(context, kOutput);
  const uint32_t first = zo_read_u32(options + kOptionFirst);
  layer->depth = weights.bytes / layer->units;
  if (layer->depth == 0u || layer->depth > ZO_INT16_DEPTH_MAX || weights.bytes % layer->units != 0u ||
      weights.bytes == ZO_NO_SIZE || fraction.bytes == ZO_NO_SIZE || first > fraction.bytes ||
      weights.bytes > fraction.bytes - first ||
      (bias.bytes != 0u && bias.bytes != sizeof(int32_t) * (uint64_t)layer->units)) {
    return ZO_ERROR_ARGUMENT;
  }
  op->samples = input.bytes / layer->depth;
  if (op->samples == 0u || input.bytes % layer->depth != 0u || input.bytes == ZO_NO_SIZE ||
      output.bytes != (uint64_t)op->samples * layer->units) {
    return ZO_ERROR_ARGUMENT;
  }
  op->input = (const int8_t*)input.data;
  op->output = (int8_t*)output.data;
  layer->weights = (const int8_t*)weights.data;
  layer->bias = bias.bytes != 0u ? (const int32_t*)bias.data : NULL;
  /* Null at Prepare, when only sizes count; null plus an offset would be undefined. */
  const int8_t* fractions = (const int8_t*)fraction.data;
  layer->fraction = fractions != NULL ? fractions + first : NULL;
  return ZO_OK;
}

zo_status zo_int16_op_check(const uint8_t* options, size_t length, zo_buffer_source source, void* context) {
  int16_op op;
  return read_int16_op(options, length, source, context, &op);
}

zo_status zo_int16_op_run(const uint8_t* options, size_t length, zo_buffer_source source, void* context) {
  int16_op op;
  const zo_status status = read_int16_op(options, length, source, context, &op);
  if (status != ZO_OK) return status;
  if (op.input == NULL || op.output == NULL || op.layer.weights == NULL || op.layer.fraction == NULL ||
      (op.layer.bias == NULL && source(context, kBias).bytes != 0u)) {
    return ZO_ERROR_ARGUMENT;
  }
  for (uint32_t sample = 0; sample < op.samples; ++sample) {
    zo_int16_fully_connected_s8(&op.layer, op.input + (size_t)sample * op.layer.depth,
                                op.output + (size_t)sample * op.layer.units);
  }
  return ZO_OK;
}
