/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* A device's part in a fleet over the link, with a trainer that is a table: complete steps, parts
 * of an evaluation, failures. The trainers themselves are held against the desktop in tests/fleet.
 */
#include "core_test.h"
#include "ops/core/link/zo_fleet.h"
#include "ops/core/link/zo_link_protocol.h"

enum { kRecordBytes = 28, kParts = 3, kRoom = 512 };

typedef struct member {
  zo_fleet_state at;
  uint32_t part;      /* of the evaluation in progress */
  uint32_t failures;  /* of the next parts */
  zo_status refusal;  /* of records */
  uint32_t abandoned; /* parts that were in vain */
} member;

static void state(void* trainer, zo_fleet_state* to) { *to = ((const member*)trainer)->at; }

static zo_status weights(void* trainer, uint32_t* checksum) {
  *checksum = 1000u + ((const member*)trainer)->at.step;
  return ZO_OK;
}

static zo_status evaluate(void* trainer, zo_fleet_answer* answer) {
  member* m = (member*)trainer;
  CHECK(answer->samples == 0u);
  if (m->failures > 0u) return --m->failures, m->part = 0, ZO_ERROR_SAMPLE;
  if (++m->part < kParts) return ZO_OK;
  m->part = 0;
  answer->at = m->at;
  answer->samples = 16;
  answer->queries = 2;
  answer->loss = -5 - (int64_t)m->at.step;
  answer->difference[0] = INT64_MIN;
  answer->difference[1] = (int64_t)m->at.step << 33;
  return ZO_OK;
}

/* A record begins with its step and ends with the checksum behind it. */
static zo_status take(void* trainer, const uint8_t* record, uint32_t bytes) {
  member* m = (member*)trainer;
  CHECK(bytes == kRecordBytes);
  const uint32_t step = zo_read_u32(record);
  if (m->refusal != ZO_OK) return m->refusal;
  if (step < m->at.step) return ZO_OK;
  if (step > m->at.step) return ZO_ERROR_ORDER;
  m->abandoned += m->part;
  m->part = 0;
  m->at.step += 1u;
  m->at.checksum = zo_read_u32(record + bytes - 4u);
  return ZO_OK;
}

typedef struct host {
  uint8_t line[kRoom], content[kRoom], buffer[kRoom];
  uint32_t count;
  zo_link link;
  zo_fleet fleet;
  member trainer;
} host;

static const uint8_t fingerprint[16] = {3};
static const zo_fleet_trainer does = {state, weights, evaluate, take};

static bool to_line(void* context, const uint8_t* bytes, uint32_t count) {
  host* h = (host*)context;
  CHECK(count <= kRoom - h->count);
  memcpy(h->line + h->count, bytes, count);
  h->count += count;
  return true;
}

static void begin(host* h, uint32_t buffer_bytes) {
  memset(h, 0, sizeof *h);
  h->trainer.at.checksum = 77;
  h->fleet.does = &does;
  h->fleet.trainer = &h->trainer;
  h->fleet.record_bytes = kRecordBytes;
  h->link.buffer = h->buffer;
  h->link.buffer_bytes = buffer_bytes;
  h->link.to.write = to_line;
  h->link.to.context = h;
  h->link.fingerprint = fingerprint;
  CHECK(zo_link_begin(&h->link) == ZO_OK);
}

/* The device's answer; the content is in h->content. *count: bytes of the answer. */
static zo_status ask(host* h, uint32_t operation, const uint8_t* data, uint32_t bytes, uint32_t* count) {
  uint8_t content[kRoom], sent[kRoom];
  content[0] = ZO_LINK_VERSION;
  content[1] = (uint8_t)operation;
  zo_write_u16(content + 2, 9);
  if (bytes > 0u) memcpy(content + 4, data, bytes);
  h->count = 0;
  CHECK(zo_frame_send(content, 4u + bytes, &h->link.to));
  const uint32_t length = h->count;
  memcpy(sent, h->line, length);
  h->count = 0;
  CHECK(zo_link_serve(&h->link, sent, length) == 1u);
  zo_frame_reader reader;
  zo_frame_begin(&reader, h->content, kRoom);
  *count = 0;
  for (uint32_t i = 0; i < h->count; ++i) *count += zo_frame_take(&reader, h->line[i]);
  CHECK(*count >= 8u && h->content[1] == (operation | 0x80u) && h->content[2] == 9u);
  const zo_status status = (zo_status)zo_read_u32(h->content + 4);
  CHECK(status == ZO_OK || *count == 8u);
  return status;
}

static zo_status ask_evaluate(host* h, uint32_t step, uint32_t checksum, uint32_t* count) {
  uint8_t words[8];
  zo_write_u32(words, step);
  zo_write_u32(words + 4, checksum);
  return ask(h, ZO_LINK_FLEET_EVALUATE, words, sizeof words, count);
}

static void check_state(host* h, uint32_t step, uint32_t checksum, uint32_t flags) {
  uint32_t count;
  CHECK(ask(h, ZO_LINK_FLEET_STATE, NULL, 0, &count) == ZO_OK && count == 24u);
  CHECK(zo_read_u32(h->content + 8) == step && zo_read_u32(h->content + 12) == checksum);
  CHECK(zo_read_u32(h->content + 16) == 1000u + step && zo_read_u32(h->content + 20) == flags);
}

static void make_record(uint8_t* record, uint32_t step, uint32_t checksum) {
  memset(record, 0, kRecordBytes);
  zo_write_u32(record, step);
  zo_write_u32(record + kRecordBytes - 4, checksum);
}

static void test_a_device_of_no_fleet(void) {
  host h;
  uint32_t count;
  begin(&h, 80);
  for (uint32_t operation = 6; operation < 10u; ++operation) {
    CHECK(ask(&h, operation, NULL, 0, &count) == ZO_ERROR_OPCODE);
  }
  /* An answer of two queries: 40 bytes, 16 for the differences. One of five does not fit. */
  CHECK(zo_link_add_fleet(&h.link, NULL) == ZO_ERROR_ARGUMENT);
  CHECK(zo_link_add_fleet(NULL, &h.fleet) == ZO_ERROR_ARGUMENT);
  h.fleet.record_bytes = 0;
  CHECK(zo_link_add_fleet(&h.link, &h.fleet) == ZO_ERROR_ARGUMENT);
  h.fleet.record_bytes = 20 + 4 * 7;
  CHECK(zo_link_add_fleet(&h.link, &h.fleet) == ZO_ERROR_ARGUMENT);
  h.fleet.record_bytes = 20 + 4 * 6;
  CHECK(zo_link_add_fleet(&h.link, &h.fleet) == ZO_OK);
  CHECK(ask(&h, 9, NULL, 0, &count) == ZO_ERROR_OPCODE);
}

static void test_steps(void) {
  host h;
  uint32_t count;
  uint8_t records[3 * kRecordBytes];
  begin(&h, 256);
  CHECK(zo_link_add_fleet(&h.link, &h.fleet) == ZO_OK);
  check_state(&h, 0, 77, 0);
  CHECK(!zo_fleet_is_evaluating(&h.fleet));
  zo_fleet_work(&h.fleet); /* there is none */
  CHECK(h.trainer.part == 0u);
  for (uint32_t step = 0, checksum = 77; step < 4u; ++step) {
    /* Asked for as often as it may be: it begins once. */
    for (uint32_t part = 0; part < kParts; ++part) {
      CHECK(ask_evaluate(&h, step, checksum, &count) == ZO_OK && count == 8u);
      CHECK(ask_evaluate(&h, step + 1u, checksum, &count) == ZO_ERROR_ORDER);
      CHECK(ask_evaluate(&h, step, checksum + 1u, &count) == ZO_ERROR_ORDER);
      check_state(&h, step, checksum, 1);
      CHECK(zo_fleet_is_evaluating(&h.fleet));
      zo_fleet_work(&h.fleet);
    }
    check_state(&h, step, checksum, 2);
    for (uint32_t again = 0; again < 2u; ++again) {
      CHECK(ask_evaluate(&h, step, checksum, &count) == ZO_OK && count == 28u + 16u);
      CHECK(zo_read_u32(h.content + 8) == step && zo_read_u32(h.content + 12) == checksum);
      CHECK(zo_read_u32(h.content + 16) == 16u);
      CHECK((int64_t)zo_read_u64(h.content + 20) == -5 - (int64_t)step);
      CHECK((int64_t)zo_read_u64(h.content + 28) == INT64_MIN);
      CHECK((int64_t)zo_read_u64(h.content + 36) == (int64_t)step << 33);
      CHECK(!zo_fleet_is_evaluating(&h.fleet));
    }
    make_record(records, step, checksum + 5u);
    checksum += 5u;
    for (uint32_t again = 0; again < 2u; ++again) {
      CHECK(ask(&h, ZO_LINK_FLEET_RECORDS, records, kRecordBytes, &count) == ZO_OK);
      CHECK(count == 24u && zo_read_u32(h.content + 8) == step + 1u);
      CHECK(zo_read_u32(h.content + 12) == checksum);
      CHECK(zo_read_u32(h.content + 16) == 1001u + step && zo_read_u32(h.content + 20) == 0u);
    }
  }
}

/* The others were faster: the evaluation is of an earlier step, and the device is asked for the
 * next one. */
static void test_a_straggler(void) {
  host h;
  uint32_t count;
  uint8_t records[3 * kRecordBytes];
  begin(&h, 256);
  CHECK(zo_link_add_fleet(&h.link, &h.fleet) == ZO_OK);
  CHECK(ask_evaluate(&h, 0, 77, &count) == ZO_OK);
  zo_fleet_work(&h.fleet);
  /* Three at once, of which the last does not follow: the others are taken. */
  make_record(records, 0, 80);
  make_record(records + kRecordBytes, 1, 81);
  make_record(records + 2 * kRecordBytes, 3, 83);
  CHECK(ask(&h, ZO_LINK_FLEET_RECORDS, records, sizeof records, &count) == ZO_ERROR_ORDER);
  check_state(&h, 2, 81, 0);
  CHECK(h.trainer.abandoned == 1u && !zo_fleet_is_evaluating(&h.fleet));
  CHECK(ask(&h, ZO_LINK_FLEET_RECORDS, records, 0, &count) == ZO_ERROR_ARGUMENT);
  CHECK(ask(&h, ZO_LINK_FLEET_RECORDS, records, kRecordBytes - 1, &count) == ZO_ERROR_ARGUMENT);
  CHECK(ask(&h, ZO_LINK_FLEET_RECORDS, records, kRecordBytes + 1, &count) == ZO_ERROR_ARGUMENT);
  /* Known ones leave an evaluation alone. */
  CHECK(ask_evaluate(&h, 2, 81, &count) == ZO_OK && count == 8u);
  CHECK(ask(&h, ZO_LINK_FLEET_RECORDS, records, 2 * kRecordBytes, &count) == ZO_OK);
  CHECK(zo_fleet_is_evaluating(&h.fleet));
  h.trainer.refusal = ZO_ERROR_STORE;
  CHECK(ask(&h, ZO_LINK_FLEET_RECORDS, records, kRecordBytes, &count) == ZO_ERROR_STORE);
  CHECK(zo_fleet_is_evaluating(&h.fleet));
  CHECK(ask(&h, ZO_LINK_FLEET_EVALUATE, records, 4, &count) == ZO_ERROR_ARGUMENT);
  CHECK(ask(&h, ZO_LINK_FLEET_EVALUATE, records, 12, &count) == ZO_ERROR_ARGUMENT);
}

static void test_a_failure_is_said_once(void) {
  host h;
  uint32_t count;
  begin(&h, 256);
  CHECK(zo_link_add_fleet(&h.link, &h.fleet) == ZO_OK);
  CHECK(ask_evaluate(&h, 0, 77, &count) == ZO_OK);
  h.trainer.failures = 1;
  zo_fleet_work(&h.fleet);
  CHECK(!zo_fleet_is_evaluating(&h.fleet));
  CHECK(ask_evaluate(&h, 0, 77, &count) == ZO_ERROR_SAMPLE);
  CHECK(ask_evaluate(&h, 0, 77, &count) == ZO_OK && count == 8u);
  while (zo_fleet_is_evaluating(&h.fleet)) zo_fleet_work(&h.fleet);
  CHECK(ask_evaluate(&h, 0, 77, &count) == ZO_OK && count == 44u);
}

void test_fleet(void) {
  test_a_device_of_no_fleet();
  test_steps();
  test_a_straggler();
  test_a_failure_is_said_once();
}
