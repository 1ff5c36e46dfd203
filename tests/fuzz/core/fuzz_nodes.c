/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Geometries of layers that carry nodes, any fields at all: accepted ones have the true products as
 * sizes, and in buffers of exactly these sizes routes are made, nodes perturbed and weights moved by
 * every rule; weights stay within the limit, and a refused case moves nothing.
 */
#include "fuzz_input.h"
#include "ops/core/nodes/zo_node_layer.h"
#include "ops/core/nodes/zo_node_update.h"
#include "ops/core/zo_features.h"

/* Larger tensors are checked for their sizes alone. */
enum { kMostBytes = 1200, kMostSamples = 3, kMostQueries = 3 };

/* Sizes near the largest that there may be: only their products are looked at. */
static void take_large_layer(fuzz_input* in, zo_node_layer* l) {
  const uint32_t h = take_between(in, 0, 12), w = take_between(in, 0, 12);
  const uint32_t c = 30u - h - w < 16u ? 30u - h - w : 16u;
  l->form = take_between(in, 0, 2);
  l->in_h = l->in_w = l->in_c = l->k_h = l->k_w = 1;
  l->stride_h = l->stride_w = l->dilation_h = l->dilation_w = 1;
  l->out_h = UINT32_C(1) << h;
  l->out_w = UINT32_C(1) << w;
  l->out_c = UINT32_C(1) << c;
  if (take_flag(in)) { /* the other way round */
    l->in_h = l->out_h;
    l->in_w = l->k_w = l->out_w;
    l->in_c = l->out_c;
    l->out_h = l->out_w = l->out_c = 1;
  }
  l->pool_h = l->pool_stride_h = l->pool_stride_w = 1;
  l->pool_w = take_between(in, 1, 254);
  l->pool_pad_left = l->pool_w - 1u;
  l->node_h = l->form == ZO_NODES_MEAN ? 1u : l->out_h;
  l->node_w = l->form == ZO_NODES_MEAN ? 1u : l->out_w;
  if (l->form == ZO_NODES_MAX_POOL) l->node_w += take_u8(in);
  l->low = -129;
  l->high = 128;
}

static void take_layer(fuzz_input* in, zo_node_layer* l) {
  memset(l, 0, sizeof *l);
  if (take_u8(in) > 250u) {
    take_large_layer(in, l);
    return;
  }
  l->form = take_between(in, 0, 2);
  l->in_h = take_between(in, 1, 6);
  l->in_w = take_between(in, 1, 6);
  l->in_c = take_between(in, 1, 4);
  l->k_h = take_between(in, 1, 3);
  l->k_w = take_between(in, 1, 3);
  l->stride_h = take_between(in, 1, 3);
  l->stride_w = take_between(in, 1, 3);
  l->dilation_h = take_between(in, 1, 3);
  l->dilation_w = take_between(in, 1, 3);
  l->pad_top = take_between(in, 0, 3);
  l->pad_left = take_between(in, 0, 3);
  l->out_h = take_between(in, 1, 6);
  l->out_w = take_between(in, 1, 6);
  l->out_c = take_between(in, 1, 6);
  if (take_flag(in)) { /* a dense layer */
    l->in_h = l->in_w = l->k_h = l->k_w = l->out_h = l->out_w = 1;
    l->stride_h = l->stride_w = l->dilation_h = l->dilation_w = 1;
    l->pad_top = l->pad_left = 0;
    l->in_c = take_between(in, 1, 12);
    /* More channels than have their errors held at once, now and then. */
    l->out_c = take_u8(in) > 240u ? take_between(in, 200, 300) : take_between(in, 1, 20);
  }
  if (l->form == ZO_NODES_PLAIN) {
    l->node_h = l->out_h;
    l->node_w = l->out_w;
  } else if (l->form == ZO_NODES_MEAN) {
    l->node_h = l->node_w = 1;
  } else {
    l->node_h = take_between(in, 1, 5);
    l->node_w = take_between(in, 1, 5);
    l->pool_h = take_between(in, 1, 4);
    l->pool_w = take_between(in, 1, 4);
    l->pool_stride_h = take_between(in, 1, 3);
    l->pool_stride_w = take_between(in, 1, 3);
    l->pool_pad_top = take_between(in, 0, l->pool_h - 1u);
    l->pool_pad_left = take_between(in, 0, l->pool_w - 1u);
  }
  l->input_zero_point = (int32_t)take_between(in, 0, 255) - 128;
  l->low = -129 + (int32_t)(take_flag(in) ? take_u8(in) : 0u);
  l->high = 128 - (int32_t)(take_flag(in) ? take_u8(in) : 0u);
  const uint32_t flags = take_u8(in);
  l->unmasked = flags & 1u;
  if ((flags & 6u) == 6u) {
    l->depthwise = 1;
    l->out_c = l->in_c * (1u + (flags >> 3 & 1u));
  }
  /* Any field, any value. */
  for (uint32_t damaged = take_u8(in); damaged > 200u; damaged = take_u8(in)) {
    uint32_t* fields = (uint32_t*)l;
    fields[take_between(in, 0, sizeof *l / 4u - 1u)] = take_flag(in) ? take_any(in) : take_between(in, 1, 4096);
  }
}

static void check_sizes(const zo_node_layer* l) {
  const unsigned __int128 nodes = (unsigned __int128)l->node_h * l->node_w * l->out_c;
  const unsigned __int128 inputs = (unsigned __int128)l->in_h * l->in_w * l->in_c;
  const unsigned __int128 row = (unsigned __int128)l->k_h * l->k_w * (l->depthwise != 0u ? 1u : l->in_c);
  const unsigned __int128 bits = ((unsigned __int128)l->out_h * l->out_w + 7u) / 8u * l->out_c;
  HOLDS(zo_node_count(l) == nodes && zo_node_input_bytes(l) == inputs);
  HOLDS(zo_node_route_bytes(l) == (l->form == ZO_NODES_MEAN ? bits : nodes));
  HOLDS(zo_node_row(l) == row && zo_node_scratch_values(l) == row + l->out_c);
  HOLDS(l->depthwise == 0u || l->out_c % l->in_c == 0u);
}

static void check_perturbed(const zo_node_layer* l, const int8_t* before, const int8_t* after, uint32_t count,
                            int32_t k) {
  const int32_t most = k < 0 ? -k : k;
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t moved = after[i] - before[i];
    HOLDS(moved >= -255 && moved <= 255);
    if (l->form == ZO_NODES_MEAN) {
      HOLDS(moved >= -most && moved <= most);
    } else if (l->unmasked == 0u) {
      if (before[i] <= l->low || before[i] >= l->high) HOLDS(moved == 0);
      if (moved != 0) HOLDS(moved >= -most && moved <= most);
    }
  }
}

typedef struct world {
  zo_node_layer layer;
  uint32_t samples, queries;
  int8_t *inputs, *outputs, *nodes, *perturbed, *weights, *fraction;
  int32_t* biases;
  uint8_t* routes;
  int32_t *differences, *scratch, *multiplier;
  int16_t* errors;
  uint32_t seeds[kMostQueries];
  int8_t exponents[kMostSamples];
  uint32_t size;
} world;

static void update(fuzz_input* in, world* w) {
  const zo_node_layer* l = &w->layer;
  zo_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.limit = (int32_t)take_between(in, 1, 127);
  fill_int8(in, w->weights, w->size, tensor.limit);
  memset(w->fraction, 0, w->size);
  tensor.weights = w->weights;
  tensor.fraction = take_flag(in) ? w->fraction : NULL;
  tensor.multiplier = take_flag(in) ? w->multiplier : NULL;
  tensor.size = w->size;
  tensor.channels = l->out_c;
  tensor.inner = w->size / l->out_c;
  tensor.stream = take_u8(in);
  /* The filter, with its biases, or the biases alone: with any values, near the ends of int32. */
  zo_tensor tensors[2] = {tensor, tensor};
  const int alone = tensor.stream >= 0xC0u;
  const uint32_t count = tensor.stream >= 0x80u && !alone ? 2u : 1u;
  zo_tensor* bias = &tensors[alone ? 0 : 1];
  bias->weights = (int8_t*)w->biases;
  bias->fraction = NULL;
  bias->size = 4u * l->out_c;
  bias->inner = 1;
  bias->type = ZO_TENSOR_INT32;
  zo_node_evidence e;
  memset(&e, 0, sizeof e);
  e.samples = w->samples;
  e.inputs = w->inputs;
  e.routes = l->form == ZO_NODES_PLAIN && take_flag(in) ? NULL : w->routes;
  if (take_flag(in)) {
    e.errors = w->errors;
    e.exponents = take_flag(in) ? w->exponents : NULL;
  } else {
    e.queries = w->queries;
    e.differences = w->differences;
    e.seeds = w->seeds;
  }
  zo_node_step step;
  memset(&step, 0, sizeof step);
  step.rule = take_between(in, 0, 4);
  step.rate = take_any(in);
  step.clip = take_flag(in) ? take_any(in) : take_between(in, 1, UINT32_C(1) << 24);
  step.seed = take_u8(in);
  step.bits = take_between(in, 0, 8);
  step.rows = take_between(in, 0, l->out_c + (take_flag(in) ? 1u : 0u));
  step.gain.mantissa = take_any(in);
  step.gain.exponent = take_flag(in) ? (int32_t)take_any(in) : (int32_t)take_between(in, 0, 80) - 60;
  for (uint32_t i = take_between(in, 1, 2); i > 0u; --i) {
    if (i == 2u && take_flag(in)) {
      step.mean_square.mantissa = take_any(in);
      step.mean_square.exponent = (int32_t)take_any(in);
    }
    int8_t* before = (int8_t*)copy_of(w->weights, w->size);
    int32_t* biases = (int32_t*)copy_of(w->biases, 4u * l->out_c);
    const zo_scale square = step.mean_square;
    uint32_t saturated = 0;
    const zo_status status = zo_node_update_s8(l, tensors, count, &e, &step, w->scratch, &saturated);
    if (status != ZO_OK || alone) HOLDS(memcmp(before, w->weights, w->size) == 0);
    if (status != ZO_OK || (!alone && count == 1u)) {
      HOLDS(memcmp(biases, w->biases, 4u * l->out_c) == 0);
    }
    for (uint32_t c = 0; c < l->out_c; ++c) { /* none that is large gets larger */
      const int64_t now = w->biases[c], was = biases[c];
      HOLDS((now <= ZO_BIAS_MAX || now <= (was < 0 ? -was : was)) &&
            (now >= -ZO_BIAS_MAX || now >= (was < 0 ? was : -was)));
    }
    if (status != ZO_OK) {
      HOLDS(saturated == 0u);
      HOLDS(memcmp(&square, &step.mean_square, sizeof square) == 0);
    } else {
      HOLDS(is_within(w->weights, w->size, tensor.limit) && saturated <= w->size + l->out_c);
      HOLDS(zo_scale_is_valid(step.mean_square) || step.rule != ZO_NODE_RMS);
    }
    free(before);
    free(biases);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_input in = {data, size};
  world w;
  memset(&w, 0, sizeof w);
  zo_node_layer* l = &w.layer;
  take_layer(&in, l);
  if (zo_node_layer_check(l) != ZO_OK) {
    int8_t none[1] = {0};
    uint8_t route[1];
    HOLDS(zo_route_nodes_s8(l, 1, none, route) != ZO_OK);
    HOLDS(zo_perturb_nodes_s8(l, 1, 0, none, 1, 1, none) != ZO_OK);
    return 0;
  }
  check_sizes(l);
  const uint64_t output_bytes = (uint64_t)l->out_h * l->out_w * l->out_c;
  const uint64_t weights = (uint64_t)zo_node_row(l) * l->out_c;
  if (zo_node_input_bytes(l) > kMostBytes || zo_node_count(l) > kMostBytes || output_bytes > kMostBytes ||
      weights > kMostBytes) {
    return 0;
  }
  w.size = (uint32_t)weights;
  w.samples = take_between(&in, 1, kMostSamples);
  w.queries = take_between(&in, 1, kMostQueries);
  const uint32_t nodes = zo_node_count(l);
  w.inputs = make_int8(&in, (size_t)w.samples * zo_node_input_bytes(l), 127);
  w.outputs = make_int8(&in, (size_t)w.samples * output_bytes, 127);
  w.nodes = make_int8(&in, (size_t)w.samples * nodes, 127);
  w.perturbed = make_int8(&in, (size_t)w.samples * nodes, 0);
  w.weights = make_int8(&in, w.size, 127);
  w.fraction = make_int8(&in, w.size, 0);
  w.routes = (uint8_t*)fuzz_allocate((size_t)w.samples * zo_node_route_bytes(l));
  w.differences = (int32_t*)fuzz_allocate(sizeof(int32_t) * w.samples * w.queries);
  w.scratch = (int32_t*)fuzz_allocate(sizeof(int32_t) * zo_node_scratch_values(l));
  w.multiplier = (int32_t*)fuzz_allocate(sizeof(int32_t) * l->out_c);
  w.errors = (int16_t*)fuzz_allocate(sizeof(int16_t) * w.samples * nodes);
  fill_bytes(&in, w.multiplier, sizeof(int32_t) * l->out_c);
  w.biases = (int32_t*)copy_of(w.multiplier, sizeof(int32_t) * l->out_c);
  (void)take_u16(&in); /* keeps the stored corpus valid */
  fill_bytes(&in, w.exponents, sizeof w.exponents);
  fill_bytes(&in, w.errors, sizeof(int16_t) * w.samples * nodes);
  for (uint32_t i = 0; i < w.samples * w.queries; ++i) w.differences[i] = (int32_t)take_any(&in);
  for (uint32_t q = 0; q < w.queries; ++q) w.seeds[q] = take_u8(&in);

  HOLDS(zo_route_nodes_s8(l, w.samples, w.outputs, w.routes) == ZO_OK);
  const int32_t k = (int32_t)take_between(&in, 0, 258) - 129;
  const zo_status status = zo_perturb_nodes_s8(l, w.samples, take_u8(&in), w.nodes, take_u8(&in), k, w.perturbed);
  HOLDS((status == ZO_OK) == (k >= -127 && k <= 127));
  if (status == ZO_OK) check_perturbed(l, w.nodes, w.perturbed, w.samples * nodes, k);
  /* Routes that are none of this layer's are harmless. */
  if (take_u8(&in) > 200u) fill_bytes(&in, w.routes, (size_t)w.samples * zo_node_route_bytes(l));
  update(&in, &w);

  free(w.inputs);
  free(w.outputs);
  free(w.nodes);
  free(w.perturbed);
  free(w.weights);
  free(w.biases);
  free(w.fraction);
  free(w.routes);
  free(w.differences);
  free(w.scratch);
  free(w.multiplier);
  free(w.errors);
  return 0;
}
