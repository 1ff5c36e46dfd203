/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Frames, the two places of a store, and the device's end of the link, on lines and stores that
 * fail. The protocol itself is held against the host's end in tests/link. */
#include "core_test.h"
#include "flash_part.h"
#include "ops/core/link/zo_link.h"
#include "ops/core/link/zo_link_protocol.h"

/* --- Frames ------------------------------------------------------------------------------------
 */

typedef struct stream {
  uint8_t* bytes;
  uint32_t count, room;
} stream;

static bool to_stream(void* context, const uint8_t* bytes, uint32_t count) {
  stream* s = (stream*)context;
  if (count > s->room - s->count) return false;
  memcpy(s->bytes + s->count, bytes, count);
  s->count += count;
  return true;
}

/* Contents with runs of zeros and of other bytes, so that pieces of every length are there. */
static void any_content(uint8_t* bytes, uint32_t count) {
  for (uint32_t i = 0; i < count;) {
    const uint32_t zero = flash_draw() % 2u;
    for (uint32_t run = 1u + flash_draw() % 300u; run > 0u && i < count; --run, ++i) {
      bytes[i] = zero != 0u ? 0u : (uint8_t)(1u + flash_draw() % 255u);
    }
  }
}

static void test_frames(uint32_t count) {
  uint8_t* content = (uint8_t*)malloc(count + ZO_FRAME_CHECKSUM_BYTES);
  uint8_t* found = (uint8_t*)malloc(count + ZO_FRAME_CHECKSUM_BYTES);
  stream s = {NULL, 0, count + ZO_FRAME_CHECKSUM_BYTES + count / 254u + 4u};
  s.bytes = (uint8_t*)malloc(s.room);
  const zo_byte_sink to = {to_stream, &s};
  any_content(content, count);
  CHECK(zo_frame_send(content, count, &to));
  zo_frame_reader reader;
  zo_frame_begin(&reader, found, count + ZO_FRAME_CHECKSUM_BYTES);
  /* Earlier bytes on the line are no part of it. */
  for (uint32_t i = 0; i < 7u; ++i) CHECK(zo_frame_take(&reader, (uint8_t)flash_draw()) == 0u);
  for (uint32_t i = 0; i < s.count; ++i) {
    const uint32_t whole = zo_frame_take(&reader, s.bytes[i]);
    CHECK((i == 0u || s.bytes[i] != 0u) == (i + 1u < s.count));
    CHECK(whole == (i + 1u < s.count ? 0u : count));
  }
  CHECK(memcmp(found, content, count) == 0);
  /* A byte that is lost, doubled or changed. */
  for (uint32_t kind = 0; kind < 3u; ++kind) {
    const uint32_t at = 1u + flash_draw() % (s.count - 2u);
    const uint32_t flip = 1u + flash_draw() % 255u;
    for (uint32_t i = 1; i < s.count; ++i) {
      if (i == at && kind == 0u) continue;
      const uint8_t byte = (uint8_t)(i == at && kind == 2u ? s.bytes[i] ^ flip : s.bytes[i]);
      CHECK(zo_frame_take(&reader, byte) == 0u);
      if (i == at && kind == 1u) CHECK(zo_frame_take(&reader, byte) == 0u);
    }
    CHECK(zo_frame_take(&reader, 0) == 0u);
  }
  /* One that is longer than the buffer; the next one is found. */
  for (uint32_t i = 0; i < 3u * s.room + 3u; ++i) CHECK(zo_frame_take(&reader, 1) == 0u);
  uint32_t whole = 0;
  for (uint32_t i = 0; i < s.count; ++i) whole += zo_frame_take(&reader, s.bytes[i]);
  CHECK(whole == count);
  /* A line that fails. */
  const uint32_t bytes = s.count;
  for (s.room = 0; s.room < bytes; s.room += 1u + bytes / 9u) {
    s.count = 0;
    CHECK(!zo_frame_send(content, count, &to));
  }
  free(content);
  free(found);
  free(s.bytes);
}

/* --- Places ------------------------------------------------------------------------------------
 */

/* The log has whole units, the weights have not. */
enum { kWeightBytes = 40, kLogBytes = 224, kStoreBytes = 128 + 2 * (64 + kLogBytes) + 1 };

/* A store that loses its power within a write: of that a part is there, and of the unit that was
 * being programmed anything. */
typedef struct torn_store {
  uint32_t unit;
  uint8_t* bytes; /* [kStoreBytes] */
  uint32_t writes;
  uint32_t failing; /* number of the write that fails, from 1; 0: none */
  uint32_t arrives;
  uint32_t reads;
  uint32_t failing_read; /* number of the read that fails, from 1; 0: none */
} torn_store;

static bool write_torn(void* context, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  torn_store* s = (torn_store*)context;
  if (offset > kStoreBytes || count > kStoreBytes - offset) return false;
  CHECK(offset % s->unit == 0u && count % s->unit == 0u);
  if (s->failing != 0u && s->writes + 1u > s->failing) return false; /* without power */
  const bool fails = ++s->writes == s->failing;
  const bool tears = fails && s->arrives < count;
  if (tears) count = s->arrives / s->unit * s->unit;
  memcpy(s->bytes + offset, bytes, count);
  for (uint32_t i = 0; tears && s->unit > 1u && i < s->unit; ++i) {
    s->bytes[offset + count + i] = (uint8_t)flash_draw();
  }
  return !fails;
}

static int32_t read_torn(void* context, uint32_t offset, uint8_t* bytes, uint32_t count) {
  torn_store* s = (torn_store*)context;
  CHECK(offset <= kStoreBytes && count <= kStoreBytes - offset); /* for any request on the line */
  if (++s->reads == s->failing_read) return -5;
  memcpy(bytes, s->bytes + offset, count);
  return (int32_t)count;
}

/* A device: the values that its trainer has taken from a place. */
typedef struct place_device {
  torn_store memory;
  zo_log_store store;
  zo_places places;
  uint8_t weights[kWeightBytes], log[kLogBytes]; /* of the run that goes on */
  uint32_t kind;
  uint32_t refusals; /* of the next calls */
  uint32_t calls;
} place_device;

static const uint8_t fingerprint[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

static zo_status adopt(void* context) {
  place_device* d = (place_device*)context;
  const zo_places* p = &d->places;
  ++d->calls;
  if (d->refusals > 0u) return --d->refusals, ZO_ERROR_LOG;
  d->kind = p->place[p->active - 1u].kind;
  CHECK(!p->needs_log || d->kind == ZO_PLACE_LOG);
  zo_status status = ZO_OK;
  if (d->kind == ZO_PLACE_WEIGHTS) status = zo_store_read(&p->weights, 0, d->weights, kWeightBytes);
  return status == ZO_OK ? zo_store_read(&p->log, 0, d->log, kLogBytes) : status;
}

static void boot(place_device* d) {
  d->memory.failing = d->memory.writes = 0;
  d->store.write = write_torn;
  d->store.read = read_torn;
  d->store.context = &d->memory;
  d->store.unit = d->memory.unit;
  d->store.bytes = kStoreBytes;
  CHECK(zo_places_mount(&d->places, &d->store, kWeightBytes, fingerprint) == ZO_OK);
  CHECK(adopt(d) == ZO_OK);
}

static void begin_device(place_device* d, uint32_t unit) {
  memset(d, 0, sizeof *d);
  d->memory.unit = unit;
  d->memory.bytes = (uint8_t*)malloc(kStoreBytes);
  for (uint32_t i = 0; i < kStoreBytes; ++i) d->memory.bytes[i] = (uint8_t)flash_draw();
  boot(d);
  CHECK(d->places.active == 1u && d->kind == ZO_PLACE_OWN);
}

/* Where a place of this store has its log. */
static uint32_t log_at(uint32_t unit) { return (kWeightBytes + unit - 1u) / unit * unit; }

/* A log of the model, as far as places look at it. */
static void make_log(uint8_t* bytes, uint32_t header, uint8_t begin, uint32_t unit) {
  for (uint32_t i = 0; i < kLogBytes; ++i) bytes[i] = (uint8_t)(begin + i);
  bytes[9] = 0;
  zo_write_u16(bytes + 10, header);
  memcpy(bytes + 16, fingerprint, sizeof fingerprint);
  zo_write_u32(bytes + header - 4u, zo_crc32(0, bytes, header - 4u));
  if (unit > 1u) bytes[9] = (uint8_t)(128u + unit);
}

/* The host's requests to deploy weights or a log; the first status that is not ZO_OK. */
static zo_status deploy(place_device* d, uint32_t place, uint32_t kind, const uint8_t* bytes, uint32_t count) {
  const uint32_t unit = d->memory.unit;
  const uint32_t at = kind == ZO_PLACE_WEIGHTS ? 0u : log_at(unit);
  const zo_place what = {kind, count, zo_fnv1a(ZO_FNV1A_BEGIN, bytes, count)};
  zo_status status = ZO_OK;
  for (uint32_t i = 0; i < count && status == ZO_OK; i += 32u) {
    const uint32_t part = count - i < 32u ? count - i : 32u;
    uint8_t units[32];
    memset(units, 0xFF, sizeof units);
    memcpy(units, bytes + i, part);
    status = zo_places_write(&d->places, place, at + i, units, (part + unit - 1u) / unit * unit);
  }
  return status == ZO_OK ? zo_places_activate(&d->places, place, &what, adopt, d) : status;
}

/* Each read of a store fails once: that is said, nothing is written, and the same call succeeds
 * afterwards. */
static void test_failing_reads(uint32_t unit) {
  place_device d;
  uint8_t weights[kWeightBytes], log[kLogBytes], before[kStoreBytes];
  const zo_place as_it_is = {ZO_PLACE_VOID, 0, 0};
  zo_places again;
  uint32_t failures = 0;
  begin_device(&d, unit);
  any_content(weights, sizeof weights);
  make_log(log, 132, 3, unit);
  CHECK(deploy(&d, 2, ZO_PLACE_WEIGHTS, weights, kWeightBytes) == ZO_OK);
  CHECK(deploy(&d, 1, ZO_PLACE_LOG, log, kLogBytes) == ZO_OK);
  memcpy(before, d.memory.bytes, sizeof before);
  d.memory.writes = 0;
  for (zo_status status = ZO_ERROR_STORE; status != ZO_OK;) {
    d.memory.reads = 0;
    d.memory.failing_read = ++failures;
    status = zo_places_mount(&again, &d.store, kWeightBytes, fingerprint);
    CHECK(status == (d.memory.reads < failures ? ZO_OK : ZO_ERROR_STORE));
  }
  CHECK(memcmp(before, d.memory.bytes, sizeof before) == 0);
  CHECK(failures > 4u && again.active == 1u && again.place[0].kind == ZO_PLACE_LOG);
  CHECK(again.place[1].kind == ZO_PLACE_WEIGHTS);
  failures = 0;
  for (zo_status status = ZO_ERROR_STORE; status != ZO_OK;) {
    d.memory.reads = 0;
    d.memory.failing_read = ++failures;
    status = zo_places_activate(&d.places, 2, &as_it_is, adopt, &d);
    CHECK(status == (d.memory.reads < failures ? ZO_OK : ZO_ERROR_STORE));
    if (status == ZO_OK) break;
    CHECK(d.memory.writes == 0u && d.places.active == 1u && d.kind == ZO_PLACE_LOG);
  }
  CHECK(failures > 1u && d.places.active == 2u);
  free(d.memory.bytes);
}

static void test_refusals(uint32_t unit) {
  place_device d;
  uint8_t log[kLogBytes], byte = 0;
  const zo_place as_it_is = {ZO_PLACE_VOID, 0, 0};
  uint8_t units[64] = {0};
  zo_places none;
  begin_device(&d, unit);
  /* The least place: weights and a header of 36 bytes, each filled up. */
  const uint32_t least = log_at(unit) + (36u + unit - 1u) / unit * unit;
  CHECK(d.places.place_bytes == 64 + kLogBytes);
  zo_log_store other_store = d.store;
  other_store.bytes = 127;
  CHECK(zo_places_mount(&none, &other_store, 0, fingerprint) == ZO_ERROR_ARGUMENT);
  other_store.bytes = 127 + 2 * least;
  CHECK(zo_places_mount(&none, &other_store, 40, fingerprint) == ZO_ERROR_ARGUMENT);
  other_store.bytes = 128 + 2 * least;
  CHECK(zo_places_mount(&none, &other_store, 40, fingerprint) == ZO_OK);
  other_store.bytes = UINT32_MAX;
  CHECK(zo_places_mount(&none, &other_store, UINT32_MAX, fingerprint) == ZO_ERROR_ARGUMENT);
  other_store = d.store;
  other_store.unit = unit == 1u ? 3u : 64u;
  CHECK(zo_places_mount(&none, &other_store, 40, fingerprint) == ZO_ERROR_ARGUMENT);
  CHECK(zo_places_write(&d.places, 1, 0, units, unit) == ZO_ERROR_ORDER);
  CHECK(zo_places_write(&d.places, 0, 0, units, unit) == ZO_ERROR_ARGUMENT);
  CHECK(zo_places_write(&d.places, 3, 0, units, unit) == ZO_ERROR_ARGUMENT);
  CHECK(zo_places_write(&d.places, 2, 64 + kLogBytes, units, unit) == ZO_ERROR_ARGUMENT);
  CHECK(zo_places_write(&d.places, 2, 0u - unit, units, 2u * unit) == ZO_ERROR_ARGUMENT);
  if (unit > 1u) { /* no whole units */
    CHECK(zo_places_write(&d.places, 2, unit / 2u, units, unit) == ZO_ERROR_ARGUMENT);
    CHECK(zo_places_write(&d.places, 2, 0, units, unit + unit / 2u) == ZO_ERROR_ARGUMENT);
  }
  CHECK(zo_places_activate(&d.places, 2, &as_it_is, adopt, &d) == ZO_ERROR_STORE);
  CHECK(zo_places_activate(&d.places, 1, &as_it_is, adopt, &d) == ZO_OK);
  CHECK(!zo_store_write(&d.places.weights, 0, &byte, 1));
  CHECK(!zo_store_write(&d.places.log, UINT32_MAX, &byte, 1));
  const uint32_t log_end = 64 + kLogBytes - log_at(unit);
  CHECK(zo_store_read(&d.places.log, log_end, &byte, 1) == ZO_ERROR_LOG);
  CHECK(zo_store_read(&d.places.log, log_end - 1u, &byte, 1) == ZO_OK);
  CHECK(zo_store_read(&d.places.weights, kWeightBytes, &byte, 1) == ZO_ERROR_LOG);
  make_log(log, 132, 1, unit);
  log[9] = 0;
  log[20] ^= 1; /* of another model */
  zo_write_u32(log + 128, zo_crc32(0, log, 128));
  if (unit > 1u) log[9] = (uint8_t)(128u + unit);
  CHECK(deploy(&d, 2, ZO_PLACE_LOG, log, kLogBytes) == ZO_ERROR_LOG);
  for (uint32_t at = 0; at < 128u; at += 40u) {
    make_log(log, 132, 1, unit);
    log[at] ^= 1; /* damaged */
    CHECK(deploy(&d, 2, ZO_PLACE_LOG, log, kLogBytes) == ZO_ERROR_LOG);
  }
  for (uint32_t other = 1; other <= 32u; other *= 2u) { /* padded for another store */
    if (other == unit) continue;
    make_log(log, 132, 1, other);
    CHECK(deploy(&d, 2, ZO_PLACE_LOG, log, kLogBytes) == ZO_ERROR_LOG);
  }
  CHECK(deploy(&d, 2, ZO_PLACE_WEIGHTS, log, kWeightBytes - 1) == ZO_ERROR_ARGUMENT);
  CHECK(deploy(&d, 2, ZO_PLACE_OWN, log, kWeightBytes) == ZO_ERROR_ARGUMENT);
  const zo_place wrong = {ZO_PLACE_WEIGHTS, kWeightBytes, 1};
  CHECK(zo_places_activate(&d.places, 2, &wrong, adopt, &d) == ZO_ERROR_STORE);
  d.refusals = 1; /* the trainer does not take it */
  CHECK(deploy(&d, 2, ZO_PLACE_WEIGHTS, log, kWeightBytes) == ZO_ERROR_LOG);
  CHECK(d.places.active == 1u && d.kind == ZO_PLACE_OWN);
  CHECK(zo_places_activate(&d.places, 2, &as_it_is, adopt, &d) == ZO_ERROR_STORE);
  boot(&d);
  CHECK(d.places.active == 1u && d.kind == ZO_PLACE_OWN);
  free(d.memory.bytes);
}

/* There and back, and the log of each run stays its own. */
static void test_there_and_back(uint32_t unit) {
  place_device d;
  uint8_t weights[kWeightBytes], others[kWeightBytes], own[kLogBytes], log[kLogBytes];
  const zo_place as_it_is = {ZO_PLACE_VOID, 0, 0};
  begin_device(&d, unit);
  any_content(weights, sizeof weights);
  any_content(others, sizeof others);
  others[0] = (uint8_t)(weights[0] ^ 1u);
  make_log(own, 132, 7, unit);
  make_log(log, 164, 9, unit);
  CHECK(zo_store_write(&d.places.log, 0, own, kLogBytes));
  CHECK(deploy(&d, 2, ZO_PLACE_WEIGHTS, weights, kWeightBytes) == ZO_OK);
  CHECK(d.kind == ZO_PLACE_WEIGHTS && memcmp(d.weights, weights, kWeightBytes) == 0);
  CHECK(zo_read_u32(d.log) == 0u && zo_read_u32(d.log + 4) == 0u);
  const uint32_t calls = d.calls;
  const zo_place again = {ZO_PLACE_WEIGHTS, kWeightBytes, zo_fnv1a(ZO_FNV1A_BEGIN, weights, kWeightBytes)};
  const zo_place other = {ZO_PLACE_WEIGHTS, kWeightBytes, zo_fnv1a(ZO_FNV1A_BEGIN, others, kWeightBytes)};
  CHECK(zo_places_activate(&d.places, 2, &again, adopt, &d) == ZO_OK && d.calls == calls);
  CHECK(zo_places_activate(&d.places, 2, &other, adopt, &d) == ZO_ERROR_ORDER);
  CHECK(zo_places_activate(&d.places, 1, &as_it_is, adopt, &d) == ZO_OK);
  CHECK(d.kind == ZO_PLACE_OWN && memcmp(d.log, own, kLogBytes) == 0);
  CHECK(zo_places_activate(&d.places, 2, &as_it_is, adopt, &d) == ZO_OK);
  boot(&d);
  CHECK(d.places.active == 2u && memcmp(d.weights, weights, kWeightBytes) == 0);
  CHECK(deploy(&d, 1, ZO_PLACE_LOG, log, kLogBytes) == ZO_OK);
  CHECK(d.kind == ZO_PLACE_LOG && memcmp(d.log, log, kLogBytes) == 0);
  boot(&d);
  CHECK(d.places.active == 1u && d.kind == ZO_PLACE_LOG);
  /* Damage of the active place: the previous one takes over. */
  d.memory.bytes[128 + log_at(unit) + 30] ^= 1;
  boot(&d);
  CHECK(d.places.active == 2u && d.kind == ZO_PLACE_WEIGHTS);
  CHECK(zo_places_activate(&d.places, 1, &as_it_is, adopt, &d) == ZO_ERROR_STORE);
  d.memory.bytes[128 + 64 + kLogBytes] ^= 1;
  boot(&d);
  CHECK(d.places.active == 1u && d.kind == ZO_PLACE_OWN);
  /* A store of another model has nothing. */
  static const uint8_t stranger[16] = {0};
  CHECK(zo_places_mount(&d.places, &d.store, kWeightBytes, stranger) == ZO_OK);
  CHECK(d.places.number == 0u && d.places.active == 1u);
  free(d.memory.bytes);
}

/* Places that another firmware has written, whose sizes differ: nothing of them is taken or
 * changed. */
static void test_other_sizes(uint32_t unit) {
  place_device d;
  uint8_t weights[kWeightBytes], before[kStoreBytes];
  begin_device(&d, unit);
  any_content(weights, sizeof weights);
  CHECK(deploy(&d, 2, ZO_PLACE_WEIGHTS, weights, kWeightBytes) == ZO_OK);
  memcpy(before, d.memory.bytes, sizeof before);
  zo_places other;
  zo_log_store store = d.store;
  store.bytes -= 64u;
  CHECK(zo_places_mount(&other, &store, kWeightBytes, fingerprint) == ZO_ERROR_LOG);
  store = d.store;
  store.unit = d.store.unit == 1u ? 2u : d.store.unit / 2u;
  CHECK(zo_places_mount(&other, &store, kWeightBytes, fingerprint) == ZO_ERROR_LOG);
  CHECK(zo_places_mount(&other, &d.store, kWeightBytes - 1, fingerprint) == ZO_ERROR_LOG);
  CHECK(memcmp(before, d.memory.bytes, sizeof before) == 0);
  boot(&d);
  CHECK(d.places.active == 2u && d.kind == ZO_PLACE_WEIGHTS);
  memset(d.memory.bytes, 0xFF, ZO_PLACES_RECORDS_BYTES);
  CHECK(zo_places_mount(&other, &store, kWeightBytes, fingerprint) == ZO_OK);
  CHECK(other.active == 1u && other.place[0].kind == ZO_PLACE_OWN);
  free(d.memory.bytes);
}

/* Power fails at each byte of a deployment and of going back: afterwards the device has the old
 * place or the new one, complete; and the host's next attempt succeeds. */
static void test_power_cuts(uint32_t unit) {
  uint8_t first[kWeightBytes], second[kWeightBytes], log[kLogBytes];
  uint8_t before[kStoreBytes];
  uint32_t outcomes[2] = {0, 0};
  const zo_place as_it_is = {ZO_PLACE_VOID, 0, 0};
  place_device d;
  any_content(first, sizeof first);
  any_content(second, sizeof second);
  second[0] = (uint8_t)(first[0] ^ 1u);
  make_log(log, 132, 3, unit);
  begin_device(&d, unit);
  CHECK(deploy(&d, 2, ZO_PLACE_WEIGHTS, first, kWeightBytes) == ZO_OK);
  CHECK(zo_store_write(&d.places.log, 0, log, kLogBytes));
  memcpy(before, d.memory.bytes, sizeof before);
  for (uint32_t back = 0; back < 2u; ++back) {
    for (uint32_t failing = 1;; ++failing) {
      bool done = false;
      for (uint32_t arrives = 0; arrives <= 64u && !done; ++arrives) {
        memcpy(d.memory.bytes, before, sizeof before);
        boot(&d);
        if (back != 0u) CHECK(deploy(&d, 1, ZO_PLACE_WEIGHTS, second, kWeightBytes) == ZO_OK);
        d.memory.writes = 0;
        d.memory.failing = failing;
        d.memory.arrives = arrives;
        const zo_status status = back != 0u ? zo_places_activate(&d.places, 2, &as_it_is, adopt, &d)
                                            : deploy(&d, 1, ZO_PLACE_WEIGHTS, second, kWeightBytes);
        done = d.memory.writes < failing;
        CHECK(status == (done ? ZO_OK : ZO_ERROR_STORE));
        boot(&d);
        const bool is_new = memcmp(d.weights, second, kWeightBytes) == 0;
        CHECK(d.kind == ZO_PLACE_WEIGHTS && d.places.active == (is_new ? 1u : 2u));
        if (!is_new) {
          CHECK(memcmp(d.weights, first, kWeightBytes) == 0);
          CHECK(memcmp(d.log, log, kLogBytes) == 0);
        }
        ++outcomes[is_new ? 1 : 0];
        if (back != 0u) {
          CHECK(zo_places_activate(&d.places, 2, &as_it_is, adopt, &d) == ZO_OK);
          CHECK(memcmp(d.log, log, kLogBytes) == 0);
        } else if (!is_new) {
          CHECK(deploy(&d, 1, ZO_PLACE_WEIGHTS, second, kWeightBytes) == ZO_OK);
          CHECK(memcmp(d.weights, second, kWeightBytes) == 0);
        }
      }
      if (done) break;
    }
  }
  CHECK(outcomes[0] > 100u && outcomes[1] > 30u);
  free(d.memory.bytes);
}

/* --- The link ----------------------------------------------------------------------------------
 */

static uint32_t ask(zo_link* link, stream* line, const uint8_t* request, uint32_t count, uint8_t* answer,
                    uint32_t room) {
  uint8_t content[64], sent[96];
  stream to = {sent, 0, sizeof sent};
  const zo_byte_sink sink = {to_stream, &to};
  memcpy(content, request, count);
  CHECK(zo_frame_send(content, count, &sink));
  line->count = 0;
  CHECK(zo_link_serve(link, sent, to.count) == 1u);
  zo_frame_reader reader;
  uint32_t found = 0;
  zo_frame_begin(&reader, answer, room);
  for (uint32_t i = 0; i < line->count; ++i) found += zo_frame_take(&reader, line->bytes[i]);
  return found;
}

static void test_requests(void) {
  place_device d;
  begin_device(&d, 1);
  uint8_t* buffer = (uint8_t*)malloc(ZO_LINK_LEAST_BYTES);
  uint8_t sent[256], answer[ZO_LINK_LEAST_BYTES];
  stream line = {sent, 0, sizeof sent};
  zo_link link;
  memset(&link, 0, sizeof link);
  CHECK(zo_link_begin(&link) == ZO_ERROR_ARGUMENT);
  link.buffer = buffer;
  link.buffer_bytes = ZO_LINK_LEAST_BYTES - 1u;
  link.to.write = to_stream;
  link.to.context = &line;
  link.fingerprint = fingerprint;
  CHECK(zo_link_begin(&link) == ZO_ERROR_ARGUMENT);
  link.buffer_bytes = ZO_LINK_LEAST_BYTES;
  CHECK(zo_link_begin(&link) == ZO_OK);
  CHECK(zo_link_begin_with_places(&link, &d.places, NULL, &d) == ZO_ERROR_ARGUMENT);
  CHECK(zo_link_begin_with_places(&link, NULL, adopt, &d) == ZO_ERROR_ARGUMENT);
  CHECK(zo_link_begin_with_places(&link, &d.places, adopt, &d) == ZO_OK);

  uint8_t hello[4] = {ZO_LINK_VERSION, ZO_LINK_HELLO, 0x34, 0x12};
  CHECK(ask(&link, &line, hello, 4, answer, sizeof answer) == 64u);
  CHECK(answer[1] == 0x81 && answer[2] == 0x34 && answer[3] == 0x12);
  CHECK(zo_read_u32(answer + 4) == ZO_OK && memcmp(answer + 8, fingerprint, 16) == 0);
  CHECK(zo_read_u32(answer + 24) == 64u && zo_read_u32(answer + 28) == 1u);
  place_device units; /* the answer has the unit, and the least buffer is large enough for it */
  begin_device(&units, 16);
  link.places = &units.places;
  CHECK(ask(&link, &line, hello, 4, answer, sizeof answer) == 68u);
  CHECK(zo_read_u32(answer + 36) == kWeightBytes && zo_read_u32(answer + 64) == 16u);
  link.places = &d.places;
  free(units.memory.bytes);
  hello[0] = 2;
  CHECK(ask(&link, &line, hello, 4, answer, sizeof answer) == 8u);
  CHECK(answer[0] == ZO_LINK_VERSION && zo_read_u32(answer + 4) == ZO_ERROR_OPTIONS);
  hello[0] = ZO_LINK_VERSION;
  hello[1] = 0x7F;
  CHECK(ask(&link, &line, hello, 4, answer, sizeof answer) == 8u);
  CHECK(zo_read_u32(answer + 4) == ZO_ERROR_OPCODE);

  uint8_t read[16] = {ZO_LINK_VERSION, ZO_LINK_READ, 1, 0, 0, 0, 0, 0, 4, 0, 0, 0, 64};
  CHECK(ask(&link, &line, read, 16, answer, sizeof answer) == 72u);
  CHECK(memcmp(answer + 8, d.memory.bytes + 128 + kWeightBytes + 4, 64) == 0);
  read[12] = 65; /* more than the buffer holds */
  CHECK(ask(&link, &line, read, 16, answer, sizeof answer) == 8u);
  CHECK(zo_read_u32(answer + 4) == ZO_ERROR_ARGUMENT);
  CHECK(ask(&link, &line, read, 15, answer, sizeof answer) == 8u);
  CHECK(zo_read_u32(answer + 4) == ZO_ERROR_ARGUMENT);
  read[1] = ZO_LINK_CHECK;
  read[12] = kLogBytes - 4;
  CHECK(ask(&link, &line, read, 16, answer, sizeof answer) == 12u);
  CHECK(zo_read_u32(answer + 8) == zo_fnv1a(ZO_FNV1A_BEGIN, d.memory.bytes + 128 + kWeightBytes + 4, kLogBytes - 4));
  read[8] = read[9] = read[10] = read[11] = 0xFF;
  CHECK(ask(&link, &line, read, 16, answer, sizeof answer) == 8u);
  CHECK(zo_read_u32(answer + 4) == ZO_ERROR_LOG);
  /* The store fails: that is another thing than a store that ends. */
  zo_write_u32(read + 8, 4);
  d.memory.failing_read = d.memory.reads + 1u;
  CHECK(ask(&link, &line, read, 16, answer, sizeof answer) == 8u);
  CHECK(zo_read_u32(answer + 4) == ZO_ERROR_STORE);
  read[4] = 3; /* no such store */
  CHECK(ask(&link, &line, read, 16, answer, sizeof answer) == 8u);
  CHECK(zo_read_u32(answer + 4) == ZO_ERROR_LOG);
  /* A device that has neither places nor a log. */
  link.places = NULL;
  link.log = NULL;
  link.change = NULL;
  read[4] = read[8] = read[9] = read[10] = read[11] = 0;
  CHECK(ask(&link, &line, read, 16, answer, sizeof answer) == 8u);
  CHECK(zo_read_u32(answer + 4) == ZO_ERROR_LOG);
  read[1] = ZO_LINK_WRITE;
  CHECK(ask(&link, &line, read, 16, answer, sizeof answer) == 8u);
  CHECK(zo_read_u32(answer + 4) == ZO_ERROR_ARGUMENT);
  /* Its own answer comes back. */
  line.count = 0;
  uint8_t echo[40];
  stream to = {echo, 0, sizeof echo};
  const zo_byte_sink sink = {to_stream, &to};
  CHECK(zo_frame_send(answer, 8, &sink));
  CHECK(zo_link_serve(&link, echo, to.count) == 0u && line.count == 0u);
  free(buffer);
  free(d.memory.bytes);
}

void test_link(void) {
  static const uint32_t lengths[] = {1, 2, 3, 4, 5, 249, 250, 251, 253, 254, 255, 505, 506, 2000};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; ++i) {
    for (uint32_t round = 0; round < ROUNDS(40u); ++round) test_frames(lengths[i]);
  }
  for (uint32_t unit = 1; unit <= 32u; unit *= 2u) {
    test_refusals(unit);
    test_failing_reads(unit);
    test_there_and_back(unit);
    test_other_sizes(unit);
    test_power_cuts(unit);
  }
  test_requests();
}
