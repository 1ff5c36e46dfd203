/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The loss op, over fake tensors. */
#include "core_test.h"

static zo_status loss_op(graph* g) {
  const zo_status status = zo_loss_op_check(g->options, g->options_bytes, graph_source, g);
  return status != ZO_OK ? status : zo_loss_op_run(g->options, g->options_bytes, graph_source, g);
}

void test_loss_op(void) {
  enum { kSamples = 3, kElements = 7 };
  static const size_t label_bytes[4] = {4 * kSamples, 4 * kSamples * kElements, kSamples * kElements, 4 * kSamples};
  const zo_logit_scale scale = scale_of(0.1);
  for (uint32_t kind = 0; kind < 4; ++kind) {
    graph g;
    memset(&g, 0, sizeof g);
    set_options(&g, 20);
    g.options[0] = ZO_OPTIONS_VERSION;
    g.options[1] = (uint8_t)kind;
    put_u32(g.options + 4, kElements);
    put_u32(g.options + 8, kind == 1 ? (uint32_t)-5 : 0);
    put_u32(g.options + 12, kind == 2 ? UINT32_C(1) << 30 : scale.scale_log2e);
    put_u32(g.options + 16, kind == 2 ? 25 : scale.scale);
    array logits = make_array(kSamples * kElements, 0, 127);
    int32_t *flags = (int32_t*)allocate(4), *losses = (int32_t*)allocate(4 * kSamples);
    int32_t expected[kSamples];
    void* label = allocate(label_bytes[kind]);
    memset(label, 0, label_bytes[kind]);
    g.inputs[0] = buffer_of(logits.at, logits.size);
    g.inputs[1] = buffer_of(label, label_bytes[kind]);
    g.inputs[2] = buffer_of(flags, 4);
    g.input_count = 3;
    g.outputs[0] = buffer_of(losses, 4 * kSamples);

    *flags = (int32_t)(ZO_COMMAND_MAGIC | ZO_FLAG_LOSS);
    CHECK(loss_op(&g) == ZO_OK);
    zo_status status;
    if (kind == 0) {
      status = zo_cross_entropy_s8(logits.at, kSamples, 1, kElements, scale, (int32_t*)label, expected);
    } else if (kind == 1) {
      status = zo_binary_cross_entropy_s8(logits.at, kSamples, kElements, -5, scale, (int32_t*)label, expected);
    } else if (kind == 3) {
      status = zo_floor_log2_loss_s8(logits.at, kSamples, kElements, scale, (int32_t*)label, expected);
    } else {
      status = zo_mean_squared_error_s8(logits.at, (int8_t*)label, kSamples, kElements, INT32_C(1) << 30, 25, expected);
    }
    CHECK(status == ZO_OK && memcmp(losses, expected, sizeof expected) == 0);

    *flags = 0; /* a plain inference: zeros for every label */
    memset(label, 0x7F, label_bytes[kind]);
    CHECK(loss_op(&g) == ZO_OK);
    CHECK(losses[0] == 0 && losses[kSamples - 1] == 0);
    *flags = (int32_t)(ZO_COMMAND_MAGIC | ZO_FLAG_LOSS);
    losses[0] = 77;
    CHECK(loss_op(&g) == (kind == 2 ? ZO_OK : ZO_ERROR_LABEL));
    CHECK(kind == 2 || losses[0] == 77);

    g.outputs[0].data = NULL; /* nobody reads the losses */
    CHECK(loss_op(&g) == ZO_OK);
    g.outputs[0].data = losses;

    for (int32_t i = 0; i < 3; ++i) {
      const zo_buffer old = g.inputs[i];
      g.inputs[i].bytes = i == 2 ? 0 : old.bytes - 1;
      CHECK(loss_op(&g) == ZO_ERROR_ARGUMENT);
      g.inputs[i] = old;
    }
    g.outputs[0].bytes -= 4;
    CHECK(loss_op(&g) == ZO_ERROR_ARGUMENT);
    g.outputs[0].bytes += 4;
    for (size_t cut = 0; cut < 20; ++cut) {
      char* copy = (char*)allocate(cut > 0 ? cut : 1);
      memcpy(copy, g.options, cut);
      CHECK(zo_loss_op_check((uint8_t*)copy, cut, graph_source, &g) == ZO_ERROR_OPTIONS);
      free(copy);
    }
    memset(label, 0, label_bytes[kind]);
    for (int round = 0; round < ROUNDS(3000); ++round) {
      const size_t at = random_below(20);
      const uint8_t old = g.options[at];
      g.options[at] = (uint8_t)random_u32();
      (void)loss_op(&g);
      g.options[at] = old;
    }
    CHECK(zo_loss_op_check(NULL, 20, graph_source, &g) == ZO_ERROR_OPTIONS);
    CHECK(zo_loss_op_check(g.options, 20, NULL, &g) == ZO_ERROR_ARGUMENT);
    free(logits.memory);
    free(flags);
    free(losses);
    free(label);
    free(g.options_memory);
  }
}

/* A sum has its parts behind the other options. */
void test_sum_loss_op(void) {
  enum { kSamples = 2, kElements = 6, kBytes = 20 + ZO_PART_BYTES };
  graph g;
  memset(&g, 0, sizeof g);
  set_options(&g, kBytes);
  g.options[0] = ZO_OPTIONS_VERSION;
  g.options[1] = ZO_LOSS_SUM;
  g.options[2] = 1;
  put_u32(g.options + 4, kElements);
  uint8_t* part = g.options + 20;
  part[0] = ZO_LOSS_MEAN_SQUARED_ERROR;
  part[4] = 1;
  put_u32(part + 16, 1);
  put_u32(part + 20, kElements);
  array outputs = make_array(kSamples * kElements, 0, 127);
  int32_t *flags = (int32_t*)allocate(4), *losses = (int32_t*)allocate(4 * kSamples);
  int32_t* labels = (int32_t*)allocate(4 * kSamples * kElements);
  for (uint32_t i = 0; i < kSamples * kElements; ++i) labels[i] = 128 + outputs.at[i];
  labels[0] ^= 1; /* one level beside the first output */
  g.inputs[0] = buffer_of(outputs.at, outputs.size);
  g.inputs[1] = buffer_of(labels, 4 * kSamples * kElements);
  g.inputs[2] = buffer_of(flags, 4);
  g.input_count = 3;
  g.outputs[0] = buffer_of(losses, 4 * kSamples);
  *flags = (int32_t)(ZO_COMMAND_MAGIC | ZO_FLAG_LOSS);
  part[2] = 255;
  CHECK(loss_op(&g) == ZO_OK && losses[0] == 1 && losses[1] == 0);
  g.inputs[1] = buffer_of(labels, 4 * kSamples);
  CHECK(loss_op(&g) == ZO_ERROR_ARGUMENT);
  g.inputs[1] = buffer_of(labels, 4 * kSamples * kElements);
  g.options[2] = 2; /* more parts than there are bytes */
  CHECK(loss_op(&g) == ZO_ERROR_OPTIONS);
  g.options[2] = 1;
  put_u32(part + 20, kElements + 1); /* beyond the outputs */
  CHECK(loss_op(&g) != ZO_OK);
  free(g.options_memory);
  free(outputs.memory);
  free(flags);
  free(losses);
  free(labels);
}
