/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Commands on weight ops: any words, or the writer's words, damaged or not, on segments of any
 * options. A refused command moves nothing; after updates every weight is within the headroom; a
 * perturbation and its opposite give back the same weights; a replay equals its steps one by one.
 */
#include "fuzz_input.h"
#include "ops/core/graph/zo_command.h"
#include "ops/core/graph/zo_op.h"
#include "ops/core/random/zo_stream.h"
#include "ops/core/weights/zo_checksum.h"
#include "ops/core/weights/zo_perturb.h"
#include "ops/core/weights/zo_update.h"
#include "ops/core/zo_little_endian.h"

enum { kTensors = 3, kMaxWords = 120, kHeadroom = 8 };

typedef struct graph {
  zo_buffer inputs[4 + 3 * kTensors];
  int32_t input_count;
  zo_buffer status;
  uint8_t* options;
  size_t length;
} graph;

typedef struct segment {
  graph ops[3];
  uint32_t tensors, flags, words, sizes[kTensors];
  int biases; /* the last tensor is of two biases, which RESTORE alone concerns */
  int8_t *weights[kTensors], *initial, *fraction;
  int32_t *multipliers[kTensors], *command, *state, *status;
  uint32_t total;
} segment;

static zo_buffer source(void* context, int32_t index) {
  const graph* g = (const graph*)context;
  const zo_buffer none = {NULL, 0};
  if (index == -1) return g->status;
  return index >= 0 && index < g->input_count ? g->inputs[index] : none;
}

static zo_buffer buffer_of(void* data, size_t bytes) {
  zo_buffer b = {data, (uint32_t)bytes};
  return b;
}

static int is_bias(const segment* s, uint32_t t) { return s->biases && t + 1u == s->tensors; }

static void make_op(segment* s, uint32_t op) {
  graph* g = &s->ops[op];
  g->length = 8u + 12u * s->tensors;
  g->options = (uint8_t*)fuzz_allocate(g->length);
  memset(g->options, 0, g->length);
  g->options[0] = ZO_OPTIONS_VERSION;
  g->options[1] = (uint8_t)(s->flags | (op == 0u ? ZO_OPTION_FIRST : 0u) | (op == 2u ? ZO_OPTION_LAST : 0u));
  g->options[2] = kHeadroom;
  g->options[3] = 8;
  zo_write_u16(g->options + 4, s->tensors);
  zo_write_u16(g->options + 6, 2);
  g->input_count = 0;
  g->inputs[g->input_count++] = buffer_of(s->command, 4u * s->words);
  g->inputs[g->input_count++] = buffer_of(s->state, 4u * ZO_STATE_WORDS);
  g->inputs[g->input_count++] = buffer_of(s->initial, s->total);
  if (s->flags & ZO_OPTION_FRACTION) {
    g->inputs[g->input_count++] = buffer_of(s->fraction, s->total - (s->biases ? 8u : 0u));
  }
  for (uint32_t t = 0; t < s->tensors; ++t) {
    uint8_t* entry = g->options + 8 + 12 * t;
    zo_write_u16(entry, t);
    zo_write_u16(entry + 2, t % 2u | (is_bias(s, t) ? ZO_OPTION_BIAS : 0u));
    zo_write_u32(entry + 4, 2);
    zo_write_u32(entry + 8, 1 + t);
    g->inputs[g->input_count++] = buffer_of(s->weights[t], s->sizes[t]);
    if (s->flags & ZO_OPTION_MULTIPLIER) {
      g->inputs[g->input_count++] = buffer_of(s->multipliers[t], 8);
    }
  }
  if (op == 2u) g->status = buffer_of(s->status, 4u * ZO_STATUS_WORDS);
}

static void make_segment(segment* s, fuzz_input* in) {
  memset(s, 0, sizeof *s);
  s->tensors = take_between(in, 1, kTensors);
  s->flags = take_u8(in);
  s->biases = (s->flags & 0x20u) != 0u;
  s->flags &= ZO_OPTION_FRACTION | ZO_OPTION_MULTIPLIER;
  s->words = take_between(in, 2, kMaxWords);
  const int large = take_u8(in) > 250u; /* more than a tile of the random stream */
  for (uint32_t t = 0; t < s->tensors; ++t) {
    s->sizes[t] = take_between(in, 1, 40) + (large ? 1024u : 0u);
    if (is_bias(s, t)) s->sizes[t] = 8;
    s->total += s->sizes[t];
  }
  s->initial = make_int8(in, s->total, 127 - kHeadroom);
  s->fraction = (int8_t*)fuzz_allocate(s->total);
  memset(s->fraction, 0, s->total);
  for (uint32_t t = 0; t < s->tensors; ++t) {
    s->weights[t] = (int8_t*)fuzz_allocate(s->sizes[t]);
    memset(s->weights[t], 0, s->sizes[t]);
    s->multipliers[t] = (int32_t*)fuzz_allocate(8);
    s->multipliers[t][0] = INT32_MAX;
    s->multipliers[t][1] = (int32_t)take_any(in);
  }
  s->command = (int32_t*)fuzz_allocate(4u * s->words);
  memset(s->command, 0, 4u * s->words);
  s->state = (int32_t*)fuzz_allocate(4u * ZO_STATE_WORDS);
  memset(s->state, 0, 4u * ZO_STATE_WORDS);
  s->status = (int32_t*)fuzz_allocate(4u * ZO_STATUS_WORDS);
  for (uint32_t op = 0; op < 3u; ++op) make_op(s, op);
}

static void free_segment(segment* s) {
  for (uint32_t t = 0; t < s->tensors; ++t) {
    free(s->weights[t]);
    free(s->multipliers[t]);
  }
  for (uint32_t op = 0; op < 3u; ++op) free(s->ops[op].options);
  free(s->initial);
  free(s->fraction);
  free(s->command);
  free(s->state);
  free(s->status);
}

static zo_status invoke(segment* s, zo_directory* directory) {
  static const zo_opcode order[3] = {ZO_OP_REPLAY, ZO_OP_UPDATE, ZO_OP_PERTURB};
  for (uint32_t op = 0; op < 3u; ++op) {
    graph* g = &s->ops[op];
    const zo_status status = zo_weight_op_run(order[op], g->options, g->length, source, g, directory);
    if (status != ZO_OK) return status;
  }
  return ZO_OK;
}

/* Weights and fractions, one after the other. */
static int8_t* weights_of(const segment* s) {
  int8_t* all = (int8_t*)fuzz_allocate(2u * s->total);
  uint32_t at = 0;
  for (uint32_t t = 0; t < s->tensors; ++t) {
    memcpy(all + at, s->weights[t], s->sizes[t]);
    at += s->sizes[t];
  }
  memcpy(all + s->total, s->fraction, s->total);
  return all;
}

static int is_same(const segment* s, const int8_t* before) {
  int8_t* now = weights_of(s);
  const int same = memcmp(now, before, 2u * s->total) == 0;
  free(now);
  return same;
}

static zo_distribution take_distribution(fuzz_input* in) {
  zo_distribution d;
  d.kind = (uint8_t)take_between(in, 0, 4);
  d.p_zero = (uint8_t)(d.kind == ZO_SPARSE_UNIFORM ? take_u8(in) : 0u);
  d.mu = (uint16_t)(d.kind == ZO_GAUSSIAN ? take_between(in, 0, 500) : take_between(in, 0, 9));
  return d;
}

static zo_perturb_terms take_terms(fuzz_input* in, zo_perturb_term* terms) {
  static const int32_t factors[4] = {1, -1, -2, 1};
  zo_perturb_terms all = {terms, take_between(in, 1, 10)};
  for (uint32_t i = 0; i < all.count; ++i) {
    const uint32_t drawn = take_u8(in);
    terms[i].seed = drawn;
    terms[i].k = factors[drawn % 4u];
    if (drawn > 252u) terms[i].k = (int32_t)take_any(in);
  }
  return all;
}

static void take_queries(fuzz_input* in, zo_query* queries, uint32_t count) {
  for (uint32_t q = 0; q < count; ++q) {
    queries[q].seed = take_u8(in);
    queries[q].coefficient = (int32_t)(take_u16(in) << take_between(in, 0, 8)) - 0x10000;
    if (queries[q].seed > 252u) queries[q].coefficient = (int32_t)take_any(in);
  }
}

/* Returns whether it has a perturbation. */
static int write_command(fuzz_input* in, segment* s) {
  zo_command_writer writer;
  zo_query queries[8];
  zo_perturb_term terms[10];
  int perturbs = 0;
  if (zo_command_begin(&writer, s->command, s->words, take_u8(in) & 3u) != ZO_OK) return 0;
  for (uint32_t i = take_between(in, 0, 3); i > 0u; --i) {
    const uint32_t chosen = take_between(in, 1, 4);
    const uint32_t block = take_flag(in) ? ZO_ALL_BLOCKS : take_between(in, 0, 2);
    const zo_distribution d = take_distribution(in);
    const uint32_t count = take_between(in, 1, 4);
    take_queries(in, queries, 8);
    const zo_perturb_terms more = take_terms(in, terms);
    if (chosen == 1u) (void)zo_command_restore(&writer, block);
    if (chosen == 2u) (void)zo_command_replay(&writer, block, d, queries, count, 8u / count);
    if (chosen == 3u) {
      const zo_perturb_terms* restored = take_flag(in) ? &more : NULL;
      (void)zo_command_update(&writer, block, d, restored, queries, count);
      /* Of coordinates, weights that no query moves are left where the terms have moved them. */
      perturbs |= restored != NULL && d.kind == ZO_COORDINATE;
    }
    if (chosen == 4u) {
      perturbs |= zo_command_perturb(&writer, block, d, &more) == ZO_OK;
    }
  }
  if (take_u8(in) > 200u) {
    s->command[take_between(in, 0, s->words - 1u)] = (int32_t)take_any(in);
    perturbs = 1; /* perhaps */
  }
  return perturbs;
}

/* A tensor of the segment by itself. */
static zo_tensor tensor_of(const segment* s, uint32_t t) {
  zo_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  uint32_t offset = 0;
  for (uint32_t i = 0; i < t; ++i) offset += s->sizes[i];
  tensor.weights = s->weights[t];
  tensor.fraction = (s->flags & ZO_OPTION_FRACTION) != 0u && !is_bias(s, t) ? s->fraction + offset : NULL;
  tensor.multiplier = s->flags & ZO_OPTION_MULTIPLIER ? s->multipliers[t] : NULL;
  tensor.type = is_bias(s, t) ? ZO_TENSOR_INT32 : ZO_TENSOR_INT8;
  tensor.size = s->sizes[t];
  tensor.channels = 2;
  tensor.inner = 1 + t;
  tensor.stream = t;
  tensor.limit = 127 - kHeadroom;
  return tensor;
}

/* The term that undoes each term: its opposite, that of -2 in two halves. */
static void check_opposite(fuzz_input* in, segment* s, uint32_t t) {
  const zo_tensor tensor = tensor_of(s, t);
  const zo_distribution d = take_distribution(in);
  zo_perturb_term terms[10];
  const zo_perturb_terms all = take_terms(in, terms);
  int8_t* before = weights_of(s);
  if (zo_perturb_s8(&tensor, d, &all) != ZO_OK) {
    HOLDS(is_same(s, before));
    free(before);
    return;
  }
  for (uint32_t i = 0; i < all.count; ++i) {
    const int32_t k = terms[i].k;
    const zo_perturb_term opposite = {terms[i].seed, k == 1 ? -1 : 1};
    const zo_perturb_terms back = {&opposite, 1};
    for (int32_t times = k == -2 ? 2 : 1; times > 0; --times) {
      HOLDS(zo_perturb_s8(&tensor, d, &back) == ZO_OK);
    }
  }
  HOLDS(is_same(s, before));
  free(before);
}

static void check_replay(fuzz_input* in, segment* s, uint32_t t) {
  const zo_tensor tensor = tensor_of(s, t);
  const zo_distribution d = take_distribution(in);
  zo_query queries[8];
  const uint32_t count = take_between(in, 1, 3), steps = take_between(in, 1, 8u / count);
  take_queries(in, queries, 8);
  int8_t* before = weights_of(s);
  uint32_t saturated = 0, one_by_one = 0;
  const zo_status status = zo_replay_s8(&tensor, d, queries, count, steps, &saturated);
  int8_t* replayed = weights_of(s);
  if (status != ZO_OK) {
    HOLDS(is_same(s, before));
  } else {
    HOLDS(saturated <= steps * tensor.size);
    /* Back to before, then step by step. */
    uint32_t at = 0;
    for (uint32_t i = 0; i < s->tensors; at += s->sizes[i++]) {
      memcpy(s->weights[i], before + at, s->sizes[i]);
    }
    memcpy(s->fraction, before + s->total, s->total);
    for (uint32_t i = 0; i < steps; ++i) {
      HOLDS(zo_update_s8(&tensor, d, NULL, queries + (size_t)i * count, count, &one_by_one) == ZO_OK);
    }
    HOLDS(is_same(s, replayed) && one_by_one == saturated);
  }
  free(before);
  free(replayed);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_input in = {data, size};
  segment s;
  make_segment(&s, &in);
  zo_directory_entry entries[kTensors];
  zo_directory directory = {ZO_DIRECTORY_MAGIC, take_between(&in, 0, kTensors), 0, entries, NULL};
  HOLDS(invoke(&s, &directory) == ZO_OK); /* a plain inference: initial weights */
  HOLDS(directory.count == s.tensors);
  for (uint32_t rounds = take_between(&in, 1, 2); rounds > 0u; --rounds) {
    int8_t* before = weights_of(&s);
    int perturbs = 1;
    memset(s.command, 0, 4u * s.words);
    if (take_u8(&in) < 64u) {
      for (uint32_t i = 0; i < s.words && in.left > 0u; ++i) s.command[i] = (int32_t)take_any(&in);
    } else {
      perturbs = write_command(&in, &s);
    }
    const zo_status status = invoke(&s, NULL);
    if (status != ZO_OK) HOLDS(is_same(&s, before));
    if (status == ZO_OK && !perturbs) {
      for (uint32_t t = 0; t < s.tensors; ++t) {
        HOLDS(is_bias(&s, t) || is_within(s.weights[t], s.sizes[t], 127 - kHeadroom));
      }
    }
    /* Back within the headroom for the next command. */
    if (perturbs) {
      uint32_t at = 0;
      for (uint32_t t = 0; t < s.tensors; at += s.sizes[t++]) {
        memcpy(s.weights[t], s.initial + at, s.sizes[t]);
      }
      memset(s.fraction, 0, s.total);
    }
    free(before);
  }
  const uint32_t t = take_between(&in, 0, s.tensors - 1u);
  check_opposite(&in, &s, t);
  check_replay(&in, &s, t);
  /* Damaged options and tensors: refused, or harmless. */
  graph* g = &s.ops[take_between(&in, 0, 2)];
  const uint32_t damage = take_u8(&in);
  if (damage < 64u) g->options[take_between(&in, 0, (uint32_t)g->length - 1u)] = (uint8_t)take_u8(&in);
  if (damage >= 64u && damage < 96u) {
    const uint32_t cut = take_between(&in, 0, (uint32_t)g->length);
    uint8_t* shorter = (uint8_t*)copy_of(g->options, cut > 0u ? cut : 1u);
    free(g->options);
    g->options = shorter;
    g->length = cut;
  }
  if (damage >= 96u && damage < 128u) {
    zo_buffer* b = &g->inputs[take_between(&in, 0, (uint32_t)g->input_count - 1u)];
    b->bytes = take_between(&in, 0, b->bytes); /* never more than there is */
    if (take_flag(&in)) b->data = NULL;
  }
  (void)invoke(&s, &directory);
  free_segment(&s);
  return 0;
}
