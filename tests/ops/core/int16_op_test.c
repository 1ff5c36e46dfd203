/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Layers with weights of 16 bits, and the loss op, over fake tensors. */
#include "core_test.h"

void test_int16_perturbation(void) {
  for (size_t s = 0; s < SIZES; ++s) {
    const array weights = make_array(sizes[s], 1, 127), fraction = make_array(sizes[s], 3, 127);
    const array before = copy_array(&weights, 0), parts = copy_array(&fraction, 0);
    zo_tensor tensor = tensor_of(&weights, &fraction, random_below(100));
    tensor.type = ZO_TENSOR_INT16;
    for (size_t d = 0; d < DISTRIBUTIONS; ++d) {
      zo_perturb_term term = {random_u32(), 1};
      const zo_perturb_terms terms = {&term, 1, 0};
      static const int32_t factors[3] = {1, -2, 1};
      for (int i = 0; i < 3; ++i) {
        term.k = factors[i];
        CHECK(zo_perturb_s8(&tensor, distributions[d], &terms) == ZO_OK);
        digest = digest * 31u + zo_checksum(&tensor);
      }
      CHECK(same(&weights, &before) && same(&fraction, &parts));
    }
    const zo_distribution gaussian = {ZO_GAUSSIAN, 0, 40};
    const zo_perturb_term term = {3, 1};
    const zo_perturb_terms terms = {&term, 1, 0};
    zo_tensor bad = tensor;
    bad.fraction = NULL;
    CHECK(zo_perturb_s8(&bad, gaussian, &terms) == ZO_ERROR_ARGUMENT);
    bad = tensor;
    bad.limit = 128;
    CHECK(zo_perturb_s8(&bad, gaussian, &terms) == ZO_ERROR_ARGUMENT);
    CHECK(same(&weights, &before) && same(&fraction, &parts));
    free(weights.memory);
    free(fraction.memory);
    free(before.memory);
    free(parts.memory);
  }
}

static zo_status int16_op(graph* g) {
  const zo_status status = zo_int16_op_check(g->options, g->options_bytes, graph_source, g);
  return status != ZO_OK ? status : zo_int16_op_run(g->options, g->options_bytes, graph_source, g);
}

/* Every buffer ends where its memory ends, so that the sanitizers see reads beyond it. */
void test_int16_op(uint32_t per_channel, uint32_t with_bias) {
  enum { kSamples = 3, kUnits = 5, kDepth = 33, kFirst = 11, kSize = kUnits * kDepth };
  graph g;
  memset(&g, 0, sizeof g);
  set_options(&g, 16u + 5u * (per_channel ? kUnits : 1u));
  g.options[0] = ZO_OPTIONS_VERSION;
  g.options[1] = (uint8_t)(per_channel ? ZO_OPTION_PER_CHANNEL : 0u);
  g.options[2] = (uint8_t)-7;
  g.options[3] = 9;
  g.options[4] = (uint8_t)-128;
  g.options[5] = 127;
  put_u32(g.options + 8, kFirst);
  put_u32(g.options + 12, kUnits);
  for (size_t at = 16; at < g.options_bytes; at += 5) {
    put_u32(g.options + at, UINT32_C(1) << 30 | (random_u32() >> 2));
    g.options[at + 4] = (uint8_t)-9;
  }
  array x = make_array(kSamples * kDepth, 1, 127), w = make_array(kSize, 2, 127);
  array fraction = make_array(kFirst + kSize, 3, 127), y = make_array(kSamples * kUnits, 1, 0);
  int32_t* bias = (int32_t*)allocate(sizeof(int32_t) * kUnits);
  for (uint32_t u = 0; u < kUnits; ++u) bias[u] = random_between(-100000, 100000);
  g.inputs[0] = buffer_of(x.at, x.size);
  g.inputs[1] = buffer_of(w.at, w.size);
  if (with_bias) g.inputs[2] = buffer_of(bias, sizeof(int32_t) * kUnits);
  g.inputs[3] = buffer_of(fraction.at, fraction.size);
  g.input_count = 4;
  g.outputs[0] = buffer_of(y.at, y.size);
  CHECK(int16_op(&g) == ZO_OK);
  for (uint32_t i = 0; i < y.size; ++i) digest = digest * 31u + (uint8_t)y.at[i];

  /* A sum in one go, and one rounding of the rest: within an LSB of the two roundings. */
  for (uint32_t s = 0; s < kSamples; ++s) {
    for (uint32_t u = 0; u < kUnits; ++u) {
      int64_t sum = with_bias ? 256 * (int64_t)bias[u] : 0;
      for (uint32_t i = 0; i < kDepth; ++i) {
        const uint32_t at = u * kDepth + i;
        sum += (int64_t)(256 * w.at[at] + fraction.at[kFirst + at]) * (x.at[s * kDepth + i] + 7);
      }
      const uint8_t* m = g.options + 16 + (per_channel ? 5 * u : 0);
      const double real = (double)((uint32_t)m[0] | (uint32_t)m[1] << 8 | (uint32_t)m[2] << 16 | (uint32_t)m[3] << 24) /
                          2147483648.0 / 512.0;
      double expected = (double)sum / 256.0 * real + 9.0;
      expected = expected < -128.0 ? -128.0 : (expected > 127.0 ? 127.0 : expected);
      const double error = expected - (double)y.at[s * kUnits + u];
      CHECK(error > -0.51 && error < 0.51);
    }
  }

  /* Damaged options and sizes are refused, or harmless. */
  CHECK(zo_int16_op_check(NULL, 100, graph_source, &g) == ZO_ERROR_OPTIONS);
  CHECK(zo_int16_op_check(g.options, g.options_bytes, NULL, &g) == ZO_ERROR_ARGUMENT);
  for (size_t cut = 0; cut < g.options_bytes; ++cut) {
    char* copy = (char*)allocate(cut > 0 ? cut : 1);
    memcpy(copy, g.options, cut);
    CHECK(zo_int16_op_run((uint8_t*)copy, cut, graph_source, &g) == ZO_ERROR_OPTIONS);
    free(copy);
  }
  for (int round = 0; round < ROUNDS(5000); ++round) {
    const size_t at = random_below((uint32_t)g.options_bytes);
    const uint8_t old = g.options[at];
    g.options[at] = (uint8_t)random_u32();
    (void)int16_op(&g);
    g.options[at] = old;
  }
  for (int32_t i = 0; i < 4; ++i) {
    if (i == 2 && !with_bias) continue;
    const uint32_t old = g.inputs[i].bytes;
    g.inputs[i].bytes = i == 3 ? old - 1u : old + 1u;
    CHECK(int16_op(&g) == ZO_ERROR_ARGUMENT);
    g.inputs[i].bytes = old;
    void* data = g.inputs[i].data;
    g.inputs[i].data = NULL; /* as at Prepare */
    CHECK(zo_int16_op_check(g.options, g.options_bytes, graph_source, &g) == ZO_OK);
    CHECK(int16_op(&g) == ZO_ERROR_ARGUMENT);
    g.inputs[i].data = data;
  }
  g.inputs[2] = buffer_of(x.at, 0); /* a bias without a size is none */
  CHECK(int16_op(&g) == ZO_OK);
  free(g.options_memory);
  free(x.memory);
  free(w.memory);
  free(fraction.memory);
  free(y.memory);
  free(bias);
}

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
