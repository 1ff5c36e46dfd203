/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "ops/core/kernels/zo_lstm.h"
#include "ops/tflite/zo_exact_ops.h"

/* Inputs, and the first of the four gates. */
enum { kInput = 0, kWeights = 1, kHiddenWeights = 5, kBiases = 12, kHidden = 18, kCell = 19, kInputs = 24 };

/* Inputs that a plain LSTM has; the others are peepholes, projections and layer norms. */
static bool is_plain_input(int number) {
  return number < kHiddenWeights + kZoGates || (number >= kBiases && number < kBiases + kZoGates) ||
         number == kHidden || number == kCell;
}

static float scale_of(const zo_node* node, int number) { return zo_node_input(node, number)->params.scale; }

/* From sums of products of two inputs to the unit 2^-12. */
static double gate_factor(const zo_node* node, int data, int weights) {
  return (double)(scale_of(node, data) * scale_of(node, weights)) * 4096.0;
}

/* From products of two gates, unit 2^-30, to an input's unit. */
static double product_factor(const zo_node* node, int number) {
  return 1.0 / 1073741824.0 / (double)scale_of(node, number);
}

/* Sizes, and the power of the cell's unit; false if the tensors do not fit. */
static bool shape_of(const zo_node* node, zo_lstm* s) {
  const TfLiteLSTMParams* params = (const TfLiteLSTMParams*)node->params;
  const TfLiteTensor *x = zo_node_input(node, kInput), *weights = zo_node_input(node, kWeights);
  const TfLiteTensor* cell = zo_node_input(node, kCell);
  if (node->inputs->size != kInputs || !zo_is_int8(x) || !zo_has_rank(x, 3) || weights == NULL ||
      !zo_has_rank(weights, 2) || cell == NULL) {
    return false;
  }
  s->time_major = params->time_major;
  s->samples = x->dims->data[s->time_major ? 1 : 0];
  s->steps = x->dims->data[s->time_major ? 0 : 1];
  s->depth = x->dims->data[2];
  s->units = weights->dims->data[0];
  const bool is_power = frexpf(cell->params.scale, &s->cell_power) == 0.5f;
  --s->cell_power;
  return is_power && s->cell_power >= -30 && s->cell_power <= 0 && weights->dims->data[1] == s->depth;
}

bool zo_exact_lstm_supports(const zo_node* node) {
  const TfLiteLSTMParams* params = (const TfLiteLSTMParams*)node->params;
  zo_lstm s;
  if (!shape_of(node, &s) || params->activation != kTfLiteActTanh || !(params->cell_clip >= 0.0f)) return false;
  for (int i = 0; i < kInputs; ++i) {
    const TfLiteTensor* tensor = zo_node_input(node, i);
    if (is_plain_input(i) != (tensor != NULL)) return false;
  }
  const int64_t units = s.units, states = units * s.samples;
  for (int gate = 0; gate < kZoGates; ++gate) {
    const int input = kWeights + gate, hidden = kHiddenWeights + gate;
    const TfLiteTensor *weights = zo_node_input(node, input), *recurrent = zo_node_input(node, hidden);
    if (!zo_has_values(weights, kTfLiteInt8, units * s.depth) ||
        !zo_has_values(recurrent, kTfLiteInt8, units * units) || !zo_has_scale(weights) || !zo_has_scale(recurrent) ||
        weights->params.zero_point != 0 || recurrent->params.zero_point != 0 ||
        !zo_has_values(zo_node_input(node, kBiases + gate), kTfLiteInt32, units) ||
        !zo_is_multiplier(gate_factor(node, kInput, input)) || !zo_is_multiplier(gate_factor(node, kHidden, hidden))) {
      return false;
    }
  }
  const TfLiteTensor *h = zo_node_input(node, kHidden), *cell = zo_node_input(node, kCell);
  return zo_has_scale(zo_node_input(node, kInput)) && zo_has_scale(h) && h->is_variable && cell->is_variable &&
         zo_has_values(h, kTfLiteInt8, states) && zo_has_values(cell, kTfLiteInt16, states) &&
         zo_has_values(zo_node_output(node, 0), kTfLiteInt8, states * s.steps) &&
         zo_is_multiplier(product_factor(node, kHidden));
}

/* Steps of all samples alternate where time is the first axis. */
int32_t zo_exact_lstm_samples(const zo_node* node) {
  return ((const TfLiteLSTMParams*)node->params)->time_major ? 1 : zo_node_samples(node);
}

void* zo_exact_lstm_create(const zo_node* node, const zo_kernel_set* kernels, int32_t threads) {
  (void)kernels;
  (void)threads;
  zo_lstm* self = malloc(sizeof *self);
  if (self == NULL || !shape_of(node, self)) {
    free(self);
    return NULL;
  }
  self->input_zero_point = zo_node_input(node, kInput)->params.zero_point;
  self->hidden_zero_point = zo_node_input(node, kHidden)->params.zero_point;
  for (int gate = 0; gate < kZoGates; ++gate) {
    self->input[gate] = zo_quantize_multiplier(gate_factor(node, kInput, kWeights + gate));
    self->hidden[gate] = zo_quantize_multiplier(gate_factor(node, kHidden, kHiddenWeights + gate));
  }
  self->kept = zo_quantize_multiplier(1.0 / 32768.0);
  self->added = zo_quantize_multiplier(product_factor(node, kCell));
  self->output = zo_quantize_multiplier(product_factor(node, kHidden));
  const double clip = (double)((const TfLiteLSTMParams*)node->params)->cell_clip / (double)scale_of(node, kCell);
  self->clip = (int32_t)fmin(clip, (double)INT16_MAX);
  self->clips = clip > 0.0;
  return self;
}

bool zo_exact_lstm_begin(void* self, const zo_node* node) {
  (void)self;
  for (int i = 0; i < kInputs; ++i) {
    if (is_plain_input(i) && zo_node_input(node, i)->data == NULL) return false;
  }
  return true;
}

void zo_exact_lstm_run(const void* self, const zo_node* node, zo_share share) {
  const zo_lstm* own = (const zo_lstm*)self;
  zo_lstm_tensors t;
  for (int gate = 0; gate < kZoGates; ++gate) {
    t.input[gate] = (const int8_t*)zo_node_input(node, kWeights + gate)->data;
    t.hidden[gate] = (const int8_t*)zo_node_input(node, kHiddenWeights + gate)->data;
    t.bias[gate] = (const int32_t*)zo_node_input(node, kBiases + gate)->data;
  }
  t.x = (const int8_t*)zo_node_input(node, kInput)->data;
  t.h = (int8_t*)zo_node_input(node, kHidden)->data;
  t.cell = (int16_t*)zo_node_input(node, kCell)->data;
  t.y = (int8_t*)zo_node_output(node, 0)->data;
  if (own->time_major) share.count = own->samples; /* as one */
  zo_lstm_run(own, &t, share.first, share.count);
}
