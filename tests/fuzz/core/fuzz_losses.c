/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The loss op: any options and sizes. Accepted ones give losses that are not negative, 0 for
 * samples without a label, and those of float64 if these are known.
 */
#include <math.h>

#include "fuzz_input.h"
#include "ops/core/graph/zo_op.h"
#include "ops/core/loss/zo_loss.h"
#include "ops/core/papers/zo_floor_log2_loss.h"
#include "ops/core/zo_little_endian.h"

typedef struct loss_tensors {
  zo_buffer inputs[3];
  zo_buffer output;
} loss_tensors;

static zo_buffer source(void* context, int32_t index) {
  const loss_tensors* tensors = (const loss_tensors*)context;
  const zo_buffer none = {NULL, 0};
  if (index == -1) return tensors->output;
  return index >= 0 && index < 3 ? tensors->inputs[index] : none;
}

static void check_losses(const uint8_t* options, const loss_tensors* t, uint32_t elements) {
  const int32_t* losses = (const int32_t*)t->output.data;
  const int32_t* labels = (const int32_t*)t->inputs[1].data;
  const int8_t* logits = (const int8_t*)t->inputs[0].data;
  const uint32_t samples = t->output.bytes / 4u;
  const double scale = zo_read_u32(options + 16) / 16777216.0;
  const double log2e_error = fabs(zo_read_u32(options + 12) / 16777216.0 - scale * 1.4426950408889634);
  for (uint32_t i = 0; i < samples; ++i) {
    HOLDS(losses[i] >= 0);
    if (options[1] == ZO_LOSS_CROSS_ENTROPY || options[1] == ZO_LOSS_FLOOR_LOG2) {
      HOLDS(labels[i] >= -1 && labels[i] < (int32_t)elements);
      if (labels[i] < 0) HOLDS(losses[i] == 0);
    }
    /* Both factors must be of one scale for there to be one true loss. */
    if (options[1] != ZO_LOSS_CROSS_ENTROPY || labels[i] < 0 || log2e_error > 1e-6) continue;
    double sum = 0;
    const int8_t* z = logits + (size_t)i * elements;
    for (uint32_t j = 0; j < elements; ++j) sum += exp(scale * (z[j] - z[labels[i]]));
    if (isfinite(sum)) HOLDS(fabs(log(sum) - losses[i] / 65536.0) < 1e-3 + 1e-6 * log(sum) * 256);
  }
}

static void check_errors(const int8_t* logits, uint32_t samples, uint32_t classes, zo_logit_scale scale,
                         const int32_t* labels) {
  int16_t* errors = (int16_t*)fuzz_allocate(sizeof(int16_t) * samples * classes);
  if (zo_cross_entropy_error_s8(logits, samples, classes, scale, labels, errors) == ZO_OK) {
    for (uint32_t i = 0; i < samples; ++i) {
      for (uint32_t j = 0; j < classes; ++j) {
        const int32_t e = errors[i * classes + j];
        HOLDS(e >= -32767);
        HOLDS(labels[i] >= 0 || e == 0);
        HOLDS((int32_t)j == labels[i] ? e <= 0 : e >= 0);
      }
    }
  }
  free(errors);
}

/* Along the way that an output has to go; 0 without a label. */
static void check_binary_errors(const int8_t* logits, uint32_t outputs, int32_t zero_point, zo_logit_scale scale,
                                const int32_t* labels) {
  int16_t* errors = (int16_t*)fuzz_allocate(sizeof(int16_t) * outputs);
  HOLDS(zo_binary_cross_entropy_error_s8(logits, 1, outputs, zero_point, scale, labels, errors) == ZO_OK);
  for (uint32_t j = 0; j < outputs; ++j) {
    HOLDS(errors[j] >= -32767);
    HOLDS(labels[j] < 0 ? errors[j] == 0 : labels[j] == 1 ? errors[j] <= 0 : errors[j] >= 0);
  }
  free(errors);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_input in = {data, size};
  uint8_t options[20] = {ZO_OPTIONS_VERSION};
  const uint32_t samples = take_between(&in, 1, 4);
  const uint32_t elements = take_between(&in, 1, 20);
  const uint32_t kind = take_between(&in, 0, 3);
  options[1] = (uint8_t)kind;
  zo_write_u32(options + 4, elements);
  if (take_u8(&in) < 128u) { /* factors as the rewriter makes them */
    const double scale = ldexp(1.0 + take_u8(&in) / 256.0, (int)take_between(&in, 0, 25) - 20);
    zo_write_u32(options + 12, (uint32_t)(scale * 1.4426950408889634 * 16777216.0 + 0.5));
    zo_write_u32(options + 16, (uint32_t)(scale * 16777216.0 + 0.5));
    if (kind == ZO_LOSS_MEAN_SQUARED_ERROR) {
      zo_write_u32(options + 12, UINT32_C(1) << 30 | take_u32(&in) >> 2);
      zo_write_u32(options + 16, take_between(&in, 0, 62));
    }
  } else {
    zo_write_u32(options + 12, take_any(&in));
    zo_write_u32(options + 16, take_any(&in));
  }
  if (kind == ZO_LOSS_BINARY_CROSS_ENTROPY) zo_write_u32(options + 8, take_any(&in));
  size_t length = sizeof options;
  if (take_u8(&in) > 240u) options[take_between(&in, 0, 19)] = (uint8_t)take_u8(&in);
  if (take_u8(&in) > 250u) length = take_between(&in, 0, 20);

  uint32_t label_bytes = 4u * samples;
  if (kind == ZO_LOSS_BINARY_CROSS_ENTROPY) label_bytes *= elements;
  if (kind == ZO_LOSS_MEAN_SQUARED_ERROR) label_bytes = samples * elements;
  loss_tensors t;
  const uint32_t damaged = take_u8(&in);
  t.inputs[0].bytes = samples * elements + (damaged == 1u ? 1u : 0u);
  t.inputs[1].bytes = label_bytes - (damaged == 2u ? 1u : 0u);
  t.inputs[2].bytes = damaged == 3u ? 3u : 16u;
  t.output.bytes = 4u * samples + (damaged == 4u ? 4u : 0u);
  for (uint32_t i = 0; i < 3u; ++i) {
    t.inputs[i].data = fuzz_allocate(t.inputs[i].bytes);
    fill_bytes(&in, t.inputs[i].data, t.inputs[i].bytes);
  }
  t.output.data = fuzz_allocate(t.output.bytes);
  if (kind != ZO_LOSS_MEAN_SQUARED_ERROR) {
    int32_t* labels = (int32_t*)t.inputs[1].data;
    const int32_t most = kind == ZO_LOSS_BINARY_CROSS_ENTROPY ? 1 : (int32_t)elements - 1;
    for (uint32_t i = 0; i < t.inputs[1].bytes / 4u; ++i) {
      labels[i] = (int32_t)take_between(&in, 0, (uint32_t)most + 1u) - 1;
    }
    if (take_u8(&in) > 240u && t.inputs[1].bytes >= 4u) labels[0] = (int32_t)take_any(&in);
  }
  if (t.inputs[2].bytes >= 4u) {
    const int32_t flags = (int32_t)(UINT32_C(0x5A4F0000) | (damaged != 5u));
    memcpy(t.inputs[2].data, &flags, sizeof flags);
  }
  void* absent = NULL;
  if (damaged >= 6u && damaged < 10u) { /* a tensor without memory */
    zo_buffer* b = damaged == 9u ? &t.output : &t.inputs[damaged - 6u];
    absent = b->data;
    b->data = NULL;
  }

  uint8_t* own = (uint8_t*)copy_of(options, length > 0u ? length : 1u);
  const zo_status status = zo_loss_op_check(own, length, source, &t);
  const zo_status run = zo_loss_op_run(own, length, source, &t);
  if (status != ZO_OK) HOLDS(run != ZO_OK);
  if (run == ZO_OK && absent == NULL && length == sizeof options) {
    const uint32_t now = zo_read_u32(options + 4);
    if (damaged != 5u) {
      check_losses(options, &t, now);
    }
    if (options[1] <= ZO_LOSS_CROSS_ENTROPY && damaged != 5u) {
      const zo_logit_scale scale = {zo_read_u32(options + 12), zo_read_u32(options + 16)};
      check_errors((const int8_t*)t.inputs[0].data, samples, now, scale, (const int32_t*)t.inputs[1].data);
    }
    if (options[1] == ZO_LOSS_BINARY_CROSS_ENTROPY && damaged != 5u) {
      const zo_logit_scale scale = {zo_read_u32(options + 12), zo_read_u32(options + 16)};
      check_binary_errors((const int8_t*)t.inputs[0].data, samples * elements, (int32_t)zo_read_u32(options + 8), scale,
                          (const int32_t*)t.inputs[1].data);
    }
  }
  free(own);
  free(absent);
  for (uint32_t i = 0; i < 3u; ++i) free(t.inputs[i].data);
  free(t.output.data);
  return 0;
}
