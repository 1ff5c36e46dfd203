/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A device's part in a fleet with any input on the line: any bytes, and requests of any words in
 * whole frames, to a trainer that may fail. Every request has one answer that fits the buffer; the
 * answer for a step has the measurements of that step; the device never goes back.
 */
#include "fuzz_input.h"
#include "ops/core/link/zo_fleet.h"
#include "ops/core/link/zo_link_protocol.h"
#include "ops/core/zo_little_endian.h"

enum { kMostSent = 4096 };

typedef struct world {
  fuzz_input* in;
  uint32_t queries;
  zo_fleet_state at;
  uint8_t sent[kMostSent];
  uint32_t count;
} world;

static bool send_bytes(void* context, const uint8_t* bytes, uint32_t count) {
  world* w = (world*)context;
  HOLDS(count > 0u && count <= ZO_FRAME_PIECE_BYTES);
  if (count > kMostSent - w->count) return false;
  memcpy(w->sent + w->count, bytes, count);
  w->count += count;
  return true;
}

static void state(void* trainer, zo_fleet_state* to) { *to = ((world*)trainer)->at; }

static zo_status weights(void* trainer, uint32_t* checksum) {
  world* w = (world*)trainer;
  *checksum = ~w->at.step;
  return take_u8(w->in) < 16u ? ZO_ERROR_RUNTIME : ZO_OK;
}

/* The measurement of a step, computed from the step alone. */
static int64_t difference_of(const zo_fleet_state* at, uint32_t query) {
  return (int64_t)((uint64_t)at->checksum << 31 ^ ((uint64_t)at->step << 7) ^ query);
}

static zo_status evaluate(void* trainer, zo_fleet_answer* answer) {
  world* w = (world*)trainer;
  HOLDS(answer->samples == 0u);
  if (take_u8(w->in) < 16u) return ZO_ERROR_SAMPLE;
  if (take_u8(w->in) < 128u) return ZO_OK;
  answer->at = w->at;
  answer->samples = 1u + take_u8(w->in);
  answer->queries = w->queries;
  answer->loss = difference_of(&w->at, 99);
  for (uint32_t q = 0; q < w->queries; ++q) answer->difference[q] = difference_of(&w->at, q);
  return ZO_OK;
}

static zo_status take(void* trainer, const uint8_t* record, uint32_t bytes) {
  world* w = (world*)trainer;
  HOLDS(bytes == 20u + 4u * w->queries);
  const uint32_t step = zo_read_u32(record);
  if (step < w->at.step) return ZO_OK;
  if (step > w->at.step) return ZO_ERROR_ORDER;
  if (take_u8(w->in) < 16u) return ZO_ERROR_STORE;
  w->at.step += 1u;
  w->at.checksum = zo_read_u32(record + bytes - 4u);
  return ZO_OK;
}

/* A frame with a request, most often one that makes sense. */
static uint32_t write_request(fuzz_input* in, const world* w, uint8_t* frame) {
  uint8_t content[256];
  world line;
  memset(&line, 0, sizeof line);
  fill_bytes(in, content, sizeof content);
  content[0] = take_u8(in) < 250u ? (uint8_t)ZO_LINK_VERSION : (uint8_t)take_u8(in);
  content[1] = (uint8_t)take_between(in, take_flag(in) ? 6 : 0, 9);
  uint32_t count = 4u + take_between(in, 0, 60);
  if (content[1] == ZO_LINK_FLEET_EVALUATE && take_u8(in) < 200u) {
    zo_write_u32(content + 4, w->at.step);
    zo_write_u32(content + 8, w->at.checksum);
    count = 12;
  } else if (content[1] == ZO_LINK_FLEET_RECORDS && take_u8(in) < 200u) {
    const uint32_t size = 20u + 4u * w->queries;
    const uint32_t records = take_between(in, 1, 3);
    for (uint32_t i = 0; i < records; ++i) {
      zo_write_u32(content + 4u + i * size, w->at.step + i - (take_flag(in) ? 1u : 0u));
    }
    count = 4u + records * size;
  }
  const zo_byte_sink to = {send_bytes, &line};
  HOLDS(zo_frame_send(content, count, &to));
  memcpy(frame, line.sent, line.count);
  return line.count;
}

static void check_answers(const world* w, uint32_t requests, uint32_t most) {
  uint8_t content[kMostSent];
  zo_frame_reader reader;
  uint32_t answers = 0;
  zo_frame_begin(&reader, content, kMostSent);
  for (uint32_t i = 0; i < w->count; ++i) {
    const uint32_t count = zo_frame_take(&reader, w->sent[i]);
    if (count == 0u) continue;
    HOLDS(count >= 8u && count + ZO_FRAME_CHECKSUM_BYTES <= most);
    HOLDS(content[0] == ZO_LINK_VERSION && (content[1] & 0x80u) != 0u);
    HOLDS(zo_read_u32(content + 4) == ZO_OK || count == 8u);
    ++answers;
    if (content[1] == (ZO_LINK_FLEET_EVALUATE | 0x80u) && count > 8u) {
      const zo_fleet_state at = {zo_read_u32(content + 8), zo_read_u32(content + 12)};
      HOLDS(count == 28u + 8u * w->queries && zo_read_u32(content + 16) > 0u);
      HOLDS((int64_t)zo_read_u64(content + 20) == difference_of(&at, 99));
      for (uint32_t q = 0; q < w->queries; ++q) {
        HOLDS((int64_t)zo_read_u64(content + 28 + 8 * q) == difference_of(&at, q));
      }
    }
  }
  HOLDS(answers == requests);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const zo_fleet_trainer does = {state, weights, evaluate, take};
  static const uint8_t fingerprint[16] = {9, 8, 7};
  fuzz_input in = {data, size};
  world w;
  memset(&w, 0, sizeof w);
  w.in = &in;
  w.queries = take_between(&in, 1, ZO_MAX_QUERIES < 8 ? ZO_MAX_QUERIES : 8);
  w.at.checksum = take_any(&in);
  zo_fleet fleet;
  memset(&fleet, 0, sizeof fleet);
  fleet.does = &does;
  fleet.trainer = &w;
  fleet.record_bytes = 20u + 4u * w.queries;
  const uint32_t room = ZO_LINK_LEAST_BYTES + take_between(&in, 0, 200);
  zo_link link;
  memset(&link, 0, sizeof link);
  link.buffer = (uint8_t*)fuzz_allocate(room);
  link.buffer_bytes = room;
  link.to.write = send_bytes;
  link.to.context = &w;
  link.fingerprint = fingerprint;
  HOLDS(zo_link_begin(&link) == ZO_OK);
  const bool fits = 32u + 8u * w.queries <= room;
  HOLDS((zo_link_add_fleet(&link, &fleet) == ZO_OK) == fits);
  for (uint32_t rounds = 0; rounds < 24u && in.left > 0; ++rounds) {
    uint8_t frame[512];
    uint32_t count;
    w.count = 0;
    if (take_u8(&in) < 32u) {
      count = take_between(&in, 0, 200);
      fill_bytes(&in, frame, count);
    } else {
      count = write_request(&in, &w, frame);
      if (take_u8(&in) < 32u) frame[take_u8(&in) % count] ^= (uint8_t)take_u8(&in);
    }
    const uint32_t step = w.at.step;
    const uint32_t requests = zo_link_serve(&link, frame, count);
    check_answers(&w, requests, room);
    HOLDS(w.at.step >= step);
    for (uint32_t parts = take_u8(&in) % 4u; parts > 0u; --parts) zo_fleet_work(&fleet);
    HOLDS(fits || !zo_fleet_is_evaluating(&fleet));
  }
  free(link.buffer);
  return 0;
}
