/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Frames on a stream of bytes that may lose, double or change some of them.
 *
 * A frame is its content and the CRC-32 (zo_crc32.h) of that, u32 little-endian, in COBS: the bytes
 * are cut at each zero, and each piece is preceded by a byte with its length, so that no zero is
 * left. 0 ends a frame. One goes before it, too, and ends anything earlier on the line, for
 * instance text. Damaged frames are dropped without an answer; their sender repeats them.
 */
#ifndef TFLM_ZO_OPS_CORE_LINK_ZO_FRAME_H_
#define TFLM_ZO_OPS_CORE_LINK_ZO_FRAME_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZO_FRAME_CHECKSUM_BYTES 4u
#define ZO_FRAME_PIECE_BYTES 64u

/* The receiver of bytes: a UART, USB, a socket. False if it fails: the rest of the frame is left
 * out. */
typedef struct zo_byte_sink {
  bool (*write)(void* context, const uint8_t* bytes, uint32_t count);
  void* context;
} zo_byte_sink;

/* A frame on its way in. */
typedef struct zo_frame_reader {
  uint8_t* bytes;    /* [capacity], the caller's: content and checksum */
  uint32_t capacity; /* more than ZO_FRAME_CHECKSUM_BYTES */
  uint32_t count;    /* bytes so far */
  uint8_t code;      /* that the piece in progress began with */
  uint8_t left;      /* bytes of the piece that are still to come */
  bool is_too_long;
} zo_frame_reader;

void zo_frame_begin(zo_frame_reader* reader, uint8_t* bytes, uint32_t capacity);

/* Takes the next byte of the stream.
 *
 * Returns the bytes of a frame's content if it was the last one of a whole frame, whose content
 * is in reader->bytes until the next call; else 0. */
uint32_t zo_frame_take(zo_frame_reader* reader, uint8_t byte);

/* Sends a frame, in pieces of up to ZO_FRAME_PIECE_BYTES, which are on the stack.
 *   bytes  [count + ZO_FRAME_CHECKSUM_BYTES]: the content, behind which the checksum is written */
bool zo_frame_send(uint8_t* bytes, uint32_t count, const zo_byte_sink* to);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_LINK_ZO_FRAME_H_ */
