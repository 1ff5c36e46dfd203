/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/link/zo_frame.h"

#include "ops/core/log/zo_crc32.h"
#include "ops/core/zo_little_endian.h"

/* A piece of this many bytes has no zero behind it. */
#define COBS_LONGEST 254u

static void expect_frame(zo_frame_reader* self) {
  self->count = 0;
  self->code = COBS_LONGEST + 1u; /* no zero goes before the first piece */
  self->left = 0;
  self->is_too_long = false;
}

void zo_frame_begin(zo_frame_reader* self, uint8_t* bytes, uint32_t capacity) {
  self->bytes = bytes;
  self->capacity = capacity;
  expect_frame(self);
}

static void put_byte(zo_frame_reader* self, uint8_t byte) {
  if (self->count < self->capacity) {
    self->bytes[self->count++] = byte;
  } else {
    self->is_too_long = true;
  }
}

uint32_t zo_frame_take(zo_frame_reader* self, uint8_t byte) {
  if (byte != 0u && self->left != 0u) {
    put_byte(self, byte);
    --self->left;
  } else if (byte != 0u) {
    if (self->code <= COBS_LONGEST) put_byte(self, 0);
    self->code = byte;
    self->left = (uint8_t)(byte - 1u);
  } else {
    const bool ends = self->left == 0u && !self->is_too_long;
    const uint32_t count = self->count;
    expect_frame(self);
    if (!ends || count <= ZO_FRAME_CHECKSUM_BYTES) return 0;
    const uint32_t content = count - ZO_FRAME_CHECKSUM_BYTES;
    const uint32_t checksum = zo_read_u32(self->bytes + content);
    return zo_crc32(0, self->bytes, content) == checksum ? content : 0u;
  }
  return 0;
}

static bool send_bytes(const zo_byte_sink* to, const uint8_t* bytes, uint32_t count) {
  return count == 0u || to->write(to->context, bytes, count);
}

bool zo_frame_send(uint8_t* bytes, uint32_t count, const zo_byte_sink* to) {
  static const uint8_t zero = 0;
  zo_write_u32(bytes + count, zo_crc32(0, bytes, count));
  const uint32_t end = count + ZO_FRAME_CHECKSUM_BYTES;
  uint32_t at = 0;
  if (!send_bytes(to, &zero, 1)) return false;
  for (;;) {
    uint32_t piece = 0;
    while (piece < COBS_LONGEST && at + piece < end && bytes[at + piece] != 0u) ++piece;
    const uint8_t code = (uint8_t)(piece + 1u);
    if (!send_bytes(to, &code, 1) || !send_bytes(to, bytes + at, piece)) return false;
    at += piece;
    if (at == end) return send_bytes(to, &zero, 1);
    if (piece < COBS_LONGEST) at += 1u; /* the zero */
  }
}
