/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Two places for a run in one store (zo_log_store), of which one is active: another run can be
 * written into the other place while the device goes on, it takes over in one write, and the device
 * can go back to the previous one, log included.
 *
 * A place has room for the weights that a run begins with, as Network::ExportWeights gives them,
 * and behind them for its log. A run that begins with the model's own weights leaves the former
 * unused.
 */
#ifndef TFLM_ZO_OPS_CORE_LINK_ZO_PLACES_H_
#define TFLM_ZO_OPS_CORE_LINK_ZO_PLACES_H_

#include <stdbool.h>

#include "ops/core/log/zo_log_store.h"
#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZO_PLACES_RECORDS_BYTES 128u

/* Bytes of a store for weights and logs of these sizes, each filled up to whole units of it. */
#define ZO_PLACES_BYTES(weight_bytes, log_bytes) (ZO_PLACES_RECORDS_BYTES + 2u * ((weight_bytes) + (log_bytes)))

/* The content of a place. Values are part of the store and of the protocol (zo_link.h). */
typedef enum zo_place_kind {
  ZO_PLACE_VOID = 0,    /* nothing whole */
  ZO_PLACE_OWN = 1,     /* a run that begins with the model's own weights, and its log if it has one */
  ZO_PLACE_WEIGHTS = 2, /* weights, and the log of the run that begins with them if it has one */
  ZO_PLACE_LOG = 3,     /* a log that was written here; the run resumes at its end. If another run
                           begins in its place, the kind becomes ZO_PLACE_OWN */
} zo_place_kind;

typedef struct zo_place {
  uint32_t kind;     /* zo_place_kind */
  uint32_t bytes;    /* that were written: of the weights, or of the log. A run's log grows later */
  uint32_t checksum; /* of these bytes, zo_fnv1a */
} zo_place;

typedef struct zo_places {
  zo_log_store weights;      /* those of the active place, for ImportWeights */
  zo_log_store log;          /* that of the active place, for ImportLog and SetLog */
  const zo_log_store* store; /* the caller keeps it */
  uint32_t place_bytes;
  uint32_t weight_bytes;
  uint32_t log_at;            /* where a place has its log: the weights, filled up to whole units */
  const uint8_t* fingerprint; /* of the model, 16 bytes; the caller keeps it */
  uint32_t number;            /* of the last record */
  uint32_t active;            /* 1 or 2 */
  zo_place place[2];
  bool is_unsure; /* whether the store has a record that could not be written */
  bool needs_log; /* the place is about to become active with a log, which must be of this run */
} zo_places;

/* Reads the state of a store. Weights and headers of logs are checked: if those of the active place
 * are damaged, the other place becomes active, or else place 1 with the model's own weights.
 *
 *   places        the caller keeps it at this address
 *   weight_bytes  that the model exports, NAME_ZO_TRAINABLE_BYTES
 *
 * Errors: ZO_ERROR_ARGUMENT: the store has no room for weights and a log's header, or a unit that
 * no store has. ZO_ERROR_LOG: it has places of this model with other sizes, or of another version
 * of their format, as another firmware writes them: clear the store, or its first
 * ZO_PLACES_RECORDS_BYTES, and mount again. ZO_ERROR_STORE: it cannot be read; mount again before
 * anything else. */
zo_status zo_places_mount(zo_places* places, const zo_log_store* store, uint32_t weight_bytes,
                          const uint8_t* fingerprint);

/* Reads bytes of a place. Errors: those of zo_store_read. */
zo_status zo_places_read(const zo_places* places, uint32_t place, uint32_t offset, uint8_t* bytes, uint32_t count);

/* Writes whole units of the store into the place that is not active. The first write makes the
 * place void: its previous content is lost.
 *
 * Errors: ZO_ERROR_ORDER: it is active; ZO_ERROR_ARGUMENT: no such place, or it has no such bytes,
 * or they are no whole units; ZO_ERROR_STORE. */
zo_status zo_places_write(zo_places* places, uint32_t place, uint32_t offset, const uint8_t* bytes, uint32_t count);

/* Makes a place active, in one write of the store. Asked for again, it does nothing.
 *
 *   what    kind, bytes and checksum of the bytes from zo_places_write: ZO_PLACE_WEIGHTS at 0, with
 *           which a run begins, or ZO_PLACE_LOG at log_at, padded as the store's logs are.
 *           ZO_PLACE_VOID: the place's present content, to go back to it
 *   adopt   sets the device to places->weights and places->log, see ResumePlace. Called before the
 *           switch is permanent; if either fails, it is called again for the place that was active
 *           before
 *
 * Errors: ZO_ERROR_ARGUMENT: no such place or sizes; ZO_ERROR_ORDER: the place is active with other
 * content; ZO_ERROR_STORE: the content differs or is damaged, or the store fails; ZO_ERROR_LOG: a
 * log of another model, or run; those of `adopt`. The previous place then stays active; if going
 * back to it has failed, too, the trainer is reset, and does nothing until `adopt` succeeds. */
zo_status zo_places_activate(zo_places* places, uint32_t place, const zo_place* what, zo_status (*adopt)(void* context),
                             void* context);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_LINK_ZO_PLACES_H_ */
