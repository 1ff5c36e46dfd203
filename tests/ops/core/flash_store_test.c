/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The store on raw flash, on a part that tears what is programmed or erased when power fails. */
#include "core_test.h"
#include "flash_part.h"
#include "ops/core/log/zo_flash_store.h"

typedef struct geometry {
  uint32_t sectors, sector_bytes, page_bytes, unit;
} geometry;

static const geometry geometries[] = {{4, 128, 64, 1},   {4, 256, 64, 32},  {5, 1024, 128, 8},
                                      {8, 4096, 256, 1}, {6, 2048, 256, 4}, {7, 2048, 512, 16},
                                      {4, 64, 64, 2},    {12, 512, 64, 8}};
enum { GEOMETRIES = sizeof geometries / sizeof geometries[0] };

typedef struct stored {
  flash_part part;
  uint16_t* pages;
  zo_flash_store store;
  uint8_t* expected; /* what was written */
  uint32_t bytes;    /* of it that there is room for */
} stored;

static void mount(stored* s) {
  CHECK(zo_flash_store_mount(&s->store, &s->part.flash, s->pages) == ZO_OK);
}

static void begin(stored* s, const geometry* g, int dirty) {
  flash_part_init(&s->part, g->sectors, g->sector_bytes, g->page_bytes, g->unit, dirty);
  s->pages = (uint16_t*)malloc(ZO_FLASH_STORE_PAGES(g->sectors, g->sector_bytes, g->page_bytes) *
                               sizeof *s->pages);
  mount(s);
  s->bytes = ZO_FLASH_STORE_BYTES(g->sectors, g->sector_bytes, g->page_bytes, g->unit);
  CHECK(s->bytes > 0);
  s->expected = (uint8_t*)malloc(s->bytes);
  memset(s->expected, 0xFF, s->bytes);
}

static void end(stored* s) {
  CHECK(s->part.faults == 0u);
  flash_part_free(&s->part);
  free(s->pages);
  free(s->expected);
}

/* Equal to what was written, but for a write in progress, and what shares its units: what is there
 * is from then on what is expected. */
static void compare(stored* s, uint32_t from, uint32_t to) {
  uint8_t* found = (uint8_t*)malloc(s->bytes);
  CHECK(zo_flash_store_read(&s->store, 0, found, s->bytes) == (int32_t)s->bytes);
  for (uint32_t i = 0; i < s->bytes; ++i) {
    const int in_unit = i + s->part.flash.unit > from && i < to + s->part.flash.unit;
    const int undecided = (i >= from && i < to) || (from < to && in_unit && s->expected[i] == 0xFF);
    CHECK(undecided || found[i] == s->expected[i]);
  }
  memcpy(s->expected, found, s->bytes);
  free(found);
}

/* A write as logs do them: behind the last one, most often. */
static void any_write(const stored* s, uint32_t* at, uint32_t* offset, uint32_t* count,
                      uint8_t* bytes) {
  const uint32_t kind = flash_draw() % 8u;
  *count = kind == 0u ? 1u + flash_draw() % 300u : 4u + 4u * (flash_draw() % 8u);
  if (*count > s->bytes) *count = s->bytes;
  if (*at + *count > s->bytes) *at = 0;
  *offset = kind < 2u ? flash_draw() % (s->bytes - *count + 1u) : *at;
  if (kind >= 2u) *at += *count;
  for (uint32_t i = 0; i < *count; ++i) bytes[i] = (uint8_t)flash_draw();
}

/* Power has failed while the store was cleared: it is, or has what it had. */
static void all_or_nothing(stored* s) {
  uint8_t* found = (uint8_t*)malloc(s->bytes);
  CHECK(zo_flash_store_read(&s->store, 0, found, s->bytes) == (int32_t)s->bytes);
  if (memcmp(found, s->expected, s->bytes) != 0) memset(s->expected, 0xFF, s->bytes);
  free(found);
}

static void test_cuts(const geometry* g, uint32_t cuts) {
  stored s;
  uint8_t bytes[300];
  uint32_t at = 0;
  begin(&s, g, 1);
  for (uint32_t cut = 0; cut < cuts; ++cut) {
    uint32_t offset = 0, count = 0, writes = 0;
    flash_part_cut_in(&s.part, 1u + flash_draw() % (cut % 3u == 0u ? 8u : 200u));
    int is_cleared = 0;
    do {
      if (++writes > 1u) memcpy(s.expected + offset, bytes, count);
      count = 0;
      if (flash_draw() % 64u == 0u) {
        is_cleared = zo_flash_store_clear(&s.store) != ZO_OK;
        if (is_cleared) break;
        memset(s.expected, 0xFF, s.bytes);
        at = 0;
      }
      any_write(&s, &at, &offset, &count, bytes);
    } while (zo_flash_store_write(&s.store, offset, bytes, count));
    CHECK(!zo_flash_store_write(&s.store, 0, bytes, 1)); /* until it is mounted again */
    CHECK(zo_flash_store_clear(&s.store) == ZO_ERROR_STORE);
    flash_part_power_on(&s.part);
    /* Power may fail while the store is mounted, too. */
    flash_part_cut_in(&s.part, 1);
    if (zo_flash_store_mount(&s.store, &s.part.flash, s.pages) != ZO_OK)
      flash_part_power_on(&s.part);
    flash_part_cut_in(&s.part, 0);
    mount(&s);
    if (is_cleared) all_or_nothing(&s);
    compare(&s, offset, offset + count);
  }
  CHECK(flash_part_most_erases(&s.part) > 4u);
  end(&s);
}

/* Records behind one another, in the same place again and again, of a store that is full: every
 * sector is erased as often as every other one. */
static void test_wear(const geometry* g, uint32_t steps) {
  stored s;
  begin(&s, g, 0);
  uint8_t* all = (uint8_t*)malloc(s.bytes);
  memset(all, 0x5A, s.bytes);
  CHECK(zo_flash_store_write(&s.store, 0, all, s.bytes));
  memcpy(s.expected, all, s.bytes);
  free(all);
  uint32_t at = 0;
  for (uint32_t step = 0; step < steps; ++step, at += 24) {
    uint8_t record[24];
    if (at + 24u > s.bytes) at = 0;
    for (uint32_t i = 0; i < sizeof record; ++i) record[i] = (uint8_t)flash_draw();
    CHECK(zo_flash_store_write(&s.store, at, record, sizeof record));
    memcpy(s.expected + at, record, sizeof record);
  }
  s.part.reads = 0;
  mount(&s);
  CHECK(s.part.reads == g->sectors * (g->sector_bytes / g->page_bytes)); /* each header once */
  compare(&s, 0, 0);
  CHECK(flash_part_most_erases(&s.part) - flash_part_least_erases(&s.part) <= 1u);
  CHECK(flash_part_least_erases(&s.part) > 10u);
  end(&s);
}

static void test_bad_parts(void) {
  static const geometry bad[] = {{3, 128, 64, 1}, {4, 100, 64, 1}, {4, 128, 48, 1},
                                 {4, 128, 32, 1}, {4, 128, 64, 3}, {4, 128, 64, 64},
                                 {4, 128, 64, 0}, {4, 0, 64, 1}};
  uint16_t pages[4];
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    flash_part part;
    flash_part_init(&part, 4, 128, 64, 1, 0);
    part.flash.sectors = bad[i].sectors;
    part.flash.sector_bytes = bad[i].sector_bytes;
    part.flash.page_bytes = bad[i].page_bytes;
    part.flash.unit = bad[i].unit;
    zo_flash_store store;
    CHECK(zo_flash_store_mount(&store, &part.flash, pages) == ZO_ERROR_ARGUMENT);
    flash_part_free(&part);
  }
}

static void test_room(void) {
  stored s;
  begin(&s, &geometries[2], 0);
  uint8_t byte = 0;
  CHECK(!zo_flash_store_write(&s.store, s.bytes, &byte, 1));
  CHECK(!zo_flash_store_write(&s.store, 1, s.expected, s.bytes));
  CHECK(!zo_flash_store_write(&s.store, UINT32_MAX, &byte, 2));
  CHECK(zo_flash_store_read(&s.store, s.bytes, &byte, 1) == 0);
  CHECK(zo_flash_store_read(&s.store, s.bytes - 1u, s.expected, 2) == 1);
  CHECK(zo_flash_store_write(&s.store, s.bytes, &byte, 0));
  CHECK(zo_flash_store_write(&s.store, s.bytes - 1u, &byte, 1));
  end(&s);
}

void test_flash_store(void) {
  test_bad_parts();
  test_room();
  for (size_t i = 0; i < GEOMETRIES; ++i) {
    test_cuts(&geometries[i], ROUNDS(2000u));
    test_wear(&geometries[i], ROUNDS(20000u));
  }
}
