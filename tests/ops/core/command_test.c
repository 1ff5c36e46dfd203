/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Commands of the weight ops. */
#include "core_test.h"

const zo_limits limits = {6, 5, 3};

/* Appends random instructions in order; returns a copy of exactly the words in use. */
int32_t* random_command(uint32_t* length, uint32_t flags) {
  int32_t words[kCapacity];
  zo_command_writer writer;
  CHECK(zo_command_begin(&writer, words, kCapacity, flags) == ZO_OK);
  static const zo_distribution small[] = {{ZO_RADEMACHER, 0, 3}, {ZO_SPARSE_UNIFORM, 90, 6}, {ZO_GAUSSIAN, 0, 200}};
  for (int opcode = 1; opcode <= 4; ++opcode) {
    for (uint32_t repeat = random_below(3); repeat > 0; --repeat) {
      const uint32_t block_number = random_below(2) ? ZO_ALL_BLOCKS : random_below(limits.blocks);
      const zo_distribution distribution = small[random_below(3)];
      zo_query queries[10];
      zo_perturb_term terms[5];
      random_queries(queries, 10, 50000);
      for (int t = 0; t < 5; ++t) {
        terms[t].seed = random_u32();
        terms[t].k = t % 2 ? 1 : -2;
      }
      const uint32_t count = 1 + random_below(limits.max_queries);
      zo_status status;
      if (opcode == ZO_OP_RESTORE) {
        status = zo_command_restore(&writer, block_number);
      } else if (opcode == ZO_OP_REPLAY) {
        status = zo_command_replay(&writer, block_number, distribution, queries, count, count <= 3 ? 3 : 2);
      } else if (opcode == ZO_OP_UPDATE) {
        const zo_perturb_terms restore = {terms, random_below(3)};
        status =
            zo_command_update(&writer, block_number, distribution, random_below(2) ? NULL : &restore, queries, count);
      } else {
        const zo_perturb_terms all = {terms, count};
        status = zo_command_perturb(&writer, block_number, distribution, &all);
      }
      CHECK(status == ZO_OK || status == ZO_ERROR_CAPACITY);
    }
  }
  int32_t* exact = (int32_t*)allocate(sizeof(int32_t) * writer.length);
  memcpy(exact, words, sizeof(int32_t) * writer.length);
  *length = writer.length;
  return exact;
}

void test_commands(void) {
  unsigned accepted = 0;
  for (int round = 0; round < ROUNDS(3000); ++round) {
    uint32_t length;
    int32_t* words = random_command(&length, (uint32_t)round % 4u);
    CHECK(zo_command_check(words, length, &limits) == ZO_OK);
    CHECK(zo_command_flags(words) == (uint32_t)round % 4u);

    array weights = make_array(sizes[(unsigned)round % SIZES], (uint32_t)round % 4u, 120);
    array fraction = make_array(weights.size, 1, 100), initial = make_array(weights.size, 1, 120);
    const zo_tensor tensor = tensor_of(&weights, round % 2 ? &fraction : NULL, 4);
    uint32_t saturated = 0;
    for (int opcode = ZO_OP_RESTORE; opcode <= ZO_OP_PERTURB; ++opcode) {
      (void)zo_command_steps(words, (zo_opcode)opcode);
      CHECK(zo_command_execute(words, (zo_opcode)opcode, &tensor, (uint32_t)round % 3u, initial.at, &saturated) ==
            ZO_OK);
    }

    /* Damaged: refused or executed, never beyond its memory. */
    for (int damage = 0; damage < 10; ++damage) {
      const uint32_t at = random_below(length);
      const int32_t old = words[at];
      static const int32_t odd[] = {0, 1, -1, 5, 6, INT32_MAX, INT32_MIN, 1 << 24, 3 << 24, 4 << 24};
      words[at] = random_below(2) ? odd[random_below(10)] : (int32_t)random_u32();
      if (zo_command_check(words, length, &limits) == ZO_OK) {
        ++accepted;
        for (int opcode = ZO_OP_RESTORE; opcode <= ZO_OP_PERTURB; ++opcode) {
          CHECK(zo_command_execute(words, (zo_opcode)opcode, &tensor, 1, initial.at, &saturated) == ZO_OK);
        }
      }
      words[at] = old;
    }
    for (uint32_t cut = 2; cut < length; ++cut) {
      CHECK(zo_command_check(words, cut, &limits) == ZO_ERROR_COMMAND);
    }
    free(words);
    free(weights.memory);
    free(fraction.memory);
    free(initial.memory);
  }
  CHECK(accepted > 100);

  int32_t words[8];
  zo_command_writer writer;
  CHECK(zo_command_begin(NULL, words, 8, 0) == ZO_ERROR_ARGUMENT);
  CHECK(zo_command_begin(&writer, NULL, 8, 0) == ZO_ERROR_ARGUMENT);
  CHECK(zo_command_begin(&writer, words, 8, 8) == ZO_ERROR_ARGUMENT);
  CHECK(zo_command_begin(&writer, words, 1, 0) == ZO_ERROR_CAPACITY);
  CHECK(zo_command_begin(&writer, words, 8, 0) == ZO_OK);
  CHECK(zo_command_restore(NULL, 0) == ZO_ERROR_ARGUMENT);
  CHECK(zo_command_restore(&writer, UINT32_C(0xFFFFFF)) == ZO_ERROR_BLOCK);
  CHECK(zo_command_update(&writer, 0, distributions[0], NULL, NULL, 1) == ZO_ERROR_ARGUMENT);
  zo_query queries[2] = {{1, 1}, {2, 2}};
  CHECK(zo_command_update(&writer, 0, distributions[0], NULL, queries, 2) == ZO_ERROR_CAPACITY);
  CHECK(zo_command_replay(&writer, 0, distributions[0], queries, 2, UINT32_MAX) == ZO_ERROR_CAPACITY);
  CHECK(zo_command_update(&writer, 0, distributions[0], NULL, queries, UINT32_MAX) == ZO_ERROR_CAPACITY);
  CHECK(writer.length == 2 && words[1] == 0);
  CHECK(zo_command_check(words, 8, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_command_check(NULL, 8, &limits) == ZO_ERROR_ARGUMENT);
  CHECK(zo_command_check(words, 1, &limits) == ZO_ERROR_ARGUMENT);
}
