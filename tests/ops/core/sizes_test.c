/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Sizes that wrap or are the largest. */
#include "core_test.h"

/* A layer of one input and one output, which nothing clamps. */
static zo_node_layer layer_of_ones(void) {
  zo_node_layer l;
  memset(&l, 0, sizeof l);
  l.form = ZO_NODES_PLAIN;
  l.in_h = l.in_w = l.in_c = l.k_h = l.k_w = 1;
  l.stride_h = l.stride_w = l.dilation_h = l.dilation_w = 1;
  l.out_h = l.out_w = l.out_c = l.node_h = l.node_w = 1;
  l.low = -129;
  l.high = 128;
  return l;
}

/* Sizes whose product is a small number in 32 bits. */
void test_node_sizes_that_wrap(void) {
  zo_node_layer l = layer_of_ones();
  l.form = ZO_NODES_MAX_POOL;
  l.out_h = 4096;
  l.out_w = 4;
  l.out_c = 65536;
  l.node_h = 4096;
  l.node_w = 4;
  l.pool_h = 1;
  l.pool_w = 254;
  l.pool_stride_h = l.pool_stride_w = 1;
  l.pool_pad_left = 253;
  CHECK(zo_node_layer_check(&l) == ZO_OK);           /* 2^30 nodes */
  for (l.node_w = 5; l.node_w <= 257u; ++l.node_w) { /* at 257, 2^32 + 2^28 of them */
    CHECK(zo_node_layer_check(&l) == ZO_ERROR_ARGUMENT);
  }
}

/* An instruction that announces more items than there are, in a command that announces them, too.
 */
void test_a_command_of_many_items(void) {
  const zo_limits many = {8, 32, 1};
  int32_t words[ZO_COMMAND_HEADER_WORDS + ZO_INSTRUCTION_HEADER_WORDS] = {
      (int32_t)ZO_COMMAND_MAGIC, INT32_C(0x3FFFFFFE), ZO_OP_REPLAY << 24, 0, 1, 0};
  for (int32_t queries = 1; queries <= 32; queries *= 2) {
    words[5] = queries;
    for (int32_t steps = INT32_C(1) << 29; steps <= INT32_C(1) << 30; steps += INT32_C(1) << 29) {
      words[3] = steps;
      CHECK(zo_command_check(words, UINT32_C(1) << 30, &many) == ZO_ERROR_COMMAND);
    }
  }
}

/* A log with valid checksums may have values that no run has written. */
void test_snapshot_sizes(void) {
  const uint32_t tasks = 3;
  CHECK(zo_snapshot_bytes(tasks, UINT32_MAX - 44u) == UINT32_MAX);
  for (uint32_t beyond = 0; beyond < 44u; ++beyond) {
    CHECK(zo_snapshot_bytes(tasks, UINT32_MAX - beyond) == 0u);
  }
  const uint32_t size = zo_snapshot_header_bytes(tasks);
  /* The largest snapshots of which 32 bits hold where three end. */
  const uint32_t most = (UINT32_MAX - size) / 3u - 44u;
  const uint32_t refused[] = {most + 1u, UINT32_C(1) << 31, UINT32_MAX - 44u, UINT32_MAX - 43u, UINT32_MAX};
  zo_node_settings settings, back;
  memset(&settings, 0, sizeof settings);
  settings.tasks = tasks;
  settings.common = random_settings();
  settings.common.clip = 1;
  settings.common.gradient_norm = settings.common.blocks = 0;
  zo_snapshot_header header;
  memset(&header, 0, sizeof header);
  header.interval = 1;
  zo_snapshot_task entries[ZO_NODE_TASKS_MAX];
  memset(entries, 0, sizeof entries);
  for (uint32_t t = 0; t < tasks; ++t) entries[t].tensors = entries[t].mu = 1;
  uint8_t* bytes = (uint8_t*)allocate(size);
  header.weight_bytes = most;
  zo_snapshot_write_header(&header, &settings, entries, bytes);
  CHECK(zo_snapshot_read_header(bytes, size, &header, &back, entries) == ZO_OK);
  CHECK(header.weight_bytes == most);
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; ++i) {
    header.weight_bytes = refused[i];
    zo_snapshot_write_header(&header, &settings, entries, bytes);
    CHECK(zo_snapshot_read_header(bytes, size, &header, &back, entries) == ZO_ERROR_OPTIONS);
  }
  /* The sum of the sizes wraps: the checksum would be looked for before the slot. */
  uint8_t slot[8] = {0, 0, 0, 0, 1, 0, 0, 0};
  uint32_t number, step;
  int32_t largest;
  zo_scale squares[1];
  settings.tasks = 1;
  CHECK(zo_snapshot_read(slot, 0, &settings, entries, UINT32_MAX - 19u, &number, &step, &largest, squares) ==
        ZO_ERROR_OPTIONS);
  free(bytes);
}
