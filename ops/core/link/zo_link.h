/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A device's end of the protocol that brings its log to a host and other runs to the device
 * (`tflm-zo collect`, `tflm-zo deploy`), and makes it part of a fleet (zo_fleet.h), over any stream
 * of bytes.
 *
 * The host asks, the device answers. The host repeats requests without an answer, and a repeated
 * request has the same outcome. So a line that loses, doubles or changes bytes requires nothing of
 * the device: no timer, no second buffer, no memory of earlier answers. Requests may come at any
 * time between two calls of a trainer, and training goes on between them.
 */
#ifndef TFLM_ZO_OPS_CORE_LINK_ZO_LINK_H_
#define TFLM_ZO_OPS_CORE_LINK_ZO_LINK_H_

#include "ops/core/link/zo_frame.h"
#include "ops/core/link/zo_places.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Least bytes of a buffer, and bytes of it beside the data of READ and WRITE. */
#define ZO_LINK_LEAST_BYTES 80u
#define ZO_LINK_OVERHEAD_BYTES 16u

/* A device's end. The application sets the first fields, the others to 0, then calls
 * zo_link_begin, or zo_link_begin_with_places. */
typedef struct zo_link {
  uint8_t* buffer;            /* [buffer_bytes]: a frame */
  uint32_t buffer_bytes;      /* ZO_LINK_LEAST_BYTES at least */
  zo_byte_sink to;            /* the host */
  const uint8_t* fingerprint; /* of the model, 16 bytes */
  const zo_log_store* log;    /* of the run; null: none */
  /* Set by the functions below. */
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

/* Begins to serve the log of the active place, and to take runs into the other. The linker
 * drops its code if a program does not call it.
 *   places          the caller keeps them, and has mounted them
 *   adopt, context  see zo_places_activate
 * Errors: those of zo_link_begin. */
zo_status zo_link_begin_with_places(zo_link* link, zo_places* places, zo_status (*adopt)(void* context), void* context);

/* Takes bytes from the host, and answers each complete request among them. Returns the
 * number of requests. */
uint32_t zo_link_serve(zo_link* link, const uint8_t* bytes, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_LINK_ZO_LINK_H_ */
