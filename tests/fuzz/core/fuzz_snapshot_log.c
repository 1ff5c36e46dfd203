/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A snapshot log of any bytes, read as its readers do: the header, then the slots by its sizes, the
 * records. Checksums are corrected, because they detect accidents and not intent. A run is made of
 * an accepted log, resumed from the slot, and continues; it writes the same bytes.
 */
#include "node_world.h"
#include "ops/core/log/zo_crc32.h"
#include "ops/core/log/zo_snapshot_log.h"
#include "ops/core/zo_little_endian.h"

enum { kMostLog = 4096, kHead = 16 };

static void put_checksum(uint8_t* bytes, uint32_t size) {
  if (size >= 4u) zo_write_u32(bytes + size - 4u, zo_crc32(0, bytes, size - 4u));
}

/* A log that a run might have written; the fuzzer changes it. */
static uint32_t write_header(fuzz_input* in, uint8_t* bytes) {
  zo_node_settings s;
  zo_snapshot_header header;
  zo_snapshot_task tasks[kWorldTasks];
  memset(&s, 0, sizeof s);
  memset(&header, 0, sizeof header);
  memset(tasks, 0, sizeof tasks);
  s.common.run_seed = take_u8(in);
  s.common.steps = take_between(in, 1, 4);
  s.common.samples = take_between(in, 1, 9);
  s.common.batch = take_between(in, 1, 3);
  s.common.parts = 1;
  s.common.queries = 1;
  s.common.estimator = (uint32_t)take_flag(in);
  s.common.rule = take_between(in, 0, 2);
  s.common.distribution.mu = 1;
  s.common.rate = take_between(in, 1, 1000000);
  s.common.clip = take_between(in, 1, 100000);
  s.tasks = take_between(in, 1, kWorldTasks);
  s.exact_bits[0] = 4;
  s.exact_bits[1] = 1;
  s.exact_bits[2] = 2;
  s.weight_bits = 3;
  header.interval = take_between(in, 1, 9);
  header.measure_every = take_between(in, 0, 3);
  header.weight_bytes = take_between(in, 0, 200);
  for (uint32_t t = 0; t < s.tasks; ++t) {
    tasks[t].kind = (uint32_t)take_flag(in);
    tasks[t].tensor = t;
    tasks[t].tensors = 1;
    tasks[t].queries = take_between(in, tasks[t].kind, 3);
    tasks[t].mu = take_between(in, 1, 20);
    tasks[t].rate = 65536;
    tasks[t].gain.mantissa = UINT32_C(1) << 31;
    tasks[t].gain.exponent = -40;
  }
  zo_snapshot_write_header(&header, &s, tasks, bytes);
  return zo_snapshot_header_bytes(s.tasks);
}

static void go_on(fuzz_input* in, const zo_node_settings* settings, const zo_snapshot_task* entries,
                  const uint8_t* slot, uint32_t owner) {
  static node_world w;
  memset(&w, 0, sizeof w);
  w.settings = *settings;
  for (uint32_t t = 0; t < settings->tasks; ++t) {
    w.tasks[t].kind = entries[t].kind;
    w.tasks[t].queries = entries[t].queries;
    w.tasks[t].mu = entries[t].mu;
    w.tasks[t].rate = entries[t].rate;
    w.tasks[t].gain = entries[t].gain;
  }
  world_make(in, &w);
  if (zo_node_run_init(&w.run, &w.settings, w.tasks) == ZO_OK) {
    HOLDS(zo_snapshot_read_head(&w.run, slot) == ZO_OK); /* zo_snapshot_read has said so */
    const uint32_t head_bytes = kHead + 8u * settings->tasks;
    uint8_t* head = (uint8_t*)fuzz_allocate(head_bytes);
    zo_snapshot_write_head(&w.run, owner, zo_snapshot_number(slot, owner), head);
    HOLDS(memcmp(head, slot, head_bytes) == 0);
    free(head);
    zo_node_request request;
    zo_report report;
    world_begin_step(&w);
    for (uint32_t calls = 0; calls < 40u; ++calls) {
      HOLDS(zo_node_run_next(&w.run, &request) == ZO_OK);
      if (request.action == ZO_NODE_DONE) break;
      if (world_answer(in, &w, &request, &report) != ZO_OK) break;
      if (report.step_done != 0u) world_begin_step(&w);
    }
  }
  world_free(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_input in = {data, size};
  uint8_t bytes[kMostLog];
  uint32_t length;
  const int raw = take_u8(&in) > 220u;
  if (raw) {
    length = in.left < kMostLog ? (uint32_t)in.left : kMostLog;
    memcpy(bytes, in.at, length);
  } else {
    length = write_header(&in, bytes);
    for (uint32_t damaged = take_u8(&in); damaged > 128u; damaged = take_u8(&in)) {
      const uint32_t at = take_between(&in, 0, length / 4u - 1u) * 4u;
      zo_write_u32(bytes + at, take_any(&in));
    }
    if (take_u8(&in) > 16u) put_checksum(bytes, length);
  }
  uint8_t* own = (uint8_t*)copy_of(bytes, length > 0u ? length : 1u);
  zo_snapshot_header header;
  zo_node_settings settings;
  zo_snapshot_task tasks[ZO_NODE_TASKS_MAX];
  const zo_status status = zo_snapshot_read_header(own, length, &header, &settings, tasks);
  if (status == ZO_OK) {
    const uint64_t head = zo_snapshot_header_bytes(settings.tasks);
    const uint64_t slot_bytes = zo_snapshot_bytes(settings.tasks, header.weight_bytes);
    HOLDS(head <= length && settings.tasks >= 1u && settings.tasks <= ZO_NODE_TASKS_MAX);
    /* Readers put slots and records where these say. */
    HOLDS(slot_bytes == kHead + 8u * (uint64_t)settings.tasks + header.weight_bytes + 4u);
    HOLDS(head + zo_snapshot_slots(header.measure_every) * slot_bytes <= UINT32_MAX);
    uint8_t* again = (uint8_t*)fuzz_allocate((size_t)head);
    zo_snapshot_write_header(&header, &settings, tasks, again);
    HOLDS(memcmp(again, own, 124) == 0);
    const uint32_t owner = zo_read_u32(own + head - 4u);
    free(again);
    if (slot_bytes <= kMostLog) {
      uint8_t* slot = (uint8_t*)fuzz_allocate((size_t)slot_bytes);
      fill_bytes(&in, slot, (size_t)slot_bytes);
      zo_write_u32(slot, owner + (take_u8(&in) > 240u ? 1u : 0u));
      zo_write_u32(slot + 4, take_between(&in, 0, 3));
      zo_write_u32(slot + 8, take_between(&in, 0, 4));
      zo_write_u32(slot + 12, take_any(&in));
      for (uint32_t t = 0; t < settings.tasks; ++t) {
        zo_write_u32(slot + kHead + 8 * t, take_flag(&in) ? take_any(&in) : UINT32_C(1) << 31);
        zo_write_u32(slot + kHead + 4 + 8 * t, take_any(&in));
      }
      put_checksum(slot, (uint32_t)slot_bytes);
      uint32_t number, step;
      int32_t largest;
      zo_scale squares[ZO_NODE_TASKS_MAX];
      const zo_status read =
          zo_snapshot_read(slot, owner, &settings, tasks, header.weight_bytes, &number, &step, &largest, squares);
      HOLDS(read != ZO_OK || zo_snapshot_number(slot, owner) != 0u);
      if (read == ZO_OK && world_is_small(&settings)) go_on(&in, &settings, tasks, slot, owner);
      free(slot);
    }
  }
  free(own);
  return 0;
}
