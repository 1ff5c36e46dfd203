/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Nodes of a layer, and its update. */
#include "core_test.h"
#include "ops/core/math/zo_moments.h"

zo_node_layer random_layer(void) {
  zo_node_layer l;
  memset(&l, 0, sizeof l);
  l.form = random_below(3);
  l.k_h = 1 + random_below(3);
  l.k_w = 1 + random_below(3);
  l.stride_h = 1 + random_below(2);
  l.stride_w = 1 + random_below(2);
  l.dilation_h = 1 + random_below(2);
  l.dilation_w = 1 + random_below(2);
  l.pad_top = random_below(l.k_h);
  l.pad_left = random_below(l.k_w);
  l.in_h = 1 + random_below(9);
  l.in_w = 1 + random_below(9);
  l.in_c = 1 + random_below(70);
  l.out_h = 1 + random_below(6);
  l.out_w = 1 + random_below(6);
  l.out_c = 1 + random_below(9);
  l.pool_h = 1 + random_below(3);
  l.pool_w = 1 + random_below(3);
  l.pool_stride_h = 1 + random_below(2);
  l.pool_stride_w = 1 + random_below(2);
  l.node_h = l.form == ZO_NODES_PLAIN ? l.out_h : 1;
  l.node_w = l.form == ZO_NODES_PLAIN ? l.out_w : 1;
  if (l.form == ZO_NODES_MAX_POOL) {
    l.node_h = (l.out_h - 1) / l.pool_stride_h + 1;
    l.node_w = (l.out_w - 1) / l.pool_stride_w + 1;
  }
  l.input_zero_point = random_between(-128, 127);
  l.low = random_below(2) ? -129 : random_between(-129, 0);
  l.high = random_below(2) ? 128 : random_between(1, 128);
  l.unmasked = random_below(4) == 0u;
  l.depthwise = random_below(4) == 0u;
  if (l.depthwise == 1u) {
    l.in_c = 1 + random_below(9);
    l.out_c = l.in_c * (1 + random_below(3));
  }
  return l;
}

/* Settings of any rule for the weights of `tensor`, which loses its fraction if that has none.
 */
static zo_node_step random_step(zo_tensor* tensor, uint32_t out_c) {
  zo_node_step step;
  memset(&step, 0, sizeof step);
  step.rule = random_below(4);
  step.rate = random_shifted(1, 31);
  step.clip = 1 + random_below(1u << 24);
  step.seed = random_u32();
  step.rows = random_below(out_c + 1u);
  if (step.rule == ZO_NODE_BITS) {
    step.bits = 1 + random_below(7);
    step.rate = random_u32(); /* not used */
    step.clip = 0;
    tensor->fraction = NULL;
  }
  step.gain.mantissa = random_u32() | UINT32_C(1) << 31;
  step.gain.exponent = random_below(2) ? random_between(-1000, 1000) : random_between(-80, 20);
  return step;
}

/* Settings that are refused, one field at a time. */
static void test_bad_steps(const zo_node_layer* layer, const zo_tensor* tensor, const zo_node_evidence* evidence,
                           int32_t* scratch) {
  zo_tensor t = *tensor;
  zo_node_step good;
  memset(&good, 0, sizeof good);
  good.rate = good.clip = 1;
  for (uint32_t i = 0; i < 13u; ++i) {
    zo_node_step step = good;
    if (i == 0u) step.rule = 4;
    if (i == 1u) step.rows = layer->out_c + 1u;
    if (i == 2u) step.rate = UINT32_C(1) << 31;
    if (i == 3u) step.clip = 0;
    if (i == 4u) step.clip = (1u << 24) + 1u;
    if (i >= 5u && i < 8u) {
      step.rule = ZO_NODE_BITS;
      step.bits = i == 5u ? 0u : (i == 6u ? 8u : 3u);
      t.fraction = i == 7u ? tensor->weights : NULL;
    }
    if (i >= 10u) {
      step.mean_square.mantissa = i == 10u ? 1u : UINT32_MAX;
      step.mean_square.exponent = i == 11u ? INT32_MIN : INT32_MAX;
    } else if (i >= 8u) {
      step.rule = ZO_NODE_FIXED;
      step.gain.mantissa = i == 8u ? 0u : 1u;
      step.gain.exponent = i == 8u ? 0 : INT32_MAX;
    }
    CHECK(zo_node_update_s8(layer, &t, 1, evidence, &step, scratch, NULL) == ZO_ERROR_ARGUMENT);
    CHECK(i >= 10u || step.mean_square.mantissa == 0u);
  }
}

static zo_tensor biases_of(const zo_node_layer* layer, int32_t* biases) {
  zo_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.weights = (int8_t*)biases;
  tensor.size = 4u * layer->out_c;
  tensor.channels = layer->out_c;
  tensor.inner = 1;
  tensor.stream = 3;
  tensor.type = ZO_TENSOR_INT32;
  return tensor;
}

/* Biases that are refused, and weights in their place. */
static void test_bad_biases(const zo_node_layer* layer, const zo_tensor* filter, const zo_node_evidence* evidence,
                            int32_t* biases, int32_t* scratch) {
  zo_node_step step;
  memset(&step, 0, sizeof step);
  step.rate = step.clip = 1;
  for (uint32_t i = 0; i < 7u; ++i) {
    zo_tensor tensors[3] = {*filter, biases_of(layer, biases), *filter};
    if (i == 0u) tensors[1].type = ZO_TENSOR_INT8;
    if (i == 1u) tensors[1].size -= 4u;
    if (i == 2u) tensors[1].weights += 1;
    if (i == 3u) tensors[1].fraction = filter->weights;
    if (i == 4u) tensors[0] = tensors[1];
    if (i == 5u) tensors[1] = *filter;
    CHECK(zo_node_update_s8(layer, tensors, i == 6u ? 3u : 2u, evidence, &step, scratch, NULL) == ZO_ERROR_ARGUMENT);
  }
  zo_node_evidence without = *evidence; /* a filter's gradient needs the inputs */
  without.inputs = NULL;
  CHECK(zo_node_update_s8(layer, filter, 1, &without, &step, scratch, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_node_update_s8(layer, filter, 0, evidence, &step, scratch, NULL) == ZO_ERROR_ARGUMENT);
}

/* Everything that may be done with a layer, in buffers of exact size. */
static void test_node_layer(const zo_node_layer* layer) {
  const uint32_t samples = 1 + random_below(3), queries = 1 + random_below(ZO_MAX_QUERIES);
  const uint32_t nodes = zo_node_count(layer), row = zo_node_row(layer);
  CHECK(zo_node_scratch_values(layer) == row + layer->out_c);
  array outputs = make_array(samples * layer->out_h * layer->out_w * layer->out_c, 1, 127);
  array y = make_array(samples * nodes, 3, 127), moved = make_array(samples * nodes, 0, 0);
  array inputs = make_array(samples * zo_node_input_bytes(layer), 1, 127);
  array weights = make_array(row * layer->out_c, 1, 125), fraction = copy_array(&weights, 0);
  int32_t* biases = (int32_t*)allocate(sizeof(int32_t) * layer->out_c);
  for (uint32_t i = 0; i < layer->out_c; ++i) biases[i] = (int32_t)random_u32();
  const uint32_t route_bytes = samples * zo_node_route_bytes(layer);
  uint8_t* routes = (uint8_t*)allocate(route_bytes);
  int32_t* scratch = (int32_t*)allocate(sizeof(int32_t) * row);
  int32_t* differences = (int32_t*)allocate(sizeof(int32_t) * queries * samples);
  int16_t* errors = (int16_t*)allocate(sizeof(int16_t) * samples * nodes);
  array exponents = make_array(samples, 1, 127);
  uint32_t seeds[ZO_MAX_QUERIES];
  for (uint32_t i = 0; i < queries; ++i) seeds[i] = random_u32();
  for (uint32_t i = 0; i < queries * samples; ++i) differences[i] = (int32_t)random_u32();
  for (uint32_t i = 0; i < samples * nodes; ++i) errors[i] = (int16_t)random_u32();

  CHECK(zo_route_nodes_s8(layer, samples, outputs.at, routes) == ZO_OK);
  CHECK(zo_perturb_nodes_s8(layer, samples, 5, y.at, 9, random_between(-127, 127), moved.at) == ZO_OK);
  zo_tensor tensor = tensor_of(&weights, &fraction, 2);
  tensor.limit = 125;
  zo_node_evidence evidence;
  memset(&evidence, 0, sizeof evidence);
  evidence.samples = samples;
  evidence.queries = queries;
  evidence.inputs = inputs.at;
  evidence.routes = routes;
  evidence.differences = differences;
  evidence.seeds = seeds;
  zo_node_step step;
  memset(&step, 0, sizeof step);
  step.rate = random_u32() >> 1;
  step.clip = 1 + random_below(1u << 24);
  evidence.queries = random_below(2) == 0u ? 0u : ZO_MAX_QUERIES + 1u;
  CHECK(zo_node_update_s8(layer, &tensor, 1, &evidence, &step, scratch, NULL) == ZO_ERROR_QUERIES);
  evidence.queries = queries;
  test_bad_steps(layer, &tensor, &evidence, scratch);
  test_bad_biases(layer, &tensor, &evidence, biases, scratch);
  for (int round = 0; round < 8; ++round) {
    uint32_t saturated = 0;
    /* The filter, the biases alone, both. */
    const int with_filter = round % 3 != 1;
    const uint32_t count = round % 3 == 2 ? 2u : 1u;
    tensor.fraction = round == 2 || round == 3 ? NULL : fraction.at;
    if (round >= 4) step = random_step(&tensor, layer->out_c);
    /* Values for the channels are touched only if a choice is made of them. */
    const int chooses = step.rows != 0u && step.rows != layer->out_c;
    int32_t* scratch_of = (int32_t*)allocate(sizeof(int32_t) * (row + (chooses ? layer->out_c : 0u)));
    const zo_tensor tensors[2] = {with_filter ? tensor : biases_of(layer, biases), biases_of(layer, biases)};
    evidence.inputs = with_filter ? inputs.at : NULL;
    CHECK(zo_node_update_s8(layer, tensors, count, &evidence, &step, scratch_of, &saturated) == ZO_OK);
    free(scratch_of);
    CHECK(saturated <= tensor.size + layer->out_c);
    for (uint32_t i = 0; i < layer->out_c; ++i) digest = digest * 31u + (uint32_t)biases[i];
    for (uint32_t i = 0; i < tensor.size; ++i) {
      CHECK(weights.at[i] >= -125 && weights.at[i] <= 125);
      digest = digest * 31u + (uint8_t)weights.at[i];
    }
    evidence.errors = round % 4 == 2 ? errors : NULL;
    evidence.exponents = round >= 4 ? exponents.at : NULL;
    /* Routes that no outputs lead to must not lead out of the buffers. */
    for (uint32_t i = 0; i < route_bytes; ++i) routes[i] = (uint8_t)random_u32();
  }
  free(outputs.memory);
  free(y.memory);
  free(moved.memory);
  free(inputs.memory);
  free(weights.memory);
  free(fraction.memory);
  free(biases);
  free(exponents.memory);
  free(routes);
  free(scratch);
  free(differences);
  free(errors);
}

/* Updates of a few bits: one of the two integers next to the quotient, odd, never further than the
 * bits allow. */
static void test_pseudo_stochastic(void) {
  CHECK(zo_bit_width(0) == 0u && zo_bit_width(1) == 1u && zo_bit_width(255) == 8u && zo_bit_width(UINT32_MAX) == 32u);
  for (int round = 0; round < ROUNDS(100000); ++round) {
    const uint32_t shift = random_below(32);
    int32_t value = (int32_t)random_shifted(0, 31);
    if (round < 3) value = round == 0 ? INT32_MIN : (round == 1 ? INT32_MAX : 0);
    const int64_t rounded = zo_pseudo_stochastic(value, shift), unit = INT64_C(1) << shift;
    const int64_t error = rounded * unit - value;
    CHECK(error > -unit && error < unit);
    if (value != INT32_MIN) CHECK(zo_pseudo_stochastic(-value, shift) == -rounded);
  }
}

static void test_update_bits(const array* before, uint32_t size, zo_distribution distribution) {
  const uint32_t bits = 1 + random_below(7), seed = random_u32();
  array w = part_of(before, 0, size);
  w = copy_array(&w, 1);
  array back = copy_array(&w, 3);
  zo_tensor tensor = tensor_of(&w, NULL, random_u32());
  uint32_t saturated = 0;
  if (distribution.kind == ZO_COORDINATE) {
    CHECK(zo_update_bits_s8(&tensor, distribution, seed, 1, bits, NULL) == ZO_ERROR_DISTRIBUTION);
    CHECK(same(&w, &back));
    free(w.memory);
    free(back.memory);
    return;
  }
  CHECK(zo_update_bits_s8(&tensor, distribution, seed, 0, bits, &saturated) == ZO_OK);
  CHECK(same(&w, &back) && saturated == 0u);
  CHECK(zo_update_bits_s8(&tensor, distribution, seed, 1, bits, &saturated) == ZO_OK);
  CHECK(saturated <= size);
  for (uint32_t i = 0; i < size; ++i) {
    CHECK(w.at[i] >= -tensor.limit && w.at[i] <= tensor.limit);
    digest = digest * 31u + (uint8_t)w.at[i];
  }
  if (saturated == 0u) { /* undone by the other sign, unless that meets the limit */
    CHECK(zo_update_bits_s8(&tensor, distribution, seed, -1, bits, NULL) == ZO_OK);
    CHECK(same(&w, &back));
  }
  const array kept = copy_array(&w, 0);
  zo_tensor bad = tensor;
  bad.fraction = back.at;
  CHECK(zo_update_bits_s8(&bad, distribution, seed, 1, bits, NULL) == ZO_ERROR_ARGUMENT);
  bad.fraction = NULL;
  bad.limit = 128;
  CHECK(zo_update_bits_s8(&bad, distribution, seed, 1, bits, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_update_bits_s8(NULL, distribution, seed, 1, bits, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_update_bits_s8(&tensor, distribution, seed, 1, 0, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_update_bits_s8(&tensor, distribution, seed, 1, 8, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_update_bits_s8(&tensor, distribution, seed, 2, bits, NULL) == ZO_ERROR_FACTOR);
  for (size_t i = 0; i < BAD_DISTRIBUTIONS; ++i) {
    CHECK(zo_update_bits_s8(&tensor, bad_distributions[i], seed, 1, bits, NULL) == ZO_ERROR_DISTRIBUTION);
  }
  CHECK(same(&w, &kept));
  free(kept.memory);
  free(back.memory);
  free(w.memory);
}

void test_bits(void) {
  test_pseudo_stochastic();
  array weights = make_array(3000, 0, 120);
  for (size_t i = 0; i < SIZES; ++i) {
    for (size_t d = 0; d < DISTRIBUTIONS; ++d) test_update_bits(&weights, sizes[i], distributions[d]);
  }
  free(weights.memory);
}

/* Halves go up, below zero, too. */
static void test_means(void) {
  static const int32_t numbers[6] = {-2, -2, -1, 1, 2, 2};
  /* Of -2, -2, -1 and of 1, 2, 2, in units of 2, 1, 1/2 and 1/4: -5/6 to -20/3, and 5/6 to 20/3. */
  static const int64_t means[2][4] = {{-1, -2, -3, -7}, {1, 2, 3, 7}};
  for (uint32_t i = 0; i < 2u; ++i) {
    for (int32_t bits = -1; bits < 3; ++bits) {
      zo_moments m;
      memset(&m, 0, sizeof m);
      zo_moments_add(&m, numbers + 3u * i, 3);
      CHECK(zo_moments_mean(&m, bits) == means[i][bits + 1]);
    }
  }
  zo_moments m;
  memset(&m, 0, sizeof m);
  zo_moments_add(&m, numbers + 1, 2); /* -3/2 */
  CHECK(zo_moments_mean(&m, 0) == -1);
}

void test_nodes(void) {
  test_means();
  for (int round = 0; round < ROUNDS(500); ++round) {
    zo_node_layer layer = random_layer();
    CHECK(zo_node_layer_check(&layer) == ZO_OK);
    test_node_layer(&layer);
    /* Any field may be damaged: refused, or harmless. Large sizes are not run. */
    uint32_t* field = (uint32_t*)&layer + random_below(sizeof layer / sizeof(uint32_t));
    *field = random_below(2) ? random_below(6) : random_u32();
    if (zo_node_layer_check(&layer) == ZO_OK &&
        (uint64_t)zo_node_input_bytes(&layer) * layer.out_h * layer.out_w * layer.out_c * zo_node_row(&layer) <
            (UINT64_C(1) << 32)) {
      test_node_layer(&layer);
    }
  }
}
