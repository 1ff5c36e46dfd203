/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/graph/zo_command.h"

#include <string.h>

#include "ops/core/random/zo_stream.h"
#include "ops/core/weights/zo_perturb.h"
#include "ops/core/weights/zo_update.h"

/* One instruction, decoded. */
typedef struct instruction {
  uint32_t opcode;
  uint32_t selector; /* 0: every block, b + 1: block b */
  uint32_t count;
  zo_distribution distribution;
  int32_t argument;
  const int32_t* items;
  uint32_t words; /* header included */
} instruction;

static uint32_t encode_distribution(zo_distribution distribution) {
  return (uint32_t)distribution.kind << 24 | (uint32_t)distribution.p_zero << 16 | (uint32_t)distribution.mu;
}

/* Words of the items, or a number no command can hold, whose length is not negative as int32, where
 * it is too large. */
static uint32_t item_words(uint32_t opcode, uint32_t count, int32_t argument) {
  uint64_t items = count;
  if (opcode == ZO_OP_RESTORE) items = 0;
  if (opcode == ZO_OP_REPLAY) items *= (uint32_t)argument;
  if (opcode == ZO_OP_UPDATE) items += (uint32_t)argument;
  return items < UINT32_MAX / 8u ? 2u * (uint32_t)items : UINT32_MAX / 2u;
}

/* Decodes the instruction at words[at]; the header must lie within the command. */
static instruction decode_instruction(const int32_t* words, uint32_t at) {
  const uint32_t head = (uint32_t)words[at];
  const uint32_t distribution = (uint32_t)words[at + 2u];
  instruction in;
  in.opcode = head >> 24;
  in.selector = head & UINT32_C(0x00FFFFFF);
  in.count = (uint32_t)words[at + 1u];
  in.distribution.kind = (uint8_t)(distribution >> 24);
  in.distribution.p_zero = (uint8_t)(distribution >> 16);
  in.distribution.mu = (uint16_t)distribution;
  in.argument = words[at + 3u];
  in.items = words + at + ZO_INSTRUCTION_HEADER_WORDS;
  in.words = ZO_INSTRUCTION_HEADER_WORDS + item_words(in.opcode, in.count, in.argument);
  return in;
}

/* The items are pairs of int32 words, and so are these structs. */
static const zo_query* as_queries(const int32_t* items) { return (const zo_query*)(const void*)items; }
static const zo_perturb_term* as_terms(const int32_t* items) { return (const zo_perturb_term*)(const void*)items; }

/* The perturbation that an UPDATE or a PERTURB has. */
static zo_perturb_terms terms_at(const instruction* in) {
  const int updates = in->opcode == ZO_OP_UPDATE;
  zo_perturb_terms terms;
  terms.terms = as_terms(in->items + (updates ? 2u * in->count : 0u));
  terms.count = updates ? (uint32_t)in->argument : in->count;
  return terms;
}

static uint32_t command_end(const int32_t* words) {
  return words[0] == 0 ? 0u : ZO_COMMAND_HEADER_WORDS + (uint32_t)words[1];
}

/* --- Checking ------------------------------------------------------------ */

static zo_status check_perturbation(const instruction* in, const zo_limits* limits) {
  const zo_perturb_terms terms = terms_at(in);
  if (terms.count == 0u) return ZO_OK;
  const zo_status status = zo_perturb_check(in->distribution, &terms);
  if (status != ZO_OK) return status;
  return zo_distribution_reach(in->distribution) <= (int32_t)limits->headroom ? ZO_OK : ZO_ERROR_HEADROOM;
}

static zo_status check_instruction(const instruction* in, const zo_limits* limits) {
  if (in->selector > limits->blocks) return ZO_ERROR_BLOCK;
  switch (in->opcode) {
    case ZO_OP_RESTORE:
      return in->count == 0 && encode_distribution(in->distribution) == 0u && in->argument == 0 ? ZO_OK
                                                                                                : ZO_ERROR_COMMAND;

    case ZO_OP_REPLAY: {
      if (in->argument < 1 || (uint32_t)in->argument > limits->max_queries) return ZO_ERROR_QUERIES;
      if (in->count == 0) return ZO_ERROR_COMMAND;
      const uint32_t queries = (uint32_t)in->argument;
      for (uint32_t step = 0; step < in->count; ++step) {
        const zo_status status =
            zo_step_check(in->distribution, as_queries(in->items) + (size_t)step * queries, queries);
        if (status != ZO_OK) return status;
      }
      return ZO_OK;
    }

    case ZO_OP_UPDATE: {
      if (in->count < 1 || in->count > limits->max_queries) return ZO_ERROR_QUERIES;
      const zo_status status = check_perturbation(in, limits);
      if (status != ZO_OK) return status;
      return zo_step_check(in->distribution, as_queries(in->items), in->count);
    }

    default: /* ZO_OP_PERTURB */
      if (in->count < 1) return ZO_ERROR_QUERIES;
      if (in->argument != 0) return ZO_ERROR_COMMAND;
      return check_perturbation(in, limits);
  }
}

zo_status zo_command_check(const int32_t* words, uint32_t capacity, const zo_limits* limits) {
  if (words == NULL || limits == NULL || capacity < ZO_COMMAND_HEADER_WORDS) {
    return ZO_ERROR_ARGUMENT;
  }
  const uint32_t head = (uint32_t)words[0];
  if (head == 0u) return ZO_OK;
  if ((head & ~ZO_FLAGS) != ZO_COMMAND_MAGIC) return ZO_ERROR_COMMAND;
  if (words[1] < 0 || (uint32_t)words[1] > capacity - ZO_COMMAND_HEADER_WORDS) {
    return ZO_ERROR_COMMAND;
  }

  const uint32_t end = command_end(words);
  uint32_t last_opcode = ZO_OP_RESTORE;
  for (uint32_t at = ZO_COMMAND_HEADER_WORDS; at < end;) {
    if (end - at < ZO_INSTRUCTION_HEADER_WORDS) return ZO_ERROR_COMMAND;
    const instruction in = decode_instruction(words, at);
    if (in.opcode < ZO_OP_RESTORE || in.opcode > ZO_OP_PERTURB) return ZO_ERROR_OPCODE;
    if (in.opcode < last_opcode) return ZO_ERROR_ORDER;
    if (in.opcode == ZO_OP_REPLAY && in.argument < 1) return ZO_ERROR_QUERIES;
    if (in.words > end - at) return ZO_ERROR_COMMAND;
    const zo_status status = check_instruction(&in, limits);
    if (status != ZO_OK) return status;
    last_opcode = in.opcode;
    at += in.words;
  }
  return ZO_OK;
}

uint32_t zo_command_flags(const int32_t* words) { return (uint32_t)words[0] & ZO_FLAGS; }

int zo_command_restores_all(const int32_t* words) {
  const uint32_t end = command_end(words);
  for (uint32_t at = ZO_COMMAND_HEADER_WORDS; at < end;) {
    const instruction in = decode_instruction(words, at);
    if (in.opcode == ZO_OP_RESTORE && in.selector == 0u) return 1;
    at += in.words;
  }
  return 0;
}

uint32_t zo_command_steps(const int32_t* words, zo_opcode opcode) {
  uint32_t steps = 0;
  const uint32_t end = command_end(words);
  for (uint32_t at = ZO_COMMAND_HEADER_WORDS; at < end;) {
    const instruction in = decode_instruction(words, at);
    if (in.opcode == (uint32_t)opcode) {
      steps += in.opcode == ZO_OP_REPLAY ? in.count : (in.opcode == ZO_OP_UPDATE ? 1u : 0u);
    }
    at += in.words;
  }
  return steps;
}

/* --- Executing ------------------------------------------------------------ */

void zo_restore_s8(const zo_tensor* tensor, const int8_t* initial) {
  memcpy(tensor->weights, initial, tensor->size);
  if (tensor->fraction != NULL) memset(tensor->fraction, 0, tensor->size);
}

static zo_status execute_instruction(const instruction* in, const zo_tensor* tensor, const int8_t* initial,
                                     uint32_t* saturated) {
  const zo_perturb_terms terms = terms_at(in);
  switch (in->opcode) {
    case ZO_OP_RESTORE:
      if (initial == NULL || tensor->weights == NULL) return ZO_ERROR_ARGUMENT;
      zo_restore_s8(tensor, initial);
      return ZO_OK;
    case ZO_OP_REPLAY:
      return zo_replay_s8(tensor, in->distribution, as_queries(in->items), (uint32_t)in->argument, in->count,
                          saturated);
    case ZO_OP_UPDATE:
      return zo_update_s8(tensor, in->distribution, terms.count > 0u ? &terms : NULL, as_queries(in->items), in->count,
                          saturated);
    default:
      return zo_perturb_s8(tensor, in->distribution, &terms);
  }
}

zo_status zo_command_execute(const int32_t* words, zo_opcode opcode, const zo_tensor* tensor, uint32_t block,
                             const int8_t* initial, uint32_t* saturated) {
  if (words == NULL || tensor == NULL) return ZO_ERROR_ARGUMENT;
  const uint32_t end = command_end(words);
  for (uint32_t at = ZO_COMMAND_HEADER_WORDS; at < end;) {
    const instruction in = decode_instruction(words, at);
    if (in.opcode == (uint32_t)opcode && (in.selector == 0u || in.selector == block + 1u)) {
      const zo_status status = execute_instruction(&in, tensor, initial, saturated);
      if (status != ZO_OK) return status;
    }
    at += in.words;
  }
  return ZO_OK;
}

/* --- Writing -------------------------------------------------------------- */

zo_status zo_command_begin(zo_command_writer* writer, int32_t* words, uint32_t capacity, uint32_t flags) {
  if (writer == NULL || words == NULL || (flags & ~ZO_FLAGS) != 0u) {
    return ZO_ERROR_ARGUMENT;
  }
  if (capacity < ZO_COMMAND_HEADER_WORDS) return ZO_ERROR_CAPACITY;
  writer->words = words;
  writer->capacity = capacity;
  writer->length = ZO_COMMAND_HEADER_WORDS;
  words[0] = (int32_t)(ZO_COMMAND_MAGIC | flags);
  words[1] = 0;
  return ZO_OK;
}

/* Appends an instruction; its items are those of `items`, then those of `more`. */
static zo_status append_instruction(zo_command_writer* writer, zo_opcode opcode, uint32_t block, uint32_t count,
                                    zo_distribution distribution, int32_t argument, const void* items,
                                    const zo_perturb_terms* more) {
  if (writer == NULL || writer->words == NULL) return ZO_ERROR_ARGUMENT;
  if (block != ZO_ALL_BLOCKS && block >= ZO_BLOCKS_MAX) return ZO_ERROR_BLOCK;
  const uint32_t payload = item_words(opcode, count, argument);
  const uint32_t tail = more != NULL ? item_words(ZO_OP_PERTURB, more->count, 0) : 0u;
  const uint32_t head = payload - tail;
  if ((head > 0u && items == NULL) || (tail > 0u && more->terms == NULL)) return ZO_ERROR_ARGUMENT;
  const uint32_t room = writer->capacity - writer->length;
  if (room < ZO_INSTRUCTION_HEADER_WORDS || payload > room - ZO_INSTRUCTION_HEADER_WORDS) {
    return ZO_ERROR_CAPACITY;
  }
  int32_t* at = writer->words + writer->length;
  const uint32_t selector = block == ZO_ALL_BLOCKS ? 0u : block + 1u;
  at[0] = (int32_t)((uint32_t)opcode << 24 | selector);
  at[1] = (int32_t)count;
  at[2] = (int32_t)encode_distribution(distribution);
  at[3] = argument;
  at += ZO_INSTRUCTION_HEADER_WORDS;
  if (head > 0u) memcpy(at, items, head * sizeof(int32_t));
  if (tail > 0u) memcpy(at + head, more->terms, tail * sizeof(int32_t));
  writer->length += ZO_INSTRUCTION_HEADER_WORDS + payload;
  writer->words[1] = (int32_t)(writer->length - ZO_COMMAND_HEADER_WORDS);
  return ZO_OK;
}

zo_status zo_command_restore(zo_command_writer* writer, uint32_t block) {
  const zo_distribution none = {0, 0, 0};
  return append_instruction(writer, ZO_OP_RESTORE, block, 0, none, 0, NULL, NULL);
}

zo_status zo_command_replay(zo_command_writer* writer, uint32_t block, zo_distribution distribution,
                            const zo_query* queries, uint32_t count, uint32_t steps) {
  if (count == 0 || count > ZO_MAX_QUERIES) return ZO_ERROR_QUERIES;
  return append_instruction(writer, ZO_OP_REPLAY, block, steps, distribution, (int32_t)count, queries, NULL);
}

zo_status zo_command_update(zo_command_writer* writer, uint32_t block, zo_distribution distribution,
                            const zo_perturb_terms* restore, const zo_query* queries, uint32_t count) {
  if (restore != NULL && restore->count > ZO_MAX_TERMS) return ZO_ERROR_QUERIES;
  const int32_t argument = restore != NULL ? (int32_t)restore->count : 0;
  return append_instruction(writer, ZO_OP_UPDATE, block, count, distribution, argument, queries, restore);
}

zo_status zo_command_perturb(zo_command_writer* writer, uint32_t block, zo_distribution distribution,
                             const zo_perturb_terms* terms) {
  if (terms == NULL) return ZO_ERROR_ARGUMENT;
  if (terms->count > ZO_MAX_TERMS) return ZO_ERROR_QUERIES;
  return append_instruction(writer, ZO_OP_PERTURB, block, terms->count, distribution, 0, terms->terms, NULL);
}
