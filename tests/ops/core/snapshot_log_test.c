/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The log of a layer-wise run. */
#include "core_test.h"

/* Header, slot and record of a log hold their values, and every damage is detected. */
void test_snapshot_log(const node_run* r, const zo_node_run* run) {
  const uint32_t tasks = r->settings.tasks, weight_bytes = 1 + random_below(50);
  zo_snapshot_header header, header_back;
  zo_snapshot_task entries[kMostTasks], entries_back[ZO_NODE_TASKS_MAX];
  zo_node_settings back;
  zo_scale squares[kMostTasks];
  for (size_t i = 0; i < sizeof header.fingerprint; ++i) {
    header.fingerprint[i] = (uint8_t)random_u32();
  }
  header.interval = random_u32() | 1u;
  header.weight_bytes = weight_bytes;
  header.data_checksum = random_u32();
  header.measure_every = random_u32();
  for (uint32_t t = 0; t < tasks; ++t) {
    entries[t].tensor = random_u32();
    entries[t].kind = r->tasks[t].kind;
    entries[t].tensors = entries[t].kind == ZO_TASK_NODES ? 1u : 1u + random_below(65535);
    entries[t].gain.mantissa = random_u32();
    entries[t].gain.exponent = (int32_t)random_below(200) - 100;
    entries[t].queries = r->tasks[t].queries;
    entries[t].mu = r->tasks[t].mu;
    entries[t].rate = r->tasks[t].rate;
  }
  const uint32_t size = zo_snapshot_header_bytes(tasks);
  uint8_t* bytes = (uint8_t*)allocate(size);
  zo_snapshot_write_header(&header, &r->settings, entries, bytes);
  CHECK(zo_snapshot_read_header(bytes, size, &header_back, &back, entries_back) == ZO_OK);
  CHECK(memcmp(&header, &header_back, sizeof header) == 0);
  CHECK(memcmp(&r->settings, &back, sizeof back) == 0);
  CHECK(memcmp(entries, entries_back, sizeof entries[0] * tasks) == 0);
  for (uint32_t cut = 0; cut < size; cut += 1 + random_below(40)) {
    uint8_t* part = (uint8_t*)allocate(cut + 1u);
    memcpy(part, bytes, cut);
    CHECK(zo_snapshot_read_header(part, cut, &header_back, &back, entries_back) == ZO_ERROR_OPTIONS);
    free(part);
  }
  flip_a_bit(bytes, size);
  CHECK(zo_snapshot_read_header(bytes, size, &header_back, &back, entries_back) == ZO_ERROR_OPTIONS);
  /* States that no run has are refused with a valid checksum, too. */
  for (uint32_t i = 0; i < 10u; ++i) {
    zo_snapshot_header h = header;
    zo_node_settings s = r->settings;
    zo_snapshot_task e[kMostTasks];
    memcpy(e, entries, sizeof e[0] * tasks);
    if (i == 0u) h.weight_bytes = UINT32_MAX - 15u - 8u * tasks;
    if (i == 1u) h.weight_bytes = UINT32_MAX / 3u;
    if (i == 2u) h.interval = 0;
    if (i == 3u) s.common.blocks = 33;
    if (i == 4u) s.common.queries = ZO_MAX_QUERIES + 1u;
    if (i == 5u) s.rule = 9;
    if (i == 6u) e[0].queries = ZO_MAX_QUERIES + 1u;
    if (i == 7u) e[0].tensors = 0;
    if (i == 8u) e[0].kind = ZO_TASK_SHARED_NODES + 1u;
    zo_snapshot_write_header(&h, &s, e, bytes);
    if (i == 9u) { /* a task in every second step: no log has that */
      bytes[160 + 12] = 2;
      zo_write_u32(bytes + size - 4u, zo_crc32(0, bytes, size - 4u));
    }
    CHECK(zo_snapshot_read_header(bytes, size, &header_back, &back, entries_back) != ZO_OK);
  }
  free(bytes);

  const uint32_t slot_bytes = zo_snapshot_bytes(tasks, weight_bytes);
  uint8_t* slot = (uint8_t*)allocate(slot_bytes);
  memset(slot, 0, slot_bytes);
  uint32_t number = 0, step = 0;
  int32_t largest = 0;
  const uint32_t owner = random_u32();
  CHECK(zo_snapshot_read(slot, owner, &r->settings, entries, weight_bytes, &number, &step, &largest, squares) ==
        ZO_ERROR_OPTIONS);
  zo_snapshot_write_head(run, owner, 7, slot);
  CHECK(zo_snapshot_number(slot, owner) == 7u && zo_snapshot_number(slot, ~owner) == 0u);
  put_u32(slot + slot_bytes - 4u, zo_crc32(0, slot, slot_bytes - 4u));
  CHECK(zo_snapshot_read(slot, owner + 1u, &r->settings, entries, weight_bytes, &number, &step, &largest, squares) ==
        ZO_ERROR_OPTIONS);
  CHECK(zo_snapshot_read(slot, owner, &r->settings, entries, weight_bytes, &number, &step, &largest, squares) == ZO_OK);
  CHECK(number == 7u && step == run->step && largest == run->largest_loss);
  for (uint32_t t = 0; t < tasks; ++t) {
    CHECK(memcmp(&squares[t], &r->tasks[t].mean_square, sizeof squares[t]) == 0);
  }
  /* A state that no run has reached is invalid, with a valid checksum, too. */
  const uint32_t at[] = {8u + 3u, 12u + 3u, 16u + 8u * (tasks - 1u) + 7u};
  for (uint32_t i = 0; i < 3u; ++i) { /* more steps than it has, a negative loss, no exponent */
    const uint8_t kept = slot[at[i]];
    slot[at[i]] = 0x80;
    put_u32(slot + slot_bytes - 4u, zo_crc32(0, slot, slot_bytes - 4u));
    CHECK(zo_snapshot_read(slot, owner, &r->settings, entries, weight_bytes, &number, &step, &largest, squares) ==
          ZO_ERROR_OPTIONS);
    slot[at[i]] = kept;
  }
  put_u32(slot + slot_bytes - 4u, zo_crc32(0, slot, slot_bytes - 4u));
  CHECK(zo_snapshot_read(slot, owner, &r->settings, entries, weight_bytes, &number, &step, &largest, squares) == ZO_OK);
  flip_a_bit(slot, slot_bytes);
  CHECK(zo_snapshot_read(slot, owner, &r->settings, entries, weight_bytes, &number, &step, &largest, squares) ==
        ZO_ERROR_OPTIONS);
  free(slot);

  uint8_t* record = (uint8_t*)allocate(ZO_SNAPSHOT_RECORD_BYTES);
  const int32_t loss = (int32_t)random_u32();
  int32_t loss_back = 0;
  zo_snapshot_write_record(number, loss, owner, record);
  CHECK(zo_snapshot_read_record(record, ~owner, &step, &loss_back) == ZO_ERROR_OPTIONS);
  CHECK(zo_snapshot_read_record(record, owner, &step, &loss_back) == ZO_OK);
  CHECK(step == number && loss_back == loss);
  flip_a_bit(record, ZO_SNAPSHOT_RECORD_BYTES);
  CHECK(zo_snapshot_read_record(record, owner, &step, &loss_back) == ZO_ERROR_OPTIONS);
  free(record);
}

/* Sizes whose product is a small number in 32 bits. */
