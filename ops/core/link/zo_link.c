/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/link/zo_link.h"

#include <string.h>

#include "ops/core/link/zo_link_protocol.h"
#include "ops/core/weights/zo_checksum.h"
#include "ops/core/zo_little_endian.h"

enum {
  kLinkOperation = 1,
  kLinkWords = 4,       /* of a request */
  kLinkData = 12,       /* of WRITE */
  kLinkAnswer = 8,      /* depends on the operation */
  kLinkHelloBytes = 64, /* of an answer; its unit follows if there is one */
  kLinkActivateBytes = 20
};

zo_status zo_link_begin(zo_link* self) {
  if (self == NULL || self->buffer == NULL || self->buffer_bytes < ZO_LINK_LEAST_BYTES || self->to.write == NULL ||
      self->fingerprint == NULL) {
    return ZO_ERROR_ARGUMENT;
  }
  zo_frame_begin(&self->reader, self->buffer, self->buffer_bytes);
  return ZO_OK;
}

static uint32_t most_data(const zo_link* self) { return self->buffer_bytes - ZO_LINK_OVERHEAD_BYTES; }

static zo_status read_store(const zo_link* self, uint32_t number, uint32_t offset, uint8_t* bytes, uint32_t count) {
  if (number == 0u && self->log != NULL) return zo_store_read(self->log, offset, bytes, count);
  if (number == 0u || self->places == NULL) return ZO_ERROR_LOG;
  return zo_places_read(self->places, number, offset, bytes, count);
}

/* Of bytes of a store, which go through the buffer behind the answer's head. */
static zo_status checksum_of_store(const zo_link* self, uint32_t number, uint32_t offset, uint32_t count,
                                   uint32_t* checksum) {
  uint8_t* bytes = self->buffer + kLinkAnswer;
  *checksum = ZO_FNV1A_BEGIN;
  for (uint32_t part; count > 0u; offset += part, count -= part) {
    part = count < most_data(self) ? count : most_data(self);
    const zo_status status = read_store(self, number, offset, bytes, part);
    if (status != ZO_OK) return status;
    *checksum = zo_fnv1a(*checksum, bytes, part);
  }
  return ZO_OK;
}

/* Returns the bytes of the answer. */
static uint32_t say_hello(const zo_link* self, uint8_t* to) {
  memset(to, 0, kLinkHelloBytes - kLinkAnswer);
  memcpy(to, self->fingerprint, 16);
  zo_write_u32(to + 16, most_data(self));
  const zo_places* places = self->places;
  if (places == NULL) return kLinkHelloBytes;
  zo_write_u32(to + 20, places->active);
  zo_write_u32(to + 24, places->place_bytes);
  zo_write_u32(to + 28, places->weight_bytes);
  for (uint32_t i = 0; i < 2u; ++i) {
    zo_write_u32(to + 32 + 12u * i, places->place[i].kind);
    zo_write_u32(to + 36 + 12u * i, places->place[i].bytes);
    zo_write_u32(to + 40 + 12u * i, places->place[i].checksum);
  }
  if (places->log.unit == 1u) return kLinkHelloBytes;
  zo_write_u32(to + kLinkHelloBytes - kLinkAnswer, places->log.unit);
  return kLinkHelloBytes + 4u;
}

/* Requests that change places: WRITE and ACTIVATE. */
static zo_status change_places(const zo_link* self, const uint32_t* words, uint32_t count) {
  const uint8_t* bytes = self->buffer;
  if (bytes[kLinkOperation] == ZO_LINK_WRITE) {
    if (count < kLinkData) return ZO_ERROR_ARGUMENT;
    return zo_places_write(self->places, words[0], words[1], bytes + kLinkData, count - kLinkData);
  }
  const zo_place what = {words[1], words[2], words[3]};
  if (count != kLinkActivateBytes) return ZO_ERROR_ARGUMENT;
  return zo_places_activate(self->places, words[0], &what, self->adopt, self->context);
}

zo_status zo_link_begin_with_places(zo_link* self, zo_places* places, zo_status (*adopt)(void* context),
                                    void* context) {
  if (self == NULL || places == NULL || adopt == NULL) return ZO_ERROR_ARGUMENT;
  self->places = places;
  self->log = &places->log;
  self->change = change_places;
  self->adopt = adopt;
  self->context = context;
  return zo_link_begin(self);
}

/* Executes a request of `count` bytes in the buffer; *answer: bytes of the answer. */
static zo_status do_request(zo_link* self, uint32_t count, uint32_t* answer) {
  uint8_t* bytes = self->buffer;
  uint32_t words[4] = {0, 0, 0, 0};
  zo_status status;
  const uint32_t given = (count - kLinkWords) / 4u;
  for (uint32_t i = 0; i < 4u && i < given; ++i) words[i] = zo_read_u32(bytes + kLinkWords + 4 * i);
  switch (bytes[kLinkOperation]) {
    case ZO_LINK_HELLO:
      *answer = say_hello(self, bytes + kLinkAnswer);
      return ZO_OK;
    case ZO_LINK_READ:
      if (given != 3u || words[2] > most_data(self)) return ZO_ERROR_ARGUMENT;
      status = read_store(self, words[0], words[1], bytes + kLinkAnswer, words[2]);
      if (status == ZO_OK) *answer = kLinkAnswer + words[2];
      return status;
    case ZO_LINK_CHECK: {
      uint32_t checksum;
      if (given != 3u) return ZO_ERROR_ARGUMENT;
      status = checksum_of_store(self, words[0], words[1], words[2], &checksum);
      if (status != ZO_OK) return status;
      zo_write_u32(bytes + kLinkAnswer, checksum);
      *answer = kLinkAnswer + 4u;
      return ZO_OK;
    }
    case ZO_LINK_WRITE:
    case ZO_LINK_ACTIVATE:
      return self->change != NULL ? self->change(self, words, count) : ZO_ERROR_ARGUMENT;
    default:
      return self->serve_fleet != NULL ? self->serve_fleet(self, count, answer) : ZO_ERROR_OPCODE;
  }
}

static void answer_request(zo_link* self, uint32_t count) {
  uint8_t* bytes = self->buffer;
  uint32_t answer = kLinkAnswer;
  const bool known = bytes[0] == ZO_LINK_VERSION;
  const zo_status status = known ? do_request(self, count, &answer) : ZO_ERROR_OPTIONS;
  bytes[0] = ZO_LINK_VERSION;
  bytes[kLinkOperation] |= 0x80u;
  zo_write_u32(bytes + 4, (uint32_t)status);
  /* If it fails, it is lost, and asked for again. */
  (void)zo_frame_send(bytes, answer, &self->to);
}

uint32_t zo_link_serve(zo_link* self, const uint8_t* bytes, uint32_t count) {
  uint32_t requests = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t content = zo_frame_take(&self->reader, bytes[i]);
    /* A frame that is no request is an answer that the line has sent back. */
    if (content < kLinkWords || (self->buffer[kLinkOperation] & 0x80u) != 0u) continue;
    answer_request(self, content);
    ++requests;
  }
  return requests;
}
