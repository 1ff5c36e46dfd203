/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Node perturbation, integer backpropagation and the cross-entropy on layers of real networks: a
 * line for each case, with a hash of everything it wrote and, on a Cortex-M, the instructions of
 * the last call.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ops/core/backward/zo_conv_backprop.h"
#include "ops/core/backward/zo_errors.h"
#include "ops/core/backward/zo_pool_backprop.h"
#include "ops/core/loss/zo_loss.h"
#include "ops/core/nodes/zo_node_layer.h"
#include "ops/core/nodes/zo_node_update.h"

#ifdef COUNTING_TICK_QUARTERS
#include "counting.h"
#endif

enum {
  kMostWeights = 48000,
  kMostInputs = 14000,
  kMostNodes = 8000,
  kMostSamples = 100,
  kMostQueries = 9,
  kLimit = 125
};

static int8_t weights[kMostWeights], fraction[kMostWeights];
static int8_t inputs[kMostInputs], outputs[kMostNodes], nodes[kMostNodes], moved[kMostNodes];
static uint8_t routes[kMostNodes * 2];
static int16_t errors[8192];
static int16_t conv_scales[84];
static int32_t scratch[1024], differences[kMostQueries * kMostSamples], multiplier[128];
static int32_t biases[128];
static uint32_t seeds[kMostQueries];

static uint32_t random_state;

static uint32_t random_below(uint32_t bound) {
  random_state = random_state * UINT32_C(1664525) + UINT32_C(1013904223);
  return (uint32_t)((uint64_t)random_state * bound >> 32);
}

static void fill(int8_t* values, uint32_t count, int32_t low, int32_t high) {
  for (uint32_t i = 0; i < count; ++i) {
    values[i] = (int8_t)(low + (int32_t)random_below((uint32_t)(high - low + 1)));
  }
}

static uint32_t hash(uint32_t h, const void* memory, size_t bytes) {
  const uint8_t* b = (const uint8_t*)memory;
  for (size_t i = 0; i < bytes; ++i) h = (h ^ b[i]) * UINT32_C(16777619);
  return h;
}

static uint32_t hash_words(uint32_t h, const uint32_t* words, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t shift = 0; shift < 32u; shift += 8u) {
      const uint8_t byte = (uint8_t)(words[i] >> shift);
      h = hash(h, &byte, 1);
    }
  }
  return h;
}

static void report(const char* name, void (*call)(void*), void* argument, uint32_t (*result)(void*)) {
  uint32_t instructions = 0;
#ifdef COUNTING_TICK_QUARTERS
  instructions = count_instructions(call, argument, 1);
#else
  call(argument);
#endif
  printf("%s %08" PRIx32 " %" PRIu32 "\n", name, result(argument), instructions);
}

/* --- NODE_UPDATE ---------------------------------------------------------------- */

typedef struct update {
  zo_node_layer layer;
  zo_tensor tensors[2]; /* the filter and, with kBiases, biases */
  uint32_t count;
  zo_node_evidence evidence;
  zo_node_step step;
  uint32_t saturated;
} update;

static void run_update(void* argument) {
  update* u = (update*)argument;
  ++u->step.seed;
  if (zo_node_update_s8(&u->layer, u->tensors, u->count, &u->evidence, &u->step, scratch, &u->saturated) != ZO_OK) {
    u->saturated = UINT32_MAX;
  }
}

static uint32_t update_result(void* argument) {
  const update* u = (const update*)argument;
  const uint32_t numbers[3] = {u->saturated, u->step.mean_square.mantissa, (uint32_t)u->step.mean_square.exponent};
  uint32_t h = hash_words(hash(1, weights, u->tensors[0].size), numbers, 3);
  if (u->count > 1u) h = hash_words(h, (const uint32_t*)biases, u->layer.out_c);
  return u->tensors[0].fraction == NULL ? h : hash(h, fraction, u->tensors[0].size);
}

enum { kFraction = 1, kScaled = 2, kRectified = 4, kExact = 8, kBiases = 16, kSparse = 32 };

/* Two updates, of which the second is counted: the first one of ZO_NODE_RMS measures, too. */
static void update_case(const char* name, const zo_node_layer* layer, uint32_t samples, uint32_t queries, uint32_t rule,
                        uint32_t rows, uint32_t options) {
  update u;
  memset(&u, 0, sizeof u);
  random_state = 1;
  u.layer = *layer;
  zo_tensor* const filter = &u.tensors[0];
  zo_tensor* const bias = &u.tensors[1];
  filter->weights = weights;
  filter->inner = layer->depthwise != 0u ? 1u : zo_node_row(layer);
  filter->channels = layer->out_c;
  filter->size = zo_node_row(layer) * layer->out_c;
  filter->stream = 3;
  filter->limit = kLimit;
  fill(weights, filter->size, -kLimit, kLimit);
  memset(fraction, 0, sizeof fraction);
  if ((options & kFraction) != 0u) filter->fraction = fraction;
  for (uint32_t c = 0; c < layer->out_c; ++c) multiplier[c] = (int32_t)(random_below(1u << 31));
  if ((options & kScaled) != 0u) filter->multiplier = multiplier;
  bias->type = ZO_TENSOR_INT32;
  bias->weights = (int8_t*)biases;
  bias->inner = 1;
  bias->channels = layer->out_c;
  bias->size = (uint32_t)sizeof biases[0] * layer->out_c;
  bias->stream = 4;
  for (uint32_t c = 0; c < layer->out_c; ++c) biases[c] = (int32_t)random_below(20001) - 10000;
  u.count = (options & kBiases) != 0u ? 2u : 1u;

  const uint32_t count = layer->out_h * layer->out_w * layer->out_c;
  fill(inputs, samples * zo_node_input_bytes(layer), -128, 127);
  for (uint32_t b = 0; b < samples; ++b) {
    fill(outputs, count, -128, 127);
    for (uint32_t i = 0; (options & kRectified) != 0u && i < count; ++i) {
      if (outputs[i] < 0) outputs[i] = -128;
    }
    (void)zo_route_nodes_s8(layer, 1, outputs, routes + b * zo_node_route_bytes(layer));
  }
  for (uint32_t q = 0; q < kMostQueries; ++q) seeds[q] = 1000u * q;
  for (uint32_t i = 0; i < samples * queries; ++i) {
    differences[i] = (int32_t)random_below(40001) - 20000;
  }
  for (uint32_t i = 0; i < sizeof errors / sizeof errors[0]; ++i) {
    const int32_t e = (int32_t)random_below(65535) - 32767;
    const int32_t least = (options & kSparse) != 0u ? 24576 : (options & kRectified) != 0u ? 0 : -32767;
    errors[i] = (int16_t)(e < least ? 0 : e);
  }
  u.evidence.samples = samples;
  u.evidence.queries = queries;
  u.evidence.inputs = inputs;
  u.evidence.routes = routes;
  u.evidence.differences = differences;
  u.evidence.seeds = seeds;
  if ((options & kExact) != 0u) {
    u.evidence.errors = errors;
    u.evidence.routes = NULL; /* an error behind a clamped output is 0 */
  }
  u.step.rule = rule;
  u.step.rate = 20000;
  u.step.clip = 4u << 16;
  u.step.bits = 3;
  u.step.rows = rows;
  u.step.gain.mantissa = UINT32_C(0x80000123);
  u.step.gain.exponent = -38;
  run_update(&u);
  report(name, run_update, &u, update_result);
}

static zo_node_layer dense(uint32_t in_c, uint32_t out_c) {
  zo_node_layer layer;
  memset(&layer, 0, sizeof layer);
  layer.in_h = layer.in_w = layer.k_h = layer.k_w = 1;
  layer.stride_h = layer.stride_w = layer.dilation_h = layer.dilation_w = 1;
  layer.out_h = layer.out_w = layer.node_h = layer.node_w = 1;
  layer.in_c = in_c;
  layer.out_c = out_c;
  layer.input_zero_point = -5;
  layer.low = -128;
  layer.high = 128;
  return layer;
}

static zo_node_layer plane(uint32_t in_c, uint32_t out_c, uint32_t side, uint32_t kernel, uint32_t pad) {
  zo_node_layer layer = dense(in_c, out_c);
  layer.in_h = layer.in_w = side;
  layer.k_h = layer.k_w = kernel;
  layer.pad_top = layer.pad_left = pad;
  layer.out_h = layer.out_w = layer.node_h = layer.node_w = side + 2u * pad + 1u - kernel;
  return layer;
}

/* --- Nodes and losses ------------------------------------------------------------ */

static void run_perturbation(void* argument) {
  const zo_node_layer* layer = (const zo_node_layer*)argument;
  (void)zo_perturb_nodes_s8(layer, 1, 3, nodes, 9, -3, moved);
}

static uint32_t perturbation_result(void* argument) {
  return hash(1, moved, zo_node_count((const zo_node_layer*)argument));
}

static void perturbation_case(const char* name, zo_node_layer layer) {
  random_state = 2;
  layer.low = -100;
  layer.high = 120;
  fill(nodes, zo_node_count(&layer), -128, 127);
  report(name, run_perturbation, &layer, perturbation_result);
}

static int32_t loss;

static void run_loss(void* argument) {
  const zo_logit_scale scale = {UINT32_C(2904574), UINT32_C(2013266)}; /* 0.12 */
  const int32_t label = 3;
  (void)zo_cross_entropy_s8(nodes, 1, 1, *(const uint32_t*)argument, scale, &label, &loss);
}

static uint32_t loss_result(void* argument) {
  (void)argument;
  return (uint32_t)loss;
}

static void loss_case(const char* name, uint32_t classes, int32_t low) {
  random_state = 3;
  fill(nodes, classes, low, 127);
  report(name, run_loss, &classes, loss_result);
}

/* Targets of the mean squared error are the inputs; labels of the binary cross-entropy, 1 and 0. */
static void run_squares(void* argument) {
  const uint32_t elements = *(const uint32_t*)argument;
  (void)zo_mean_squared_error_s8(nodes, inputs, 1, elements, INT32_C(1) << 30, 24, &loss);
}

static void run_binary(void* argument) {
  const zo_logit_scale scale = {UINT32_C(2904574), UINT32_C(2013266)};
  const uint32_t outputs_of = *(const uint32_t*)argument;
  static int32_t labels[16];
  for (uint32_t i = 0; i < 16u; ++i) labels[i] = (int32_t)(i & 1u);
  (void)zo_binary_cross_entropy_s8(nodes, 1, outputs_of, -3, scale, labels, &loss);
}

static void element_loss_case(const char* name, void (*call)(void*), uint32_t elements) {
  random_state = 6;
  fill(nodes, elements, -128, 127);
  fill(inputs, elements, -128, 127);
  report(name, call, &elements, loss_result);
}

/* Errors of a convolution's inputs; of every second output, as behind an activation, or of all. */
static int16_t conv_errors[8192];
static int8_t conv_exponent;

typedef struct conv_call {
  zo_node_layer layer;
  uint32_t norm;
} conv_call;

static void run_conv_backprop(void* argument) {
  const conv_call* c = (const conv_call*)argument;
  (void)zo_conv_backprop_s8(&c->layer, weights, c->norm, conv_scales, errors, 3, conv_errors, &conv_exponent, scratch);
}

static uint32_t conv_backprop_result(void* argument) {
  const conv_call* c = (const conv_call*)argument;
  uint32_t h = (uint32_t)conv_exponent;
  for (uint32_t i = 0; i < zo_node_input_bytes(&c->layer); ++i) {
    h = h * 31u + (uint32_t)conv_errors[i];
  }
  return h;
}

static void conv_backprop_case(const char* name, const zo_node_layer* layer, int half) {
  conv_call c = {*layer, 0};
  random_state = 5;
  fill(weights, zo_node_row(layer) * layer->out_c, -127, 127);
  for (uint32_t i = 0; i < zo_node_count(layer); ++i) {
    const int32_t e = (int32_t)random_below(60000) - 30000;
    errors[i] = (int16_t)(half && e < 0 ? 0 : e);
  }
  for (uint32_t i = 0; i < layer->out_c; ++i) conv_scales[i] = (int16_t)(32767u - 100u * i);
  (void)zo_conv_backprop_norm_s8(layer, weights, scratch, &c.norm);
  report(name, run_conv_backprop, &c, conv_backprop_result);
}

/* Errors that pass a step of another kind. */
enum { kErrors = 8192 };

static void run_norm(void* argument) {
  conv_call* c = (conv_call*)argument;
  (void)zo_conv_backprop_norm_s8(&c->layer, weights, scratch, &c->norm);
}

static uint32_t norm_result(void* argument) { return ((const conv_call*)argument)->norm; }

static void run_mask(void* argument) {
  (void)argument;
  (void)zo_mask_errors(kErrors, inputs, -128, 100, errors);
}

static void run_add(void* argument) {
  (void)argument;
  (void)zo_add_errors(kErrors, errors, 1, conv_errors, &conv_exponent);
}

static void run_max_pool(void* argument) {
  (void)zo_max_pool_backprop((const zo_pool*)argument, inputs, errors, 3, conv_errors, &conv_exponent);
}

static void run_average_pool(void* argument) {
  (void)zo_average_pool_backprop((const zo_pool*)argument, errors, 3, conv_errors, &conv_exponent, scratch);
}

static uint32_t errors_result(void* argument) {
  uint32_t h = (uint32_t)conv_exponent;
  (void)argument;
  for (uint32_t i = 0; i < kErrors; ++i) h = h * 31u + (uint32_t)(errors[i] * 7 + conv_errors[i]);
  return h;
}

static void errors_case(const char* name, void (*call)(void*), void* argument) {
  random_state = 7;
  fill(inputs, kErrors, -128, 127);
  for (uint32_t i = 0; i < kErrors; ++i) {
    errors[i] = (int16_t)(random_below(65535) - 32767);
    conv_errors[i] = (int16_t)(random_below(65535) - 32767);
  }
  conv_exponent = 2;
  report(name, call, argument, errors_result);
}

int main(void) {
  const zo_node_layer fc1 = dense(400, 120);
  update_case("fc1-1", &fc1, 1, 2, ZO_NODE_RMS, 0, 0);
  update_case("fc1-1-rectified", &fc1, 1, 2, ZO_NODE_RMS, 0, kRectified);
  update_case("fc1-1-scaled", &fc1, 1, 2, ZO_NODE_RMS, 0, kScaled);
  update_case("fc1-1-fraction", &fc1, 1, 2, ZO_NODE_RMS, 0, kFraction);
  update_case("fc1-1-rows", &fc1, 1, 2, ZO_NODE_RMS, 30, 0);
  update_case("fc1-1-q8", &fc1, 1, 8, ZO_NODE_RMS, 0, 0);
  update_case("fc1-1-fixed", &fc1, 1, 2, ZO_NODE_FIXED, 0, 0);
  update_case("fc1-1-bits", &fc1, 1, 2, ZO_NODE_BITS, 0, 0);
  update_case("fc1-1-standardized", &fc1, 1, 2, ZO_NODE_STANDARDIZED, 0, 0);
  update_case("fc1-16", &fc1, 16, 2, ZO_NODE_RMS, 0, 0);
  update_case("fc1-2", &fc1, 2, 2, ZO_NODE_RMS, 0, 0);
  update_case("fc1-16-rectified", &fc1, 16, 2, ZO_NODE_RMS, 0, kRectified);
  update_case("fc1-16-q8", &fc1, 16, 8, ZO_NODE_RMS, 0, 0);
  update_case("fc1-32", &fc1, 32, 2, ZO_NODE_RMS, 0, 0);
  update_case("fc1-16-exact", &fc1, 16, 0, ZO_NODE_RMS, 0, kExact);
  /* Dense layers of odd sizes: groups of channels, of columns and of samples that are not full. */
  const zo_node_layer odd = dense(157, 29);
  update_case("dense-2", &odd, 2, 2, ZO_NODE_RMS, 0, kRectified);
  update_case("dense-3-fraction", &odd, 3, 1, ZO_NODE_RMS, 0, kFraction);
  update_case("dense-5-q9", &odd, 5, 9, ZO_NODE_FIXED, 0, kRectified);
  update_case("dense-7-rows", &odd, 7, 2, ZO_NODE_RMS, 11, kRectified);
  update_case("dense-8-scaled", &odd, 8, 3, ZO_NODE_RMS, 0, kScaled);
  update_case("dense-9-bits", &odd, 9, 2, ZO_NODE_BITS, 0, 0);
  update_case("dense-15-standardized", &odd, 15, 2, ZO_NODE_STANDARDIZED, 0, kRectified);
  update_case("dense-16-biases", &odd, 16, 2, ZO_NODE_RMS, 0, kBiases | kRectified);
  update_case("dense-17-fraction", &odd, 17, 2, ZO_NODE_RMS, 5, kFraction | kBiases);
  update_case("dense-33", &odd, 33, 2, ZO_NODE_RMS, 0, 0);
  update_case("dense-48-exact", &odd, 48, 0, ZO_NODE_RMS, 0, kExact | kRectified);
  const zo_node_layer narrow_rows = dense(40, 7);
  update_case("dense-narrow", &narrow_rows, 100, 1, ZO_NODE_RMS, 0, 0);
  const zo_node_layer window = plane(18, 10, 3, 3, 0);
  update_case("dense-window", &window, 16, 2, ZO_NODE_RMS, 0, kRectified);
  zo_node_layer conv2 = plane(6, 16, 14, 5, 0);
  conv2.form = ZO_NODES_MAX_POOL;
  conv2.node_h = conv2.node_w = 5;
  conv2.pool_h = conv2.pool_w = conv2.pool_stride_h = conv2.pool_stride_w = 2;
  update_case("conv2-1", &conv2, 1, 2, ZO_NODE_RMS, 0, kRectified);
  update_case("conv2-1-q8", &conv2, 1, 8, ZO_NODE_RMS, 0, kRectified);
  zo_node_layer pointwise = plane(64, 64, 11, 1, 0);
  pointwise.form = ZO_NODES_MEAN;
  pointwise.node_h = pointwise.node_w = 1;
  update_case("pointwise-1", &pointwise, 1, 2, ZO_NODE_RMS, 0, kRectified);
  const zo_node_layer padded = plane(16, 32, 8, 3, 1);
  update_case("padded-1", &padded, 1, 2, ZO_NODE_RMS, 0, kRectified);
  zo_node_layer wide = plane(64, 64, 8, 3, 1);
  wide.form = ZO_NODES_MEAN;
  wide.node_h = wide.node_w = 1;
  update_case("wide-1", &wide, 1, 2, ZO_NODE_RMS, 0, kRectified);
  zo_node_layer depthwise = plane(64, 64, 8, 3, 1);
  depthwise.depthwise = 1;
  update_case("depthwise-1", &depthwise, 1, 2, ZO_NODE_RMS, 0, kRectified);
  update_case("depthwise-1-fraction", &depthwise, 1, 2, ZO_NODE_RMS, 0, kRectified | kFraction);
  perturbation_case("perturb-120", fc1);
  perturbation_case("perturb-400", conv2);
  pointwise.form = wide.form = ZO_NODES_PLAIN;
  pointwise.node_h = pointwise.node_w = 11;
  wide.node_h = wide.node_w = 8;
  conv2.form = ZO_NODES_PLAIN;
  conv2.node_h = conv2.node_w = 10;
  const zo_node_layer first = plane(1, 16, 16, 5, 2);
  const uint32_t exact = kExact | kRectified;
  update_case("pointwise-1-exact", &pointwise, 1, 0, ZO_NODE_RMS, 0, exact);
  update_case("pointwise-1-sparse", &pointwise, 1, 0, ZO_NODE_RMS, 0, kExact | kSparse);
  update_case("padded-1-exact", &padded, 1, 0, ZO_NODE_RMS, 0, exact);
  update_case("wide-1-exact", &wide, 1, 0, ZO_NODE_RMS, 0, exact);
  update_case("conv2-1-exact", &conv2, 1, 0, ZO_NODE_RMS, 0, exact);
  update_case("first-1-exact", &first, 1, 0, ZO_NODE_RMS, 0, exact);
  update_case("first-1-sparse", &first, 1, 0, ZO_NODE_RMS, 0, kExact | kSparse);
  update_case("depthwise-1-exact", &depthwise, 1, 0, ZO_NODE_RMS, 0, exact);
  const zo_node_layer same = plane(64, 64, 8, 3, 1);
  conv_backprop_case("conv-backprop-64", &same, 0);
  conv_backprop_case("conv-backprop-64-half", &same, 1);
  zo_node_layer strided = plane(32, 64, 16, 3, 0); /* SAME: a column and a row at the end */
  strided.stride_h = strided.stride_w = 2;
  strided.out_h = strided.out_w = strided.node_h = strided.node_w = 8;
  conv_backprop_case("conv-backprop-32-strided", &strided, 0);
  const zo_node_layer narrow = plane(13, 7, 9, 3, 1);
  conv_backprop_case("conv-backprop-13", &narrow, 0);
  const zo_node_layer of_points = plane(64, 64, 8, 1, 0);
  conv_backprop_case("conv-backprop-1x1", &of_points, 0);
  const zo_node_layer fc2 = dense(120, 84);
  conv_backprop_case("dense-backprop-84", &fc2, 0);
  conv_backprop_case("depthwise-backprop-64", &depthwise, 0);
  conv_call norm = {same, 0};
  random_state = 5;
  fill(weights, zo_node_row(&same) * same.out_c, -127, 127);
  report("norm-64", run_norm, &norm, norm_result);
  zo_pool pool = {16, 16, 32, 8, 8, 2, 2, 2, 2, 0, 0};
  errors_case("mask-backprop", run_mask, NULL);
  errors_case("add-backprop", run_add, NULL);
  errors_case("max-pool-backprop", run_max_pool, &pool);
  pool.out_h = pool.out_w = 1;
  pool.k_h = pool.k_w = pool.stride_h = pool.stride_w = 16;
  errors_case("average-pool-backprop", run_average_pool, &pool);
  loss_case("loss-10", 10, -128);
  loss_case("loss-10-near", 10, 80);
  loss_case("loss-12-near", 12, 80);
  element_loss_case("squares-320", run_squares, 320);
  element_loss_case("squares-640", run_squares, 640);
  element_loss_case("binary-6", run_binary, 6);
  element_loss_case("binary-12", run_binary, 12);
  return 0;
}
