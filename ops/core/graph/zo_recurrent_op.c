/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/graph/zo_recurrent_op.h"

#include "ops/core/zo_little_endian.h"

enum { kRecurrentWords = 4, kSvdfWords = 8, kLstmWords = 4 + 2 * (3 + 2 * kZoGates) };

/* A reader of options and tensors, and whether everything so far fits. */
typedef struct recurrent_reader {
  const uint8_t* at;
  zo_buffer_source source;
  void* context;
  bool runs, fits;
} recurrent_reader;

static int32_t next_word(recurrent_reader* r, int32_t low, int32_t high) {
  const int32_t value = (int32_t)zo_read_u32(r->at);
  r->at += sizeof value;
  r->fits = r->fits && value >= low && value <= high;
  return value;
}

static int32_t next_zero_point(recurrent_reader* r) { return next_word(r, INT8_MIN, INT8_MAX); }

static zo_multiplier next_multiplier(recurrent_reader* r) {
  zo_multiplier multiplier;
  multiplier.value = next_word(r, 0, INT32_MAX);
  multiplier.shift = next_word(r, -31, 30);
  return multiplier;
}

/* The count of a tensor's values, each of so many bytes; 0 if they are not whole or more than an int32 holds. */
static int32_t count_of(recurrent_reader* r, int32_t index, uint64_t each) {
  const uint32_t bytes = r->source(r->context, index).bytes;
  if (each == 0u || bytes == ZO_NO_SIZE || bytes % each != 0u || bytes / each > INT32_MAX) return 0;
  return (int32_t)(bytes / each);
}

/* A tensor of so many bytes. */
static void* tensor_of(recurrent_reader* r, int32_t index, uint64_t bytes) {
  const zo_buffer buffer = r->source(r->context, index);
  r->fits = r->fits && buffer.bytes == bytes && bytes > 0u && (!r->runs || buffer.data != NULL);
  return buffer.data;
}

static bool has_words(const uint8_t* options, size_t length, size_t words) {
  return options != NULL && length == kRecurrentWords + 4u * words && options[0] == ZO_OPTIONS_VERSION;
}

zo_status zo_svdf_op_read(const uint8_t* options, size_t length, zo_buffer_source source, void* context, bool runs,
                          zo_svdf_op* op) {
  if (!has_words(options, length, kSvdfWords)) return ZO_ERROR_OPTIONS;
  recurrent_reader r = {options + kRecurrentWords, source, context, runs, options[1] <= 1u};
  zo_svdf* s = &op->layer;
  s->is_wide = options[1] != 0u;
  s->rank = next_word(&r, 1, INT32_MAX);
  s->input_zero_point = next_zero_point(&r);
  s->state_zero_point = next_word(&r, INT16_MIN, INT16_MAX);
  s->zero_point = next_zero_point(&r);
  s->feature = next_multiplier(&r);
  s->output = next_multiplier(&r);
  if (!r.fits) return ZO_ERROR_OPTIONS;
  s->units = count_of(&r, 3, sizeof(int32_t));
  const uint64_t filters = (uint64_t)s->units * (uint64_t)s->rank, width = s->is_wide ? 2u : 1u;
  s->depth = count_of(&r, 1, filters);
  s->memory = count_of(&r, 2, filters * width);
  op->samples = count_of(&r, -1, (uint64_t)s->units);
  const uint64_t samples = (uint64_t)op->samples, times = filters * (uint64_t)s->memory * width;
  op->tensors.x = (const int8_t*)tensor_of(&r, 0, samples * (uint64_t)s->depth);
  op->tensors.weights = (const int8_t*)tensor_of(&r, 1, filters * (uint64_t)s->depth);
  op->tensors.time = tensor_of(&r, 2, times);
  op->tensors.bias = (const int32_t*)tensor_of(&r, 3, sizeof(int32_t) * (uint64_t)s->units);
  op->tensors.state = tensor_of(&r, 4, samples * times);
  op->tensors.y = (int8_t*)tensor_of(&r, -1, samples * (uint64_t)s->units);
  return r.fits ? ZO_OK : ZO_ERROR_ARGUMENT;
}

zo_status zo_lstm_op_read(const uint8_t* options, size_t length, zo_buffer_source source, void* context, bool runs,
                          zo_lstm_op* op) {
  if (!has_words(options, length, kLstmWords)) return ZO_ERROR_OPTIONS;
  recurrent_reader r = {options + kRecurrentWords, source, context, runs, options[1] <= 3u};
  zo_lstm* s = &op->layer;
  s->time_major = (options[1] & 1u) != 0u;
  s->clips = (options[1] & 2u) != 0u;
  s->input_zero_point = next_zero_point(&r);
  s->hidden_zero_point = next_zero_point(&r);
  s->cell_power = next_word(&r, -30, 0);
  s->clip = next_word(&r, 0, INT16_MAX);
  s->kept = next_multiplier(&r);
  s->added = next_multiplier(&r);
  s->output = next_multiplier(&r);
  for (int gate = 0; gate < kZoGates; ++gate) {
    s->input[gate] = next_multiplier(&r);
    s->hidden[gate] = next_multiplier(&r);
  }
  if (!r.fits) return ZO_ERROR_OPTIONS;
  s->units = count_of(&r, 12, sizeof(int32_t));
  const uint64_t units = (uint64_t)s->units;
  s->depth = count_of(&r, 1, units);
  s->samples = count_of(&r, 18, units);
  const uint64_t depth = (uint64_t)s->depth, samples = (uint64_t)s->samples;
  s->steps = count_of(&r, 0, samples * depth);
  const uint64_t rows = samples * (uint64_t)s->steps;
  for (int32_t gate = 0; gate < kZoGates; ++gate) {
    op->tensors.input[gate] = (const int8_t*)tensor_of(&r, 1 + gate, units * depth);
    op->tensors.hidden[gate] = (const int8_t*)tensor_of(&r, 5 + gate, units * units);
    op->tensors.bias[gate] = (const int32_t*)tensor_of(&r, 12 + gate, sizeof(int32_t) * units);
  }
  op->tensors.x = (const int8_t*)tensor_of(&r, 0, rows * depth);
  op->tensors.h = (int8_t*)tensor_of(&r, 18, samples * units);
  op->tensors.cell = (int16_t*)tensor_of(&r, 19, 2u * samples * units);
  op->tensors.y = (int8_t*)tensor_of(&r, -1, rows * units);
  return r.fits ? ZO_OK : ZO_ERROR_ARGUMENT;
}
