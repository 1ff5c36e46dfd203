/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The store, all fields little-endian:
 *
 *   0    record, 40 bytes
 *   64   record, 40 bytes
 *   128  place 1, then place 2, each of (bytes of the store - 128) / 2 bytes
 *
 * In a store that programs several bytes at once (zo_store_units.h) a place takes as many whole
 * units as fit, its log begins at the first one behind the weights, and is padded; records are
 * filled up with 0xFF. So a power failure damages only bytes of the write in progress.
 *
 * A record:
 *
 *   0    u32 number; of two complete records the one with the larger number counts. Record n is at
 *            64 (n % 2)
 *   4    u32 active place: 1 or 2
 *   8    of each place: u32 kind (zo_place_kind), u32 bytes, u32 FNV-1a of the written bytes
 *   32   u32 CRC-32 of version 2 of this format, bytes of a place, of the weights and of a unit,
 *        u32 each
 *   36   u32 CRC-32 of the model's fingerprint and of the record before it
 *
 * The checksum of written bytes is FNV-1a (zo_checksum.h) rather than CRC-32: a piece that ends
 * with its own CRC-32, like headers, records and snapshots of logs, would give every whole of its
 * length the same CRC-32.
 *
 * Before the first record place 1 is active, of kind ZO_PLACE_OWN, and place 2 is void. A record
 * that is torn by a power failure does not count, so the device keeps its previous state.
 */
#include "ops/core/link/zo_places.h"

#include <string.h>

#include "ops/core/log/zo_crc32.h"
#include "ops/core/log/zo_store_units.h"
#include "ops/core/weights/zo_checksum.h"
#include "ops/core/zo_little_endian.h"

enum {
  kPlacesVersion = 2,
  kPlacesRecordBytes = 40,
  kPlacesRecordDistance = 64,
  kPlacesActive = 4,
  kPlacesEach = 8,
  kPlacesGeometry = 32,
  kPlacesChecksum = 36,
  kPlacesFingerprintBytes = 16,
  kPlacesChunk = 64,
};

/* Common fields of the headers of both logs (zo_log.h, zo_snapshot_log.h): the number of the
 * header's bytes and the fingerprint; the last four bytes are the CRC-32 of the rest. */
enum {
  kLogMagicBytes = 8,
  kLogHeaderBytes = 10,
  kLogFingerprint = 16,
  kLogBeginBytes = 32,
  kLogLeastBytes = 36,
};

/* --- Places of the store ------------------------------------------------------------------------
 */

static uint32_t place_at(const zo_places* self, uint32_t place) {
  return ZO_PLACES_RECORDS_BYTES + (place - 1u) * self->place_bytes;
}

/* A unit of 1 if single bytes are programmed. */
static uint32_t unit_of(const zo_places* self) { return self->log.unit; }

static bool has_bytes(const zo_places* self, uint32_t place, uint32_t offset, uint32_t count) {
  return (place == 1u || place == 2u) && offset <= self->place_bytes && count <= self->place_bytes - offset;
}

zo_status zo_places_read(const zo_places* self, uint32_t place, uint32_t offset, uint8_t* bytes, uint32_t count) {
  if (!has_bytes(self, place, offset, count)) return ZO_ERROR_LOG;
  return zo_store_read(self->store, place_at(self, place) + offset, bytes, count);
}

static bool write_place(const zo_places* self, uint32_t place, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  return has_bytes(self, place, offset, count) &&
         zo_store_write(self->store, place_at(self, place) + offset, bytes, count);
}

static bool write_no_weights(void* context, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  (void)context, (void)offset, (void)bytes, (void)count;
  return false; /* runs read them alone */
}

/* Bytes of the active place, which has them: zo_store_read has asked for the size. */
static int32_t read_active(const zo_places* self, uint32_t offset, uint8_t* bytes, uint32_t count) {
  const zo_log_store* store = self->store;
  return store->read(store->context, place_at(self, self->active) + offset, bytes, count);
}

static int32_t read_active_weights(void* context, uint32_t offset, uint8_t* bytes, uint32_t count) {
  return read_active((const zo_places*)context, offset, bytes, count);
}

static int32_t read_active_log(void* context, uint32_t offset, uint8_t* bytes, uint32_t count) {
  const zo_places* self = (const zo_places*)context;
  return read_active(self, self->log_at + offset, bytes, count);
}

static bool sync_store(void* context) {
  const zo_log_store* store = ((const zo_places*)context)->store;
  return store->sync == NULL || store->sync(store->context);
}

/* --- The content of a place ---------------------------------------------------------------------
 */

/* The functions below say whether a place has something whole: ZO_OK; ZO_ERROR_LOG: it has not;
 * ZO_ERROR_STORE: it cannot be read. */

/* Bytes of a place with a checksum.
 *   add  zo_crc32 or zo_fnv1a; begin: its initial value */
static zo_status adds_up_to(const zo_places* self, uint32_t place, uint32_t at, uint32_t count,
                            uint32_t (*add)(uint32_t, const void*, uint32_t), uint32_t begin, uint32_t checksum) {
  uint8_t bytes[kPlacesChunk];
  for (uint32_t part; count > 0u; at += part, count -= part) {
    part = count < kPlacesChunk ? count : (uint32_t)kPlacesChunk;
    const zo_status status = zo_places_read(self, place, at, bytes, part);
    if (status != ZO_OK) return status;
    begin = add(begin, bytes, part);
  }
  return begin == checksum ? ZO_OK : ZO_ERROR_LOG;
}

static zo_status has_checksum(const zo_places* self, uint32_t place, uint32_t at, uint32_t count, uint32_t checksum) {
  return adds_up_to(self, place, at, count, zo_fnv1a, ZO_FNV1A_BEGIN, checksum);
}

/* Not memcmp: the core calls nothing but memcpy and memset. */
static bool is_of_model(const zo_places* self, const uint8_t* fingerprint) {
  for (uint32_t i = 0; i < kPlacesFingerprintBytes; ++i) {
    if (fingerprint[i] != self->fingerprint[i]) return false;
  }
  return true;
}

/* A log of this model whose header is whole, padded as the store wants it. */
static zo_status has_log(const zo_places* self, uint32_t place) {
  uint8_t begin[kLogBeginBytes], end[4];
  const uint32_t at = self->log_at;
  zo_status status = zo_places_read(self, place, at, begin, sizeof begin);
  if (status != ZO_OK) return status;
  const uint32_t bytes = zo_read_u16(begin + kLogHeaderBytes);
  const uint8_t mark = begin[ZO_LOG_UNIT_AT];
  zo_log_write_unit(begin, unit_of(self));
  if (begin[ZO_LOG_UNIT_AT] != mark || !is_of_model(self, begin + kLogFingerprint) || bytes < kLogLeastBytes) {
    return ZO_ERROR_LOG;
  }
  status = zo_places_read(self, place, at + bytes - 4u, end, sizeof end);
  if (status != ZO_OK) return status;
  zo_log_write_unit(begin, 1); /* as its checksum takes it */
  return adds_up_to(self, place, at + kLogBeginBytes, bytes - kLogLeastBytes, zo_crc32,
                    zo_crc32(0, begin, sizeof begin), zo_read_u32(end));
}

static zo_status is_usable(const zo_places* self, uint32_t place) {
  const zo_place* found = &self->place[place - 1u];
  switch (found->kind) {
    case ZO_PLACE_OWN:
      return ZO_OK;
    case ZO_PLACE_WEIGHTS:
      return has_checksum(self, place, 0, found->bytes, found->checksum);
    case ZO_PLACE_LOG:
      return has_log(self, place);
    default:
      return ZO_ERROR_LOG;
  }
}

/* --- Records ------------------------------------------------------------------------------------
 */

static uint32_t places_geometry(const zo_places* self) {
  uint8_t words[16];
  zo_write_u32(words, kPlacesVersion);
  zo_write_u32(words + 4, self->place_bytes);
  zo_write_u32(words + 8, self->weight_bytes);
  zo_write_u32(words + 12, unit_of(self));
  return zo_crc32(0, words, sizeof words);
}

static uint32_t record_checksum(const zo_places* self, const uint8_t* record) {
  const uint32_t crc = zo_crc32(0, self->fingerprint, kPlacesFingerprintBytes);
  return zo_crc32(crc, record, kPlacesChecksum);
}

static bool write_places(zo_places* self) {
  uint8_t record[kPlacesRecordDistance]; /* with room to fill it up */
  zo_write_u32(record, self->number + 1u);
  zo_write_u32(record + kPlacesActive, self->active);
  for (uint32_t i = 0; i < 2u; ++i) {
    uint8_t* to = record + kPlacesEach + 12u * i;
    zo_write_u32(to, self->place[i].kind);
    zo_write_u32(to + 4, self->place[i].bytes);
    zo_write_u32(to + 8, self->place[i].checksum);
  }
  zo_write_u32(record + kPlacesGeometry, places_geometry(self));
  zo_write_u32(record + kPlacesChecksum, record_checksum(self, record));
  memset(record + kPlacesRecordBytes, 0xFF, sizeof record - kPlacesRecordBytes);
  const uint32_t at = kPlacesRecordDistance * ((self->number + 1u) % 2u);
  const uint32_t bytes = zo_padded(kPlacesRecordBytes, unit_of(self));
  /* Everything that the record names is safe before it, and the record before anything else. */
  self->is_unsure = !sync_store(self) || !zo_store_write(self->store, at, record, bytes) || !sync_store(self);
  self->number += self->is_unsure ? 0u : 1u;
  return !self->is_unsure;
}

/* A header begins a new run: a log that was sent is then void, and a record says so before its
 * first byte changes. Records written here are found again: one that could not be written, perhaps
 * of another place, is superseded first. */
static bool write_active_log(void* context, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  zo_places* self = (zo_places*)context;
  zo_place* place = &self->place[self->active - 1u];
  if (offset == 0u && place->kind == ZO_PLACE_LOG) {
    const zo_place before = *place;
    memset(place, 0, sizeof *place);
    place->kind = ZO_PLACE_OWN;
    if (!write_places(self)) {
      *place = before;
      return false;
    }
  } else if (self->is_unsure && !write_places(self)) {
    return false;
  }
  return write_place(self, self->active, self->log_at + offset, bytes, count);
}

static zo_status read_places(zo_places* self) {
  uint32_t geometry = places_geometry(self);
  self->number = 0;
  self->active = 1;
  memset(self->place, 0, sizeof self->place);
  self->place[0].kind = ZO_PLACE_OWN;
  for (uint32_t i = 0; i < 2u; ++i) {
    uint8_t record[kPlacesRecordBytes];
    const uint32_t at = kPlacesRecordDistance * i;
    const zo_status status = zo_store_read(self->store, at, record, sizeof record);
    if (status == ZO_ERROR_STORE) return status;
    if (status != ZO_OK) continue;
    const uint32_t number = zo_read_u32(record), active = zo_read_u32(record + kPlacesActive);
    if (zo_read_u32(record + kPlacesChecksum) != record_checksum(self, record) || number <= self->number ||
        (active != 1u && active != 2u)) {
      continue;
    }
    self->number = number;
    self->active = active;
    geometry = zo_read_u32(record + kPlacesGeometry);
    for (uint32_t j = 0; j < 2u; ++j) {
      const uint8_t* from = record + kPlacesEach + 12u * j;
      self->place[j].kind = zo_read_u32(from);
      self->place[j].bytes = zo_read_u32(from + 4);
      self->place[j].checksum = zo_read_u32(from + 8);
    }
  }
  return geometry == places_geometry(self) ? ZO_OK : ZO_ERROR_LOG;
}

zo_status zo_places_mount(zo_places* self, const zo_log_store* store, uint32_t weight_bytes,
                          const uint8_t* fingerprint) {
  if (self == NULL || store == NULL || fingerprint == NULL || store->bytes < ZO_PLACES_RECORDS_BYTES ||
      !zo_is_store_unit(store->unit)) {
    return ZO_ERROR_ARGUMENT;
  }
  const uint32_t unit = store->unit > 1u ? store->unit : 1u;
  self->store = store;
  self->place_bytes = (store->bytes - ZO_PLACES_RECORDS_BYTES) / 2u & ~(unit - 1u);
  self->weight_bytes = weight_bytes;
  self->log_at = zo_padded(weight_bytes, unit);
  self->fingerprint = fingerprint;
  self->is_unsure = self->needs_log = false;
  self->weights.write = write_no_weights;
  self->weights.read = read_active_weights;
  self->log.write = write_active_log;
  self->log.read = read_active_log;
  self->weights.context = self->log.context = self;
  self->weights.sync = NULL;
  self->log.sync = store->sync == NULL ? NULL : sync_store;
  self->weights.unit = self->log.unit = unit;
  /* A log begins at a unit, so the checks of the weights hold for padded weights, too. */
  const uint32_t header = zo_padded(kLogLeastBytes, unit);
  if (self->place_bytes < header || weight_bytes > self->place_bytes - header) {
    return ZO_ERROR_ARGUMENT;
  }
  self->weights.bytes = weight_bytes;
  self->log.bytes = self->place_bytes - self->log_at;
  zo_status status = read_places(self);
  for (uint32_t i = 0; i < 2u && status == ZO_OK; ++i) {
    status = is_usable(self, self->active);
    if (status != ZO_ERROR_LOG) return status;
    self->place[self->active - 1u].kind = ZO_PLACE_VOID;
    self->active = 3u - self->active;
    status = ZO_OK;
  }
  if (status != ZO_OK) return status;
  self->active = 1;
  self->place[0].kind = ZO_PLACE_OWN;
  return ZO_OK;
}

/* --- Changes ------------------------------------------------------------------------------------
 */

/* Called before the first byte of a place changes: its content is then incomplete. */
static bool make_void(zo_places* self, uint32_t place) {
  const zo_place before = self->place[place - 1u];
  if (before.kind == ZO_PLACE_VOID && !self->is_unsure) return true;
  memset(&self->place[place - 1u], 0, sizeof before);
  if (write_places(self)) return true;
  self->place[place - 1u] = before;
  return false;
}

zo_status zo_places_write(zo_places* self, uint32_t place, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  if (!has_bytes(self, place, offset, count) || ((offset | count) & (unit_of(self) - 1u)) != 0u) {
    return ZO_ERROR_ARGUMENT;
  }
  if (place == self->active) return ZO_ERROR_ORDER;
  const bool done = make_void(self, place) && write_place(self, place, offset, bytes, count);
  return done ? ZO_OK : ZO_ERROR_STORE;
}

/* Prepares written bytes of a place for a run. */
static zo_status make_ready(zo_places* self, uint32_t place, const zo_place* what) {
  static const uint8_t no_magic[ZO_STORE_UNIT_MOST] = {0};
  const bool of_weights = what->kind == ZO_PLACE_WEIGHTS;
  const uint32_t at = of_weights ? 0u : self->log_at;
  if (of_weights ? what->bytes != self->weight_bytes : what->kind != ZO_PLACE_LOG) {
    return ZO_ERROR_ARGUMENT;
  }
  if (!has_bytes(self, place, at, what->bytes)) return ZO_ERROR_ARGUMENT;
  if (has_checksum(self, place, at, what->bytes, what->checksum) != ZO_OK) return ZO_ERROR_STORE;
  const zo_status status = of_weights ? ZO_OK : has_log(self, place);
  if (status != ZO_OK) return status;
  if (!make_void(self, place)) return ZO_ERROR_STORE;
  /* The place's previous log does not belong to the new run, and its bytes behind the end of the
   * new log do not continue it. */
  const uint32_t end = of_weights ? self->log_at : at + zo_padded(what->bytes, unit_of(self));
  const uint32_t bytes = zo_padded(kLogMagicBytes, unit_of(self));
  if (!has_bytes(self, place, end, bytes)) return ZO_OK;
  return write_place(self, place, end, no_magic, bytes) ? ZO_OK : ZO_ERROR_STORE;
}

zo_status zo_places_activate(zo_places* self, uint32_t place, const zo_place* what, zo_status (*adopt)(void* context),
                             void* context) {
  if (!has_bytes(self, place, 0, 0)) return ZO_ERROR_ARGUMENT;
  const zo_place now = self->place[place - 1u];
  const bool as_it_is = what->kind == ZO_PLACE_VOID;
  if (place == self->active) {
    const bool same = what->kind == now.kind && what->bytes == now.bytes && what->checksum == now.checksum;
    return as_it_is || same ? ZO_OK : ZO_ERROR_ORDER;
  }
  zo_status status = ZO_OK;
  if (!as_it_is) {
    status = make_ready(self, place, what);
  } else if (is_usable(self, place) != ZO_OK) {
    status = ZO_ERROR_STORE;
  }
  if (status != ZO_OK) return status;
  const uint32_t before = self->active;
  const zo_place old = self->place[place - 1u];
  self->active = place;
  if (!as_it_is) self->place[place - 1u] = *what;
  self->needs_log = what->kind == ZO_PLACE_LOG;
  status = adopt(context);
  self->needs_log = false;
  if (status == ZO_OK && !write_places(self)) status = ZO_ERROR_STORE;
  if (status == ZO_OK) return ZO_OK;
  self->active = before;
  self->place[place - 1u] = old;
  /* A failed write may be there after all: the next reset must not find it. */
  if (self->is_unsure) (void)write_places(self);
  const zo_status back = adopt(context);
  return back == ZO_OK ? status : back;
}
