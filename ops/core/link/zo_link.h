/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A device's end of the protocol that brings its log to a host and other runs to the device
 * (`tflm-zo collect`, `tflm-zo deploy`), and makes it part of a fleet (zo_fleet.h), over any stream
 * of bytes.
 *
 * The host asks, the device answers. Each request may be repeated, with the same outcome, and the
 * host repeats what was not answered; so what the line loses, doubles or changes needs nothing of
 * the device: no timer, no second buffer, no memory of what it has sent. Requests may come at any
 * time between two calls of a trainer, and training goes on between them.
 *
 * Contents of frames (zo_frame.h), all fields little-endian. A request:
 *
 *   0    u8  version of the protocol, ZO_LINK_VERSION
 *   1    u8  operation, zo_link_operation
 *   2    u16 sequence number
 *   4    what the operation says
 *
 * An answer:
 *
 *   0    u8  version
 *   1    u8  operation | 0x80
 *   2    u16 sequence number of the request
 *   4    u32 zo_status
 *   8    what the operation says, where the status is ZO_OK
 *
 * A request of another version is answered with ZO_ERROR_OPTIONS and the device's version.
 */
#ifndef TFLM_ZO_OPS_CORE_LINK_ZO_LINK_H_
#define TFLM_ZO_OPS_CORE_LINK_ZO_LINK_H_

#include "ops/core/link/zo_frame.h"
#include "ops/core/link/zo_places.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZO_LINK_VERSION 1u

/* Of a buffer, at least; bytes of a buffer that are not for data of READ and WRITE. */
#define ZO_LINK_LEAST_BYTES 80u
#define ZO_LINK_OVERHEAD_BYTES 16u

/* A store: 0: the log of the run; 1, 2: a place (zo_places.h). */
typedef enum zo_link_operation {
  /* What the device is. Answer:
   *   8    16  fingerprint of the model
   *   24   u32 most bytes of data of a READ or WRITE
   *   28   u32 active place; 0: the device has no places, this and what follows is 0
   *   32   u32 bytes of a place
   *   36   u32 bytes of weights, behind which a place has its log
   *   40   of each place: u32 kind, u32 bytes, u32 checksum (zo_place)
   *   64   u32 unit of a store that programs several bytes at once; absent in any other one */
  ZO_LINK_HELLO = 1,
  /* 4 u32 store, 8 u32 offset, 12 u32 count. Answer: 8 the bytes.
   * ZO_ERROR_LOG: the store has no such bytes, or a file of it ends before them. ZO_ERROR_STORE: it
   * cannot be read. */
  ZO_LINK_READ = 2,
  /* 4 u32 store, 8 u32 offset, 12 u32 count. Answer: 8 u32 FNV-1a (zo_checksum.h) of the bytes, all
   * of one moment. Errors: those of READ. */
  ZO_LINK_CHECK = 3,
  /* 4 u32 place, 8 u32 offset, 12 data, whole units of the store. See zo_places_write. */
  ZO_LINK_WRITE = 4,
  /* 4 u32 place, 8 u32 kind, 12 u32 bytes, 16 u32 checksum. See zo_places_activate. */
  ZO_LINK_ACTIVATE = 5,
  /* Of a device that is part of a fleet (zo_fleet.h); any other answers ZO_ERROR_OPCODE.
   *
   * Where the device is. Answer:
   *   8    u32 whole steps
   *   12   u32 checksum that the log's next record goes on from
   *   16   u32 FNV-1a of the weights after the last whole step
   *   20   u32 1: the next step is being evaluated; 2: its answer is there */
  ZO_LINK_FLEET_STATE = 6,
  /* 4 u32 step, 8 u32 checksum: those of the state. Begins to evaluate the step, where that has not
   * begun. Answer: nothing, while it goes on; then
   *   8    u32 step, u32 checksum
   *   16   u32 samples of the minibatch
   *   20   i64 sum of all losses of the step, unit 2^-16
   *   28   i64 of each query: the difference of losses, summed over the minibatch, unit 2^-16
   * ZO_ERROR_ORDER: the device is elsewhere. What the trainer's AnswerSlice has failed with is said
   * once; a request after that begins anew. */
  ZO_LINK_FLEET_EVALUATE = 7,
  /* 4 records of steps, whole ones, as they are in the log (zo_log.h), one after the other. Those
   * that the device has do nothing. Answer: the state.
   * ZO_ERROR_ORDER: records between those of the device and these are missing; ZO_ERROR_LOG: a
   * record is damaged, or of another run; ZO_ERROR_STORE: it could not be logged. Those before it
   * are taken. */
  ZO_LINK_FLEET_RECORDS = 8,
} zo_link_operation;

/* A device's end. The application sets the first fields, the others to 0, then calls
 * zo_link_begin, or zo_link_begin_with_places. */
typedef struct zo_link {
  uint8_t* buffer;            /* [buffer_bytes]: a frame */
  uint32_t buffer_bytes;      /* ZO_LINK_LEAST_BYTES at least */
  zo_byte_sink to;            /* the host */
  const uint8_t* fingerprint; /* of the model, 16 bytes */
  const zo_log_store* log;    /* of the run; null: none */
  /* What the functions below set. */
  zo_frame_reader reader;
  zo_places* places;
  zo_status (*change)(const struct zo_link* link, const uint32_t* words, uint32_t count);
  zo_status (*adopt)(void* context);
  void* context;
  struct zo_fleet* fleet;
  zo_status (*serve_fleet)(const struct zo_link* link, uint32_t count, uint32_t* answer);
} zo_link;

/* Begins to serve a log. Errors: ZO_ERROR_ARGUMENT: a null pointer, or a buffer that is too small.
 */
zo_status zo_link_begin(zo_link* link);

/* Begins to serve the log of the active place, and to take runs into the other. A program that does
 * not call it has none of the code for that: the linker leaves it out.
 *   places          the caller keeps them, and has mounted them
 *   adopt, context  see zo_places_activate
 * Errors: those of zo_link_begin. */
zo_status zo_link_begin_with_places(zo_link* link, zo_places* places,
                                    zo_status (*adopt)(void* context), void* context);

/* Takes bytes that have come from the host, and answers each whole request among them. Returns the
 * number of requests. */
uint32_t zo_link_serve(zo_link* link, const uint8_t* bytes, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_LINK_ZO_LINK_H_ */
