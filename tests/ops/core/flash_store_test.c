/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The store on raw flash, on a part that tears programmed or erased units when power fails.
 *
 * TFLM_ZO_POWER_CUTS in the environment is how often power fails on each part, with and without
 * ECC, failing sectors, and a mount before half of the writes: 80 times as many cuts. */
#include "core_test.h"
#include "flash_part.h"
#include "ops/core/log/zo_flash_store.h"

typedef struct geometry {
  uint32_t sectors, sector_bytes, page_bytes, unit;
} geometry;

static const geometry geometries[] = {{4, 128, 64, 1},   {4, 256, 64, 32},   {5, 1024, 128, 8}, {8, 4096, 256, 1},
                                      {6, 2048, 256, 4}, {7, 2048, 512, 16}, {4, 64, 64, 2},    {12, 512, 64, 8},
                                      {16, 256, 64, 8},  {25, 512, 64, 32}};
enum { GEOMETRIES = sizeof geometries / sizeof geometries[0] };

typedef struct stored {
  flash_part part;
  uint16_t* pages;
  zo_flash_store store;
  uint8_t* expected; /* the written bytes */
  uint32_t bytes;    /* of it that there is room for */
} stored;

/* Further properties of parts and of their users. */
enum { WITH_ECC = 1, WITH_FAILURES = 2, MOUNT_EACH = 4, KINDS = 8 };

static void mount(stored* s) { CHECK(zo_flash_store_mount(&s->store, &s->part.flash, s->pages) == ZO_OK); }

static void begin(stored* s, const geometry* g, int dirty) {
  flash_part_init(&s->part, g->sectors, g->sector_bytes, g->page_bytes, g->unit, dirty);
  s->pages = (uint16_t*)malloc(ZO_FLASH_STORE_PAGES(g->sectors, g->sector_bytes, g->page_bytes) * sizeof *s->pages);
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

/* Equal to the written bytes, except for a write in progress and its units: their content is
 * expected from then on. */
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
static void any_write(const stored* s, uint32_t* at, uint32_t* offset, uint32_t* count, uint8_t* bytes) {
  const uint32_t kind = flash_draw() % 8u;
  *count = kind == 0u ? 1u + flash_draw() % 300u : 4u + 4u * (flash_draw() % 8u);
  if (*count > s->bytes) *count = s->bytes;
  if (*at + *count > s->bytes) *at = 0;
  *offset = kind < 2u ? flash_draw() % (s->bytes - *count + 1u) : *at;
  if (kind >= 2u) *at += *count;
  for (uint32_t i = 0; i < *count; ++i) bytes[i] = (uint8_t)flash_draw();
}

/* Power has failed while the store was cleared: it is empty, or has its old content. */
static void all_or_nothing(stored* s) {
  uint8_t* found = (uint8_t*)malloc(s->bytes);
  CHECK(zo_flash_store_read(&s->store, 0, found, s->bytes) == (int32_t)s->bytes);
  if (memcmp(found, s->expected, s->bytes) != 0) memset(s->expected, 0xFF, s->bytes);
  free(found);
}

/* Another sector fails, as long as the store bears it; or one operation does. */
static void any_failure(flash_part* part) {
  const uint32_t sector = flash_draw() % part->flash.sectors;
  uint32_t failing = 0;
  for (uint32_t i = 0; i < part->flash.sectors; ++i) failing += part->failures[i] != FLASH_GOOD;
  if (failing < ZO_FLASH_STORE_SPARE(part->flash.sectors)) {
    part->failures[sector] = (uint8_t)(flash_draw() % 2u == 0u ? FLASH_NO_ERASE : FLASH_NO_PROGRAM);
  } else if (failing == 0u) {
    flash_part_fail(part, flash_draw() % 50u, 1);
  } else { /* that one is replaced */
    memset(part->failures, FLASH_GOOD, part->flash.sectors);
  }
}

/* Power fails at any moment, while the store is mounted, too. No other failure may show.
 */
static void test_cuts(const geometry* g, uint32_t kind, uint32_t cuts) {
  stored s;
  uint8_t bytes[300];
  uint32_t at = 0;
  begin(&s, g, 1);
  s.part.has_ecc = (kind & WITH_ECC) != 0u;
  for (uint32_t cut = 0; cut < cuts; ++cut) {
    uint32_t offset = 0, count = 0;
    int is_cleared = 0, is_written = 1;
    flash_part_cut_in(&s.part, 1u + flash_draw() % (cut % 3u == 0u ? 8u : 200u));
    while (is_written && !is_cleared) {
      if (count > 0u) memcpy(s.expected + offset, bytes, count);
      count = 0;
      if ((kind & WITH_FAILURES) != 0u && flash_draw() % 64u == 0u) any_failure(&s.part);
      if ((kind & MOUNT_EACH) != 0u && flash_draw() % 2u == 0u &&
          zo_flash_store_mount(&s.store, &s.part.flash, s.pages) != ZO_OK) {
        break;
      }
      if (flash_draw() % 64u == 0u) {
        is_cleared = zo_flash_store_clear(&s.store) != ZO_OK;
        if (!is_cleared) memset(s.expected, 0xFF, s.bytes);
        at = 0;
      } else {
        any_write(&s, &at, &offset, &count, bytes);
        is_written = zo_flash_store_write(&s.store, offset, bytes, count);
      }
    }
    CHECK(s.part.is_off); /* nothing else fails */
    CHECK(!zo_flash_store_write(&s.store, 0, bytes, 1));
    CHECK(zo_flash_store_clear(&s.store) == ZO_ERROR_STORE);
    CHECK(zo_flash_store_read(&s.store, 0, bytes, 1) < 0);
    flash_part_power_on(&s.part);
    /* A mount finds the content, or any call. */
    if (flash_draw() % 4u > 0u) mount(&s);
    if (is_cleared) all_or_nothing(&s);
    compare(&s, offset, offset + count);
  }
  CHECK(flash_part_most_erases(&s.part) >= cuts / 100u);
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
  /* Of each page three headers: its own twice, and that of an older one; and marks. */
  CHECK(s.part.reads <= 3u * g->sectors * (g->sector_bytes / g->page_bytes) + 64u);
  compare(&s, 0, 0);
  CHECK(flash_part_most_erases(&s.part) - flash_part_least_erases(&s.part) <= 1u);
  CHECK(flash_part_least_erases(&s.part) > steps / 2000u);
  end(&s);
}

static void test_bad_parts(void) {
  static const geometry bad[] = {{3, 128, 64, 1}, {4, 100, 64, 1},  {4, 128, 48, 1}, {4, 128, 32, 1},
                                 {4, 128, 64, 3}, {4, 128, 64, 64}, {4, 128, 64, 0}, {4, 0, 64, 1}};
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

/* A device that sleeps with its memory off between records mounts before each. Marks cost less than
 * records do. */
static void test_sleep(const geometry* g) {
  const uint32_t record_bytes = 32, records = ROUNDS(2000u);
  uint32_t erases[2];
  for (uint32_t sleeps = 0; sleeps < 2u; ++sleeps) {
    stored s;
    begin(&s, g, 0);
    uint32_t at = 0;
    for (uint32_t i = 0; i < records; ++i, at += record_bytes) {
      uint8_t record[32];
      if (at + record_bytes > s.bytes / 2u) at = 0;
      memset(record, (int)(i % 255u), sizeof record);
      if (sleeps) mount(&s);
      CHECK(zo_flash_store_write(&s.store, at, record, sizeof record));
      memcpy(s.expected + at, record, sizeof record);
    }
    compare(&s, 0, 0);
    erases[sleeps] = flash_part_erases(&s.part);
    end(&s);
  }
  CHECK(erases[1] <= 2u * erases[0] + 2u);
}

/* A store that another program has written: nothing of it is taken, or lost, until it is cleared.
 */
static void test_foreign(void) {
  static const geometry others[] = {{8, 4096, 512, 1}, {8, 4096, 256, 2}, {7, 4096, 256, 1}};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; ++i) {
    const geometry* o = &others[i];
    stored s;
    zo_flash_store other;
    uint16_t pages[ZO_FLASH_STORE_PAGES(8, 4096, 256)];
    uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    begin(&s, &geometries[3], 0);
    CHECK(zo_flash_store_write(&s.store, 40, bytes, sizeof bytes));
    memcpy(s.expected + 40, bytes, sizeof bytes);
    const uint32_t operations = s.part.operation_count;
    zo_flash flash = s.part.flash;
    flash.sectors = o->sectors;
    flash.sector_bytes = o->sector_bytes;
    flash.page_bytes = o->page_bytes;
    flash.unit = o->unit;
    CHECK(zo_flash_store_mount(&other, &flash, pages) == ZO_ERROR_LOG);
    CHECK(!zo_flash_store_write(&other, 0, bytes, 1));
    CHECK(zo_flash_store_read(&other, 0, bytes, 1) < 0);
    CHECK(s.part.operation_count == operations);
    mount(&s);
    compare(&s, 0, 0);
    CHECK(zo_flash_store_clear(&other) == ZO_OK);
    CHECK(zo_flash_store_mount(&other, &flash, pages) == ZO_OK);
    CHECK(zo_flash_store_read(&other, 40, bytes, 1) == 1 && bytes[0] == 0xFF);
    CHECK(zo_flash_store_write(&other, 0, s.expected, 64));
    /* The program before comes back. */
    CHECK(zo_flash_store_mount(&s.store, &s.part.flash, s.pages) == ZO_ERROR_LOG);
    CHECK(zo_flash_store_clear(&s.store) == ZO_OK);
    memset(s.expected, 0xFF, s.bytes);
    mount(&s);
    compare(&s, 0, 0);
    end(&s);
  }
}

/* A store that was never mounted, or whose part could not be read, fails and nothing else. */
static void test_not_mounted(void) {
  zo_flash_store store;
  stored s;
  uint8_t byte = 0;
  memset(&store, 0, sizeof store);
  CHECK(!zo_flash_store_write(&store, 0, &byte, 1));
  CHECK(zo_flash_store_read(&store, 0, &byte, 1) < 0);
  CHECK(zo_flash_store_clear(&store) == ZO_ERROR_STORE);
  begin(&s, &geometries[2], 0);
  for (uint32_t read = 1; read < 40u; ++read) {
    s.part.reads = 0;
    s.part.failing_read = read;
    CHECK(zo_flash_store_mount(&s.store, &s.part.flash, s.pages) == ZO_ERROR_STORE);
    byte = (uint8_t)read;
    CHECK(zo_flash_store_write(&s.store, read, &byte, 1));
    s.expected[read] = byte;
  }
  s.part.failing_read = 0;
  compare(&s, 0, 0);
  end(&s);
}

void test_flash_store(void) {
  const char* cuts = getenv("TFLM_ZO_POWER_CUTS");
  const uint32_t each = cuts == NULL ? 500u : (uint32_t)strtoul(cuts, NULL, 10);
  test_bad_parts();
  test_room();
  test_foreign();
  test_not_mounted();
  for (size_t i = 0; i < GEOMETRIES; ++i) {
    for (uint32_t kind = 0; kind < KINDS; ++kind) test_cuts(&geometries[i], kind, ROUNDS(each));
    test_wear(&geometries[i], ROUNDS(20000u));
    if (geometries[i].sector_bytes / geometries[i].page_bytes >= 8u) test_sleep(&geometries[i]);
  }
}
