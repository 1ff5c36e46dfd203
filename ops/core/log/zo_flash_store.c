/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/log/zo_flash_store.h"

#include <string.h>

#include "ops/core/log/zo_crc32.h"
#include "ops/core/log/zo_store_units.h"
#include "ops/core/zo_little_endian.h"

enum {
  kPageHeaderBytes = 16,
  kPageNumber = 4,
  kPageWrite = 8,
  kPageChecksum = 12,
  kFlashChunk = 32 /* bytes that are copied at once: whole units */
};

#define PAGE_MAGIC UINT32_C(0x4B53465A)
#define NO_PAGE UINT32_MAX
#define ALL_GONE (UINT32_MAX - 1u)

static uint32_t pages_of_sector(const zo_flash* f) { return f->sector_bytes / f->page_bytes; }

static uint32_t page_header_bytes(const zo_flash* f) {
  return f->unit > kPageHeaderBytes ? f->unit : kPageHeaderBytes;
}

static uint32_t page_data_bytes(const zo_flash* f) { return f->page_bytes - page_header_bytes(f); }

static uint32_t data_at(const zo_flash* f, uint32_t page) {
  return page * f->page_bytes + page_header_bytes(f);
}

static bool fits_flash(const zo_flash* f) {
  const bool is_unit = f->unit > 0u && zo_is_store_unit(f->unit);
  return f->program != NULL && f->erase != NULL && f->read != NULL && is_unit && f->sectors >= 4u &&
         f->page_bytes >= 64u && f->page_bytes % kFlashChunk == 0u && f->sector_bytes > 0u &&
         f->sector_bytes % f->page_bytes == 0u &&
         (uint64_t)f->sectors * pages_of_sector(f) < UINT16_MAX &&
         (uint64_t)f->sectors * f->sector_bytes <= UINT32_MAX;
}

/* --- Finding what is there ----------------------------------------------------------------------
 */

/* False where the part cannot be read. A page that has no whole header has the number NO_PAGE. */
static bool read_header(const zo_flash* f, uint32_t page, uint32_t* number, uint32_t* write) {
  uint8_t header[kPageHeaderBytes];
  if (f->read(f->context, page * f->page_bytes, header, sizeof header) <= 0) return false;
  const bool is_whole = zo_read_u32(header) == PAGE_MAGIC &&
                        zo_read_u32(header + kPageChecksum) == zo_crc32(0, header, kPageChecksum);
  *number = is_whole ? zo_read_u32(header + kPageNumber) : NO_PAGE;
  *write = zo_read_u32(header + kPageWrite);
  return true;
}

/* No page of content is where it is known to be, from a page of the part on. */
static void forget(zo_flash_store* self, uint32_t from) {
  for (uint32_t i = 0; i < self->count; ++i) {
    if (self->pages[i] > from) self->pages[i] = 0;
  }
}

/* Where each page of content is, and which was written last; NO_PAGE: none.
 * Numbers of writes grow around the ring. So of two copies of a page the one farther on is the
 * newer, but where the ring's oldest page lies between them. */
static bool find_pages(zo_flash_store* self, uint32_t* last) {
  const zo_flash* f = self->flash;
  uint32_t oldest = 0, begin = 0; /* pages written before the number `begin` are gone */
  forget(self, 0);
  self->writes = 0;
  *last = NO_PAGE;
  for (uint32_t page = 0; page < f->sectors * pages_of_sector(f); ++page) {
    uint32_t number, write;
    if (!read_header(f, page, &number, &write)) return false;
    if (number >= self->count && number != ALL_GONE) continue;
    const bool is_newest = *last == NO_PAGE || write >= self->writes;
    if (is_newest) {
      *last = page;
      self->writes = write + 1u;
    } else if (oldest == 0u) {
      oldest = page;
    }
    if (write < begin) continue;
    if (number == ALL_GONE) {
      begin = write;
      forget(self, is_newest ? 0u : oldest);
    } else if (self->pages[number] == 0u || is_newest || self->pages[number] > oldest) {
      self->pages[number] = (uint16_t)(page + 1u);
    }
  }
  return true;
}

static uint32_t sector_behind(const zo_flash* f, uint32_t sector) {
  return sector + 1u < f->sectors ? sector + 1u : 0u;
}

static bool has_content(const zo_flash_store* self, uint32_t sector) {
  const uint32_t pages = pages_of_sector(self->flash);
  for (uint32_t i = 0; i < self->count; ++i) {
    if (self->pages[i] != 0u && (self->pages[i] - 1u) / pages == sector) return true;
  }
  return false;
}

static bool find_all(zo_flash_store* self) {
  const zo_flash* f = self->flash;
  const uint32_t pages = pages_of_sector(f);
  uint32_t last;
  self->head = self->room = 0;
  if (!find_pages(self, &last)) return false;
  if (last == NO_PAGE) return true;
  /* The sector behind the head's is empty, but while it is copied to the head: then the head has
   * nothing else, and copying begins anew. */
  const uint32_t sector = last / pages;
  if (has_content(self, sector_behind(f, sector)) &&
      (!f->erase(f->context, sector * f->sector_bytes) || !find_pages(self, &last))) {
    return false;
  }
  /* A unit that a power cut has left undecided may look erased, so the rest of the sector is left
   * alone. */
  if (last != NO_PAGE) self->head = (last / pages + 1u) * pages;
  return true;
}

zo_status zo_flash_store_mount(zo_flash_store* self, const zo_flash* flash, uint16_t* pages) {
  if (self == NULL || flash == NULL || pages == NULL || !fits_flash(flash)) {
    return ZO_ERROR_ARGUMENT;
  }
  self->flash = flash;
  self->pages = pages;
  self->count = ZO_FLASH_STORE_PAGES(flash->sectors, flash->sector_bytes, flash->page_bytes);
  self->open = NO_PAGE;
  self->filled = 0;
  if (find_all(self)) return ZO_OK;
  self->flash = NULL;
  return ZO_ERROR_STORE;
}

static uint32_t bytes_of(const zo_flash_store* self) {
  return self->flash == NULL ? 0u : self->count * page_data_bytes(self->flash);
}

/* --- Writing ------------------------------------------------------------------------------------
 */

/* What a page is to have from `begin` to `end` of its content. */
typedef struct page_change {
  const uint8_t* bytes;
  uint32_t begin, end;
} page_change;

/* Lays the change over bytes of a page's content that begin at `at`. */
static void lay_over(const page_change* change, uint32_t at, uint8_t* bytes, uint32_t count) {
  const uint32_t begin = change->begin > at ? change->begin : at;
  const uint32_t end = change->end < at + count ? change->end : at + count;
  if (begin < end)
    memcpy(bytes + (begin - at), change->bytes + (begin - change->begin), end - begin);
}

/* Makes a page of what was programmed behind its header. */
static bool write_header(zo_flash_store* self, uint32_t page, uint32_t number) {
  const zo_flash* f = self->flash;
  uint8_t header[kFlashChunk];
  memset(header, 0xFF, sizeof header);
  zo_write_u32(header, PAGE_MAGIC);
  zo_write_u32(header + kPageNumber, number);
  zo_write_u32(header + kPageWrite, self->writes);
  zo_write_u32(header + kPageChecksum, zo_crc32(0, header, kPageChecksum));
  if (!f->program(f->context, page * f->page_bytes, header, page_header_bytes(f))) return false;
  self->writes += 1u;
  return true;
}

/* Writes a page of content at the head, which has room for it. */
static bool write_page(zo_flash_store* self, uint32_t number, const page_change* change) {
  const zo_flash* f = self->flash;
  const uint32_t from = self->pages[number], to = self->head++, size = page_data_bytes(f);
  self->room -= 1u;
  self->open = number;
  self->filled = 0;
  for (uint32_t at = 0, count; at < size; at += count) {
    uint8_t bytes[kFlashChunk];
    count = size - at < kFlashChunk ? size - at : (uint32_t)kFlashChunk;
    memset(bytes, 0xFF, sizeof bytes);
    if (from != 0u && f->read(f->context, data_at(f, from - 1u) + at, bytes, count) <= 0) {
      return false;
    }
    lay_over(change, at, bytes, count);
    /* Units that stay erased at its end are left for what follows. */
    uint32_t used = count;
    while (used > 0u && zo_is_erased(bytes + (used - f->unit), f->unit)) used -= f->unit;
    if (used == 0u) continue;
    if (!f->program(f->context, data_at(f, to) + at, bytes, used)) return false;
    self->filled = at + used;
  }
  if (!write_header(self, to, number)) return false;
  self->pages[number] = (uint16_t)(to + 1u);
  return true;
}

/* Gives the head another sector, into which goes what is left in the one behind it. */
static bool next_sector(zo_flash_store* self) {
  const zo_flash* f = self->flash;
  const uint32_t pages = pages_of_sector(f);
  /* At the end of a sector, or before the first. */
  const uint32_t sector = self->head / pages % f->sectors, behind = sector_behind(f, sector);
  const page_change none = {NULL, 0, 0};
  if (!f->erase(f->context, sector * f->sector_bytes)) return false;
  self->head = sector * pages;
  self->room = pages;
  for (uint32_t i = 0; i < self->count; ++i) {
    if (self->pages[i] == 0u || (self->pages[i] - 1u) / pages != behind) continue;
    if (!write_page(self, i, &none)) return false;
  }
  return true;
}

/* Bytes of the page of content that was written last. */
static bool go_on(zo_flash_store* self, const page_change* change) {
  const zo_flash* f = self->flash;
  const uint32_t unit = f->unit, end = (change->end + unit - 1u) / unit * unit;
  const uint32_t data = data_at(f, (uint32_t)self->pages[self->open] - 1u);
  for (uint32_t at = change->begin / unit * unit, count; at < end; at += count) {
    uint8_t bytes[kFlashChunk];
    count = end - at < kFlashChunk ? end - at : (uint32_t)kFlashChunk;
    memset(bytes, 0xFF, sizeof bytes);
    lay_over(change, at, bytes, count);
    if (!f->program(f->context, data + at, bytes, count)) return false;
  }
  self->filled = end;
  return true;
}

/* Gives the head a page. The content is smaller than the ring by two sectors, so there is room in a
 * round at the latest. */
static bool make_room(zo_flash_store* self) {
  while (self->room == 0u) {
    if (!next_sector(self)) return false;
  }
  return true;
}

static bool write_change(zo_flash_store* self, uint32_t number, const page_change* change) {
  const zo_flash* f = self->flash;
  if (number == self->open && change->begin / f->unit * f->unit >= self->filled) {
    return go_on(self, change);
  }
  return make_room(self) && write_page(self, number, change);
}

bool zo_flash_store_write(void* store, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  zo_flash_store* self = (zo_flash_store*)store;
  const uint32_t room = bytes_of(self);
  if (offset > room || count > room - offset) return false;
  while (count > 0u) {
    const uint32_t size = page_data_bytes(self->flash), begin = offset % size;
    const uint32_t part = size - begin < count ? size - begin : count;
    const page_change change = {bytes, begin, begin + part};
    if (!write_change(self, offset / size, &change)) {
      self->flash = NULL;
      return false;
    }
    offset += part;
    bytes += part;
    count -= part;
  }
  return true;
}

zo_status zo_flash_store_clear(zo_flash_store* self) {
  if (self->flash == NULL) return ZO_ERROR_STORE;
  forget(self, 0);
  self->open = NO_PAGE;
  if (make_room(self) && write_header(self, self->head, ALL_GONE)) {
    self->head += 1u;
    self->room -= 1u;
    return ZO_OK;
  }
  self->flash = NULL;
  return ZO_ERROR_STORE;
}

int32_t zo_flash_store_read(void* store, uint32_t offset, uint8_t* bytes, uint32_t count) {
  const zo_flash_store* self = (const zo_flash_store*)store;
  const uint32_t room = bytes_of(self);
  if (self->flash == NULL) return -(int32_t)ZO_ERROR_STORE;
  if (offset > room) return 0;
  const int32_t found = (int32_t)(count < room - offset ? count : room - offset);
  for (count = (uint32_t)found; count > 0u;) {
    const zo_flash* f = self->flash;
    const uint32_t size = page_data_bytes(f), begin = offset % size;
    const uint32_t part = size - begin < count ? size - begin : count;
    const uint32_t page = self->pages[offset / size];
    if (page == 0u) {
      memset(bytes, 0xFF, part);
    } else if (f->read(f->context, data_at(f, page - 1u) + begin, bytes, part) <= 0) {
      return -(int32_t)ZO_ERROR_STORE;
    }
    offset += part;
    bytes += part;
    count -= part;
  }
  return found;
}
