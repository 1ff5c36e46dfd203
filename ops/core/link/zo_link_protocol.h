/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Requests and answers of a link (zo_link.h).
 *
 * docs/file-formats.md specifies the heads of both, of 4 bytes and of 8: version, operation, sequence
 * number, and of an answer zo_status. What follows depends on the operation. All fields are
 * little-endian.
 *
 * A request of another version is answered with ZO_ERROR_OPTIONS and the device's version.
 */
#ifndef TFLM_ZO_OPS_CORE_LINK_ZO_LINK_PROTOCOL_H_
#define TFLM_ZO_OPS_CORE_LINK_ZO_LINK_PROTOCOL_H_

#define ZO_LINK_VERSION 1u

/* A store: 0: the log of the run; 1, 2: a place (zo_places.h). */
typedef enum zo_link_operation {
  /* Properties of the device. Answer:
   *   8    16  fingerprint of the model
   *   24   u32 most bytes of data of a READ or WRITE
   *   28   u32 active place; 0: the device has no places, this and the rest is 0
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
   * The state of the device. Answer:
   *   8    u32 complete steps
   *   12   u32 checksum from which the log's next record continues
   *   16   u32 FNV-1a of the weights after the last complete step
   *   20   u32 1: the next step is being evaluated; 2: its answer is there */
  ZO_LINK_FLEET_STATE = 6,
  /* 4 u32 step, 8 u32 checksum: those of the state. Begins to evaluate the step, if that has not
   * begun. Answer: nothing, while it goes on; then
   *   8    u32 step, u32 checksum
   *   16   u32 samples of the minibatch
   *   20   i64 sum of all losses of the step, unit 2^-16
   *   28   i64 of each query: the difference of losses, summed over the minibatch, unit 2^-16
   * ZO_ERROR_ORDER: the device has another state. An error of the trainer's AnswerSlice is answered
   * once; the next request begins anew. */
  ZO_LINK_FLEET_EVALUATE = 7,
  /* 4 records of steps, complete ones, as in the log (zo_log.h), one after the other. Records that
   * the device has already do nothing. Answer: the state. ZO_ERROR_ORDER: records between those of
   * the device and these are missing; ZO_ERROR_LOG: a record is damaged, or of another run;
   * ZO_ERROR_STORE: it could not be logged. Those before it are taken. */
  ZO_LINK_FLEET_RECORDS = 8,
} zo_link_operation;

#endif /* TFLM_ZO_OPS_CORE_LINK_ZO_LINK_PROTOCOL_H_ */
