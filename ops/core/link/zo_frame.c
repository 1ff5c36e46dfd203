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

/* Bytes are gathered, because a line may take few of them as dearly as many. */
typedef struct frame_piece {
  const zo_byte_sink* to;
  uint32_t count;
  bool is_sent; /* all so far */
  uint8_t bytes[ZO_FRAME_PIECE_BYTES];
} frame_piece;

static void send_piece(frame_piece* piece) {
  const zo_byte_sink* to = piece->to;
  piece->is_sent = piece->is_sent && to->write(to->context, piece->bytes, piece->count);
  piece->count = 0;
}

static void send_byte(frame_piece* piece, uint32_t byte) {
  piece->bytes[piece->count++] = (uint8_t)byte;
  if (piece->count == ZO_FRAME_PIECE_BYTES) send_piece(piece);
}

bool zo_frame_send(uint8_t* bytes, uint32_t count, const zo_byte_sink* to) {
  frame_piece piece;
  const uint32_t end = count + ZO_FRAME_CHECKSUM_BYTES;
  zo_write_u32(bytes + count, zo_crc32(0, bytes, count));
  piece.to = to;
  piece.count = 0;
  piece.is_sent = true;
  send_byte(&piece, 0);
  for (uint32_t at = 0;;) {
    uint32_t run = 0;
    while (run < COBS_LONGEST && at + run < end && bytes[at + run] != 0u) ++run;
    send_byte(&piece, run + 1u);
    for (const uint32_t behind = at + run; at < behind; ++at) send_byte(&piece, bytes[at]);
    if (at == end) break;
    if (run < COBS_LONGEST) ++at; /* the zero */
  }
  send_byte(&piece, 0);
  if (piece.count > 0u) send_piece(&piece);
  return piece.is_sent;
}
