/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Weight ops over fake tensors. */
#include "core_test.h"

zo_buffer graph_source(void* context, int32_t index) {
  const graph* g = (const graph*)context;
  const zo_buffer nothing = {NULL, 0};
  if (index >= 0) return index < g->input_count ? g->inputs[index] : nothing;
  return index == -1 ? g->outputs[0] : nothing;
}

void put_u16(uint8_t* at, uint32_t value) {
  at[0] = (uint8_t)value;
  at[1] = (uint8_t)(value >> 8);
}

void put_u32(uint8_t* at, uint32_t value) {
  put_u16(at, value & 0xFFFFu);
  put_u16(at + 2, value >> 16);
}

void set_options(graph* g, size_t bytes) {
  g->options_memory = (char*)allocate(bytes + 1);
  g->options = (uint8_t*)g->options_memory + 1;
  g->options_bytes = bytes;
  memset(g->options, 0, bytes);
}

zo_buffer buffer_of(void* data, size_t bytes) {
  zo_buffer buffer;
  buffer.data = data;
  buffer.bytes = (uint32_t)bytes;
  return buffer;
}

/* A segment: three weight ops over the same tensors. */
typedef struct segment {
  graph ops[3]; /* replay, update, perturb */
  array weights[kMaxTensors];
  array all_initial, all_fraction;                   /* of the segment */
  array initial[kMaxTensors], fraction[kMaxTensors]; /* parts of them */
  int32_t* multiplier[kMaxTensors];
  int32_t *command, *state, *status;
  uint32_t tensors, words;
} segment;

static const zo_opcode op_order[3] = {ZO_OP_REPLAY, ZO_OP_UPDATE, ZO_OP_PERTURB};

static void make_segment(segment* s, uint32_t tensors, uint32_t words, uint32_t flags) {
  memset(s, 0, sizeof *s);
  s->tensors = tensors;
  s->words = words;
  s->command = (int32_t*)allocate(sizeof(int32_t) * words);
  s->state = (int32_t*)allocate(sizeof(int32_t) * ZO_STATE_WORDS);
  s->status = (int32_t*)allocate(sizeof(int32_t) * ZO_STATUS_WORDS);
  memset(s->command, 0, sizeof(int32_t) * words);
  memset(s->state, 0, sizeof(int32_t) * ZO_STATE_WORDS);
  memset(s->status, 0x55, sizeof(int32_t) * ZO_STATUS_WORDS);
  uint32_t total = 0;
  for (uint32_t t = 0; t < tensors; ++t) total += sizes[(t * 5 + tensors) % SIZES];
  s->all_initial = make_array(total, 1, 121);
  s->all_fraction = make_array(total, 2, 0);
  uint32_t offset = 0;
  for (uint32_t t = 0; t < tensors; ++t) {
    const uint32_t size = sizes[(t * 5 + tensors) % SIZES];
    s->weights[t] = make_array(size, t, 0); /* zero, as a runtime leaves a variable */
    s->initial[t] = part_of(&s->all_initial, offset, size);
    s->fraction[t] = part_of(&s->all_fraction, offset, size);
    offset += size;
    s->multiplier[t] = (int32_t*)allocate(sizeof(int32_t) * 2);
    s->multiplier[t][0] = INT32_MAX;
    s->multiplier[t][1] = INT32_C(1) << 29;
  }
  for (int op = 0; op < 3; ++op) {
    graph* g = &s->ops[op];
    set_options(g, 8 + 12 * tensors);
    g->options[0] = ZO_OPTIONS_VERSION;
    g->options[1] = (uint8_t)(flags | (op == 0 ? ZO_OPTION_FIRST : 0u) | (op == 2 ? ZO_OPTION_LAST : 0u));
    g->options[2] = (uint8_t)limits.headroom;
    g->options[3] = (uint8_t)limits.max_queries;
    put_u16(g->options + 4, tensors);
    put_u16(g->options + 6, limits.blocks);
    g->inputs[g->input_count++] = buffer_of(s->command, sizeof(int32_t) * words);
    g->inputs[g->input_count++] = buffer_of(s->state, sizeof(int32_t) * ZO_STATE_WORDS);
    g->inputs[g->input_count++] = buffer_of(s->all_initial.at, s->all_initial.size);
    if (flags & ZO_OPTION_FRACTION) {
      g->inputs[g->input_count++] = buffer_of(s->all_fraction.at, s->all_fraction.size);
    }
    for (uint32_t t = 0; t < tensors; ++t) {
      uint8_t* entry = g->options + 8 + 12 * t;
      put_u16(entry, 10 + t);                /* stream */
      put_u16(entry + 2, t % limits.blocks); /* array */
      put_u32(entry + 4, 2);                 /* channels */
      put_u32(entry + 8, 3);                 /* inner */
      g->inputs[g->input_count++] = buffer_of(s->weights[t].at, s->weights[t].size);
      if (flags & ZO_OPTION_MULTIPLIER) {
        g->inputs[g->input_count++] = buffer_of(s->multiplier[t], sizeof(int32_t) * 2);
      }
    }
    if (op == 2) g->outputs[0] = buffer_of(s->status, sizeof(int32_t) * ZO_STATUS_WORDS);
  }
}

static void free_segment(segment* s) {
  for (uint32_t t = 0; t < s->tensors; ++t) {
    free(s->weights[t].memory);
    free(s->multiplier[t]);
  }
  free(s->all_initial.memory);
  free(s->all_fraction.memory);
  for (int op = 0; op < 3; ++op) free(s->ops[op].options_memory);
  free(s->command);
  free(s->state);
  free(s->status);
}

static zo_status invoke(segment* s, zo_directory* directory) {
  for (int op = 0; op < 3; ++op) {
    graph* g = &s->ops[op];
    const zo_status status = zo_weight_op_run(op_order[op], g->options, g->options_bytes, graph_source, g, directory);
    if (status != ZO_OK) return status;
  }
  return ZO_OK;
}

static zo_tensor segment_tensor(const segment* s, uint32_t t, uint32_t flags) {
  zo_tensor tensor = tensor_of(&s->weights[t], flags & ZO_OPTION_FRACTION ? &s->fraction[t] : NULL, 10 + t);
  tensor.limit = 127 - (int32_t)limits.headroom;
  tensor.channels = 2;
  tensor.inner = 3;
  tensor.type = ZO_TENSOR_INT8;
  if (flags & ZO_OPTION_MULTIPLIER) tensor.multiplier = s->multiplier[t];
  return tensor;
}

static uint32_t segment_checksum(const segment* s, uint32_t flags) {
  uint32_t sum = 0;
  for (uint32_t t = 0; t < s->tensors; ++t) {
    const zo_tensor tensor = segment_tensor(s, t, flags);
    sum += zo_checksum(&tensor);
  }
  return sum;
}

static int is_initial(const segment* s) {
  for (uint32_t t = 0; t < s->tensors; ++t) {
    if (!same(&s->weights[t], &s->initial[t])) return 0;
  }
  return 1;
}

static void reset_by_runtime(segment* s) {
  memset(s->state, 0, sizeof(int32_t) * ZO_STATE_WORDS);
  for (uint32_t t = 0; t < s->tensors; ++t) {
    memset(s->weights[t].at, 0, s->weights[t].size);
    memset(s->fraction[t].at, 0, s->fraction[t].size);
  }
}

static zo_status append_perturb(zo_command_writer* writer, zo_distribution distribution, const zo_perturb_term* term) {
  const zo_perturb_terms terms = {term, 1};
  return zo_command_perturb(writer, ZO_ALL_BLOCKS, distribution, &terms);
}

/* An op whose weights somebody else moves: says where they are, and carries nothing out. */
static void test_publishing(uint32_t tensors, uint32_t flags) {
  segment s;
  make_segment(&s, tensors, 16, flags);
  zo_directory_entry entries[kMaxTensors];
  zo_directory directory = {ZO_DIRECTORY_MAGIC, tensors, 0, entries, NULL};
  zo_directory_restore(&directory); /* before the first invoke there is nothing to do */
  memset(s.command, 0, sizeof(int32_t) * s.words);
  for (int round = 0; round < 3; ++round) {
    for (int op = 0; op < 3; ++op) {
      graph* g = &s.ops[op];
      CHECK(zo_weight_op_publish(g->options, g->options_bytes, graph_source, g, &directory) == ZO_OK);
    }
    if (round != 1) CHECK(is_initial(&s));
    CHECK(directory.count == tensors && directory.state == s.state);
    for (uint32_t t = 0; t < tensors; ++t) {
      const zo_tensor tensor = segment_tensor(&s, t, flags);
      CHECK(entries[t].weights == tensor.weights && entries[t].fraction == tensor.fraction);
      CHECK(entries[t].size == tensor.size && entries[t].stream == tensor.stream);
    }
    /* Moved weights stay moved until they are restored. */
    if (round == 0) s.weights[0].at[0] = (int8_t)(s.weights[0].at[0] ^ 1);
    if (round == 1) CHECK(!is_initial(&s));
    if (round == 1) zo_directory_restore(&directory);
  }
  const zo_distribution distribution = {ZO_RADEMACHER, 0, 1};
  const zo_perturb_term term = {5, 1};
  zo_command_writer writer;
  CHECK(zo_command_begin(&writer, s.command, s.words, ZO_FLAG_LOSS) == ZO_OK);
  for (int filled = 0; filled < 2; ++filled) {
    for (int op = 0; op < 3; ++op) {
      graph* g = &s.ops[op];
      CHECK(zo_weight_op_publish(g->options, g->options_bytes, graph_source, g, NULL) ==
            (filled ? ZO_ERROR_COMMAND : ZO_OK));
      CHECK(zo_weight_op_publish(g->options, g->options_bytes - 1u, graph_source, g, NULL) == ZO_ERROR_OPTIONS);
    }
    /* The ops behind it learn whether losses are wanted. */
    if (!filled) CHECK(s.status[0] == s.command[0] && s.status[0] != 0);
    CHECK(append_perturb(&writer, distribution, &term) == ZO_OK);
  }
  s.command[0] = 0x12345678;
  CHECK(zo_weight_op_publish(s.ops[0].options, s.ops[0].options_bytes, graph_source, &s.ops[0], &directory) ==
        ZO_ERROR_COMMAND);
  CHECK(is_initial(&s));
  free_segment(&s);
}

void test_weight_op(uint32_t tensors, uint32_t flags) {
  test_publishing(tensors, flags);
  segment s;
  make_segment(&s, tensors, kCapacity, flags);
  for (int op = 0; op < 3; ++op) {
    graph* g = &s.ops[op];
    CHECK(zo_weight_op_check(g->options, g->options_bytes, graph_source, g) == ZO_OK);
  }

  /* A plain inference initializes the weights and counts nothing. */
  zo_directory_entry entries[2];
  zo_directory directory = {ZO_DIRECTORY_MAGIC, 2, 0, entries, NULL};
  CHECK(invoke(&s, &directory) == ZO_OK);
  CHECK(is_initial(&s));
  CHECK(s.state[0] == ZO_STATE_MAGIC);
  CHECK(s.status[0] == 0 && s.status[1] == 0 && s.status[2] == 0 && s.status[3] == 0);
  CHECK(directory.count == tensors && directory.state == s.state);
  CHECK(entries[0].weights == s.weights[0].at && entries[0].size == s.weights[0].size);
  CHECK(entries[0].stream == 10);
  CHECK(entries[0].fraction == (flags & ZO_OPTION_FRACTION ? s.fraction[0].at : NULL));

  /* An update, with the checksum, of all blocks and then of one. */
  const zo_distribution distribution = {ZO_RADEMACHER, 0, 2};
  const zo_query query = {99, 400000};
  const zo_perturb_term plus = {77, 1}, minus = {77, -1};
  zo_command_writer writer;
  CHECK(zo_command_begin(&writer, s.command, s.words, ZO_FLAG_CHECKSUM) == ZO_OK);
  CHECK(zo_command_update(&writer, ZO_ALL_BLOCKS, distribution, NULL, &query, 1) == ZO_OK);
  CHECK(invoke(&s, NULL) == ZO_OK);
  CHECK(s.status[0] == s.command[0] && s.status[1] == 1);
  CHECK((uint32_t)s.status[3] == segment_checksum(&s, flags));
  for (uint32_t t = 0; t < tensors; ++t) {
    array expected = copy_array(&s.initial[t], 0), fraction = make_array(expected.size, 0, 0);
    zo_tensor tensor = segment_tensor(&s, t, flags);
    tensor.weights = expected.at;
    if (tensor.fraction != NULL) tensor.fraction = fraction.at;
    CHECK(zo_update_s8(&tensor, distribution, NULL, &query, 1, NULL) == ZO_OK);
    CHECK(same(&s.weights[t], &expected));
    CHECK(tensor.fraction == NULL || same(&s.fraction[t], &fraction));
    free(expected.memory);
    free(fraction.memory);
  }

  /* Perturbed, then back. */
  const uint32_t before = segment_checksum(&s, flags);
  CHECK(zo_command_begin(&writer, s.command, s.words, ZO_FLAG_LOSS) == ZO_OK);
  CHECK(append_perturb(&writer, distribution, &plus) == ZO_OK);
  CHECK(invoke(&s, NULL) == ZO_OK);
  CHECK(segment_checksum(&s, flags) != before && s.status[3] == 0);
  CHECK(zo_command_begin(&writer, s.command, s.words, 0) == ZO_OK);
  CHECK(append_perturb(&writer, distribution, &minus) == ZO_OK);
  CHECK(invoke(&s, NULL) == ZO_OK);
  CHECK(segment_checksum(&s, flags) == before);

  /* One block only. */
  CHECK(zo_command_begin(&writer, s.command, s.words, 0) == ZO_OK);
  CHECK(zo_command_restore(&writer, 0) == ZO_OK);
  CHECK(invoke(&s, NULL) == ZO_OK);
  CHECK(same(&s.weights[0], &s.initial[0]));
  CHECK(tensors == 1 || s.weights[1].size < 20 || !same(&s.weights[1], &s.initial[1]));

  /* An error in the last instruction stops the first. */
  const uint32_t now = segment_checksum(&s, flags);
  const zo_distribution too_large = {ZO_RADEMACHER, 0, 7};
  CHECK(zo_command_begin(&writer, s.command, s.words, 0) == ZO_OK);
  CHECK(zo_command_restore(&writer, ZO_ALL_BLOCKS) == ZO_OK);
  CHECK(zo_command_update(&writer, ZO_ALL_BLOCKS, distribution, NULL, &query, 1) == ZO_OK);
  CHECK(append_perturb(&writer, too_large, &plus) == ZO_OK);
  CHECK(invoke(&s, NULL) == ZO_ERROR_HEADROOM);
  CHECK(segment_checksum(&s, flags) == now);

  /* The runtime resets the variables: the initial weights come back by themselves. */
  reset_by_runtime(&s);
  memset(s.command, 0, sizeof(int32_t) * s.words);
  s.ops[2].outputs[0].data = NULL; /* nobody reads the status */
  CHECK(invoke(&s, NULL) == ZO_OK);
  CHECK(is_initial(&s) && s.state[1] == 0);

  /* Random commands, some damaged. */
  for (int round = 0; round < ROUNDS(300); ++round) {
    uint32_t length;
    int32_t* words = random_command(&length, (uint32_t)round % 4u);
    memcpy(s.command, words, sizeof(int32_t) * length);
    if (round % 3 == 0) {
      const uint32_t at = random_below(length);
      s.command[at] = (int32_t)random_u32();
    }
    const uint32_t sum = segment_checksum(&s, flags);
    if (invoke(&s, NULL) != ZO_OK) CHECK(segment_checksum(&s, flags) == sum);
    free(words);
  }

  /* Damaged options and tensors are refused, or harmless. */
  for (int op = 0; op < 3; ++op) {
    graph* g = &s.ops[op];
    CHECK(zo_weight_op_check(NULL, 100, graph_source, g) == ZO_ERROR_OPTIONS);
    CHECK(zo_weight_op_check(g->options, g->options_bytes, NULL, g) == ZO_ERROR_ARGUMENT);
    for (size_t cut = 0; cut < g->options_bytes; ++cut) {
      char* copy = (char*)allocate(cut > 0 ? cut : 1);
      memcpy(copy, g->options, cut);
      CHECK(zo_weight_op_check((uint8_t*)copy, cut, graph_source, g) == ZO_ERROR_OPTIONS);
      CHECK(zo_weight_op_run(op_order[op], (uint8_t*)copy, cut, graph_source, g, NULL) == ZO_ERROR_OPTIONS);
      free(copy);
    }
    for (int round = 0; round < ROUNDS(2000); ++round) {
      const size_t at = random_below((uint32_t)g->options_bytes);
      const uint8_t old = g->options[at];
      g->options[at] = (uint8_t)random_u32();
      if (zo_weight_op_check(g->options, g->options_bytes, graph_source, g) == ZO_OK) {
        (void)zo_weight_op_run(op_order[op], g->options, g->options_bytes, graph_source, g, NULL);
      }
      g->options[at] = old;
    }
    for (int32_t i = 0; i < g->input_count; ++i) {
      const uint32_t old = g->inputs[i].bytes;
      g->inputs[i].bytes = i == 0 ? 4 : old + 1;
      CHECK(zo_weight_op_check(g->options, g->options_bytes, graph_source, g) == ZO_ERROR_ARGUMENT);
      g->inputs[i].bytes = ZO_NO_SIZE;
      CHECK(zo_weight_op_check(g->options, g->options_bytes, graph_source, g) == ZO_ERROR_ARGUMENT);
      g->inputs[i].bytes = old;
    }
    /* A tensor without memory: nothing is done, not even to the others. */
    const uint32_t untouched = segment_checksum(&s, flags);
    CHECK(zo_command_begin(&writer, s.command, s.words, 0) == ZO_OK);
    CHECK(zo_command_restore(&writer, ZO_ALL_BLOCKS) == ZO_OK);
    CHECK(zo_command_update(&writer, ZO_ALL_BLOCKS, distribution, NULL, &query, 1) == ZO_OK);
    for (int32_t i = 0; i < g->input_count; ++i) {
      void* const old = g->inputs[i].data;
      g->inputs[i].data = NULL;
      CHECK(zo_weight_op_check(g->options, g->options_bytes, graph_source, g) == ZO_OK);
      CHECK(zo_weight_op_run(op_order[op], g->options, g->options_bytes, graph_source, g, NULL) == ZO_ERROR_ARGUMENT);
      CHECK(segment_checksum(&s, flags) == untouched);
      g->inputs[i].data = old;
    }
    /* The op would overwrite lengths that it reads. */
    const zo_buffer command = g->inputs[0];
    for (int32_t i = 1; i < g->input_count; ++i) {
      g->inputs[0].data = g->inputs[i].data;
      const uint32_t size = g->inputs[i].bytes / 4u * 4u;
      g->inputs[0].bytes = size > command.bytes ? command.bytes : size;
      /* If the bytes happen to be an empty command, nothing is written either. */
      const int is_aligned = (uintptr_t)g->inputs[i].data % sizeof(int32_t) == 0u;
      const int is_none = i > 1 && size >= 8u && is_aligned && *(const int32_t*)g->inputs[i].data == 0;
      CHECK(zo_weight_op_run(op_order[op], g->options, g->options_bytes, graph_source, g, NULL) ==
            (is_none ? ZO_OK : ZO_ERROR_ARGUMENT));
      CHECK(segment_checksum(&s, flags) == untouched);
    }
    g->inputs[0] = command;
    CHECK(zo_weight_op_run(op_order[op], g->options, g->options_bytes, NULL, g, NULL) == ZO_ERROR_ARGUMENT);
    if (op == 2) { /* a status that is written beyond its end */
      const zo_buffer old = g->outputs[0];
      int32_t* none = (int32_t*)allocate(1); /* not null, and yet without a size: absent */
      g->outputs[0] = buffer_of(none, 0);
      CHECK(zo_weight_op_check(g->options, g->options_bytes, graph_source, g) == ZO_OK);
      memset(s.command, 0, sizeof(int32_t) * s.words);
      CHECK(zo_weight_op_run(op_order[op], g->options, g->options_bytes, graph_source, g, NULL) == ZO_OK);
      free(none);
      g->outputs[0] = buffer_of(s.status, sizeof(int32_t));
      CHECK(zo_weight_op_check(g->options, g->options_bytes, graph_source, g) == ZO_ERROR_ARGUMENT);
      g->outputs[0] = old;
    }
    const int32_t count = g->input_count;
    g->input_count = count - 1;
    const zo_status status = zo_weight_op_check(g->options, g->options_bytes, graph_source, g);
    CHECK(status == ZO_ERROR_ARGUMENT || flags & ZO_OPTION_MULTIPLIER);
    g->input_count = count;
  }
  /* Multipliers that point somewhere and have no size are absent, too. */
  void* nothing = allocate(1);
  CHECK(zo_command_begin(&writer, s.command, s.words, 0) == ZO_OK);
  CHECK(zo_command_update(&writer, ZO_ALL_BLOCKS, distribution, NULL, &query, 1) == ZO_OK);
  const int32_t first = (flags & ZO_OPTION_FRACTION) != 0u ? 4 : 3;
  for (uint32_t t = 0; (flags & ZO_OPTION_MULTIPLIER) != 0u && t < tensors; ++t) {
    s.ops[1].inputs[first + (int32_t)(2u * t + 1u)] = buffer_of(nothing, 0);
  }
  CHECK(zo_weight_op_run(ZO_OP_UPDATE, s.ops[1].options, s.ops[1].options_bytes, graph_source, &s.ops[1], NULL) ==
        ZO_OK);
  free(nothing);
  free_segment(&s);
}
