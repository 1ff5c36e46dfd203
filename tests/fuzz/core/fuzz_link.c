/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A device's end of the link with any input on the line: any bytes, and requests of any words in
 * whole frames, to a store that may fail. Every answer is a whole frame of the request's sequence
 * number that fits the buffer; the active place is not written, and after a reset the device has
 * the same place.
 */
#include "fuzz_input.h"
#include "ops/core/link/zo_link.h"
#include "ops/core/link/zo_link_protocol.h"
#include "ops/core/weights/zo_checksum.h"
#include "ops/core/zo_little_endian.h"

enum { kMostStore = 1024, kMostSent = 8192 };

typedef struct world {
  fuzz_input* in;
  uint8_t* store;
  uint32_t bytes, unit;
  uint32_t writes_left; /* that succeed */
  uint8_t* sent;
  uint32_t count;
  zo_places places;
} world;

static bool write_store(void* context, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  world* w = (world*)context;
  HOLDS(offset <= w->bytes && count <= w->bytes - offset);
  HOLDS(offset % w->unit == 0u && count % w->unit == 0u);
  /* Outside the place that is not active only records change. */
  const uint32_t active = 128u + (w->places.active - 1u) * w->places.place_bytes;
  HOLDS(offset + count <= active || offset >= active + w->places.place_bytes);
  if (w->writes_left == 0u) return false;
  --w->writes_left;
  memcpy(w->store + offset, bytes, count);
  return true;
}

static int32_t read_bytes(void* context, uint32_t offset, uint8_t* bytes, uint32_t count) {
  const world* w = (const world*)context;
  HOLDS(offset <= w->bytes && count <= w->bytes - offset);
  memcpy(bytes, w->store + offset, count);
  return (int32_t)count;
}

static bool send_bytes(void* context, const uint8_t* bytes, uint32_t count) {
  world* w = (world*)context;
  HOLDS(count > 0u && count <= ZO_FRAME_PIECE_BYTES);
  if (count > kMostSent - w->count) return false;
  memcpy(w->sent + w->count, bytes, count);
  w->count += count;
  return true;
}

static zo_status adopt(void* context) {
  world* w = (world*)context;
  return take_u8(w->in) < 32u ? ZO_ERROR_LOG : ZO_OK;
}

/* A frame with a request, most often one that makes sense. */
static uint32_t write_request(fuzz_input* in, world* w, uint8_t* frame) {
  uint8_t content[96];
  const uint32_t data = take_u8(in) < 128u ? 0u : take_between(in, 0, 64);
  uint32_t count = 4u + 4u * take_between(in, 0, 4) + data;
  if (count > 88u) count = 88;
  fill_bytes(in, content, sizeof content);
  content[0] = take_u8(in) < 250u ? (uint8_t)ZO_LINK_VERSION : (uint8_t)take_u8(in);
  content[1] = (uint8_t)take_between(in, 0, 6);
  zo_write_u32(content + 4, take_between(in, 0, 3));
  zo_write_u32(content + 8, take_any(in));
  if (content[1] != ZO_LINK_WRITE) zo_write_u32(content + 12, take_any(in));
  if (content[1] == ZO_LINK_ACTIVATE && take_flag(in)) {
    const uint32_t place = 3u - w->places.active;
    const uint32_t bytes = w->places.weight_bytes;
    const uint8_t* at = w->store + 128u + (place - 1u) * w->places.place_bytes;
    zo_write_u32(content + 4, place);
    zo_write_u32(content + 8, take_between(in, 0, 3));
    zo_write_u32(content + 12, bytes);
    zo_write_u32(content + 16, zo_fnv1a(ZO_FNV1A_BEGIN, at, bytes));
    count = 20;
  }
  world line;
  memset(&line, 0, sizeof line);
  line.sent = frame;
  const zo_byte_sink to = {send_bytes, &line};
  HOLDS(zo_frame_send(content, count, &to));
  return line.count;
}

static void check_answers(world* w, uint32_t requests) {
  uint8_t* content = (uint8_t*)fuzz_allocate(kMostSent);
  zo_frame_reader reader;
  uint32_t answers = 0;
  zo_frame_begin(&reader, content, kMostSent);
  for (uint32_t i = 0; i < w->count; ++i) {
    const uint32_t count = zo_frame_take(&reader, w->sent[i]);
    if (count == 0u) continue;
    HOLDS(count >= 8u && content[0] == ZO_LINK_VERSION && (content[1] & 0x80u) != 0u);
    HOLDS(zo_read_u32(content + 4) == ZO_OK || count == 8u);
    ++answers;
  }
  HOLDS(answers == requests);
  free(content);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_input in = {data, size};
  uint8_t fingerprint[16] = {9, 8, 7};
  world w;
  memset(&w, 0, sizeof w);
  w.in = &in;
  w.unit = 1u << take_between(&in, 0, 5);
  w.bytes = 128u + 2u * take_between(&in, 64, (kMostStore - 128) / 2);
  w.store = (uint8_t*)fuzz_allocate(w.bytes);
  fill_bytes(&in, w.store, w.bytes);
  w.sent = (uint8_t*)fuzz_allocate(kMostSent);
  const zo_log_store store = {write_store, read_bytes, &w, NULL, w.unit, w.bytes};
  const uint32_t place = (w.bytes / 2u - 64u) / w.unit * w.unit;
  const uint32_t header = (36u + w.unit - 1u) / w.unit * w.unit;
  const uint32_t weights = take_between(&in, 0, place - header);
  HOLDS(zo_places_mount(&w.places, &store, weights, fingerprint) == ZO_OK);
  const uint32_t room = ZO_LINK_LEAST_BYTES + take_between(&in, 0, 40);
  uint8_t* buffer = (uint8_t*)fuzz_allocate(room);
  zo_link link;
  memset(&link, 0, sizeof link);
  link.buffer = buffer;
  link.buffer_bytes = room;
  link.to.write = send_bytes;
  link.to.context = &w;
  link.fingerprint = fingerprint;
  HOLDS(zo_link_begin_with_places(&link, &w.places, adopt, &w) == ZO_OK);
  w.writes_left = take_flag(&in) ? UINT32_MAX : take_u8(&in);
  for (uint32_t rounds = 0; rounds < 24u && in.left > 0; ++rounds) {
    uint8_t frame[256];
    uint32_t count;
    w.count = 0;
    if (take_u8(&in) < 64u) {
      count = take_between(&in, 0, 200);
      fill_bytes(&in, frame, count);
    } else {
      count = write_request(&in, &w, frame);
      if (take_u8(&in) < 64u) frame[take_u8(&in) % count] ^= (uint8_t)take_u8(&in);
    }
    const uint32_t requests = zo_link_serve(&link, frame, count);
    check_answers(&w, requests);
    HOLDS(w.places.active == 1u || w.places.active == 2u);
    HOLDS(!w.places.needs_log);
    zo_places after;
    HOLDS(zo_places_mount(&after, &store, weights, fingerprint) == ZO_OK);
    HOLDS(after.active == w.places.active && after.number == w.places.number);
  }
  free(buffer);
  free(w.sent);
  free(w.store);
  return 0;
}
