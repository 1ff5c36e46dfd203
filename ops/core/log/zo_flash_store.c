/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A page is a header of 16 bytes, filled up to a whole unit, then its part of the content:
 *
 *   0    u32 CRC-32 of version 2 of this format, sectors, bytes of a sector, of a page and of a
 *        unit, u32 each
 *   4    u16 number of the page in the content
 *   6    u16 bits 0 and 1: 0: content, 1: a copy of content, 2: marks, 3: no content; from bit 2
 *        on: generation
 *   8    u32 number of the write; of two copies of a page the one with the larger number counts
 *   12   u32 CRC-32 of the header before it
 *
 * It is programmed behind the content: a page without a complete header is none. Copies count once
 * their sector has a page of another kind, which the last of them is: until then, the sector may be
 * erased again. A store that is cleared begins a generation; pages of older ones count for nothing.
 *
 * Marks are units of zeros, one before a write, one behind it. An even number of them says that
 * nothing was begun which was not done, so the next mount goes on behind it. Otherwise the first
 * write after a mount begins a sector: a unit that a power cut has left undecided may look erased.
 */
#include "ops/core/log/zo_flash_store.h"

#include <string.h>

#include "ops/core/log/zo_crc32.h"
#include "ops/core/log/zo_store_units.h"
#include "ops/core/zo_little_endian.h"

enum {
  kPageHeaderBytes = 16,
  kPageWhat = 4,
  kPageWrite = 8,
  kPageChecksum = 12,
  kFlashChunk = 32,       /* bytes that are copied at once: whole units */
  kFlashStoreVersion = 2, /* of pages */
  kPagesWithMarks = 4,    /* least pages of a sector that has a page for marks */
  kGenerations = 1 << 14
};

#define NO_PAGE UINT32_MAX

/* The content of a page. */
typedef enum page_kind {
  PAGE_WRITTEN = 0, /* content */
  PAGE_COPIED = 1,  /* content that is elsewhere, too, until its sector has a page of another kind */
  PAGE_MARKS = 2,
  PAGE_CLEARED = 3 /* nothing; its generation begins */
} page_kind;

static uint32_t pages_of_sector(const zo_flash* f) { return f->sector_bytes / f->page_bytes; }

static uint32_t pages_of_part(const zo_flash* f) { return f->sectors * pages_of_sector(f); }

static uint32_t page_header_bytes(const zo_flash* f) { return f->unit > kPageHeaderBytes ? f->unit : kPageHeaderBytes; }

static uint32_t page_data_bytes(const zo_flash* f) { return f->page_bytes - page_header_bytes(f); }

static uint32_t data_at(const zo_flash* f, uint32_t page) { return page * f->page_bytes + page_header_bytes(f); }

static bool fits_flash(const zo_flash* f) {
  const bool is_unit = f->unit > 0u && zo_is_store_unit(f->unit);
  return f->program != NULL && f->erase != NULL && f->read != NULL && is_unit && f->sectors >= 4u &&
         f->page_bytes >= 64u && f->page_bytes % kFlashChunk == 0u && f->sector_bytes > 0u &&
         f->sector_bytes % f->page_bytes == 0u && (uint64_t)f->sectors * pages_of_sector(f) < UINT16_MAX &&
         (uint64_t)f->sectors * f->sector_bytes <= UINT32_MAX;
}

static uint32_t flash_geometry(const zo_flash* f) {
  uint8_t words[20];
  zo_write_u32(words, kFlashStoreVersion);
  zo_write_u32(words + 4, f->sectors);
  zo_write_u32(words + 8, f->sector_bytes);
  zo_write_u32(words + 12, f->page_bytes);
  zo_write_u32(words + 16, f->unit);
  return zo_crc32(0, words, sizeof words);
}

/* --- Reading the state --------------------------------------------------------------------------
 */

typedef struct page_header {
  uint32_t geometry, number, generation, write;
  page_kind kind;
  bool is_whole; /* a page without a complete header, or one that cannot be read, is none */
} page_header;

/* False if the part fails. */
static bool read_header(const zo_flash* f, uint32_t page, page_header* header) {
  uint8_t bytes[kPageHeaderBytes];
  const int32_t found = f->read(f->context, page * f->page_bytes, bytes, sizeof bytes);
  header->is_whole = false;
  if (found <= 0) return found == 0;
  const uint32_t what = zo_read_u32(bytes + kPageWhat);
  header->geometry = zo_read_u32(bytes);
  header->number = what & 0xFFFFu;
  header->kind = (page_kind)(what >> 16 & 3u);
  header->generation = what >> 18;
  header->write = zo_read_u32(bytes + kPageWrite);
  header->is_whole = zo_read_u32(bytes + kPageChecksum) == zo_crc32(0, bytes, kPageChecksum);
  return true;
}

static bool is_own(const zo_flash_store* self, const page_header* header) {
  return header->is_whole && header->geometry == self->geometry;
}

/* Bytes of the part, `torn` in the place of those of units that cannot be read. False if the
 * part fails. */
static bool read_data(const zo_flash* f, uint32_t address, uint8_t* bytes, uint32_t count, uint8_t torn) {
  const int32_t found = f->read(f->context, address, bytes, count);
  if (found != 0) return found > 0;
  for (uint32_t part; count > 0u; address += part, bytes += part, count -= part) {
    part = f->unit - address % f->unit;
    if (part > count) part = count;
    const int32_t read = f->read(f->context, address, bytes, part);
    if (read < 0) return false;
    if (read == 0) memset(bytes, torn, part);
  }
  return true;
}

/* Bytes of a page's content, or marks, up to the last unit that something was programmed into.
 * False if the part fails. */
static bool find_end(const zo_flash* f, uint32_t page, uint32_t* end) {
  *end = page_data_bytes(f);
  while (*end > 0u) {
    uint8_t bytes[kFlashChunk];
    const uint32_t count = *end < kFlashChunk ? *end : (uint32_t)kFlashChunk;
    if (!read_data(f, data_at(f, page) + *end - count, bytes, count, 0)) return false;
    for (uint32_t at = count; at > 0u; at -= f->unit, *end -= f->unit) {
      if (!zo_is_erased(bytes + (at - f->unit), f->unit)) return true;
    }
  }
  return true;
}

/* The page that was written last; false if the part fails. */
static bool find_last(zo_flash_store* self, uint32_t* last, page_header* newest) {
  *last = NO_PAGE;
  self->writes = 0;
  for (uint32_t page = 0; page < pages_of_part(self->flash); ++page) {
    page_header found;
    if (!read_header(self->flash, page, &found)) return false;
    if (!found.is_whole || found.write < self->writes) continue;
    self->writes = found.write + 1u;
    *newest = found;
    *last = page;
  }
  return true;
}

/* Whether the copies in a sector count: false, too, if the part fails. */
static bool is_complete(const zo_flash_store* self, uint32_t first, bool* is_read) {
  for (uint32_t i = 0; i < pages_of_sector(self->flash); ++i) {
    page_header found;
    if (!read_header(self->flash, first + i, &found)) return *is_read = false;
    if (is_own(self, &found) && found.kind != PAGE_COPIED) return true;
  }
  return false;
}

/* Where each page of content is; false where the part fails. */
static bool find_pages(zo_flash_store* self) {
  const zo_flash* f = self->flash;
  bool is_read = true, counts = false;
  for (uint32_t i = 0; i < self->count; ++i) self->pages[i] = 0;
  for (uint32_t page = 0; page < pages_of_part(f); ++page) {
    page_header found, other;
    if (page % pages_of_sector(f) == 0u) counts = is_complete(self, page, &is_read);
    if (!is_read || !read_header(f, page, &found)) return false;
    if (!counts || !is_own(self, &found) || found.generation != self->generation || found.kind > PAGE_COPIED ||
        found.number >= self->count) {
      continue;
    }
    uint16_t* known = &self->pages[found.number];
    if (*known != 0u && !read_header(f, *known - 1u, &other)) return false;
    if (*known == 0u || other.write < found.write) *known = (uint16_t)(page + 1u);
  }
  return true;
}

static uint32_t sector_of(const zo_flash_store* self, uint32_t page) { return page / pages_of_sector(self->flash); }

/* The head is at the end of a sector. */
static void end_sector(zo_flash_store* self, uint32_t sector) {
  self->sector = sector;
  self->head = (sector + 1u) * pages_of_sector(self->flash);
  self->open = self->marks_page = NO_PAGE;
  self->is_closed = false;
}

/* Lets writes go on in the sector of the last one if marks say so. False if the part fails. */
static bool find_marks(zo_flash_store* self, uint32_t last) {
  const zo_flash* f = self->flash;
  uint32_t open = NO_PAGE, end;
  for (uint32_t page = self->sector * pages_of_sector(f); page <= last; ++page) {
    page_header found;
    if (!read_header(f, page, &found)) return false;
    if (!is_own(self, &found)) continue;
    if (found.kind == PAGE_MARKS) self->marks_page = page;
    if (found.number < self->count && self->pages[found.number] == page + 1u) open = found.number;
  }
  if (self->marks_page == NO_PAGE) return true;
  if (!find_end(f, self->marks_page, &end)) return false;
  self->marks = end / f->unit;
  self->is_closed = self->marks % 2u == 0u && end < page_data_bytes(f);
  if (!self->is_closed) return true;
  self->head = last + 1u;
  self->open = open;
  return open == NO_PAGE || find_end(f, (uint32_t)self->pages[open] - 1u, &self->filled);
}

static zo_status find_all(zo_flash_store* self) {
  uint32_t last;
  page_header newest;
  self->is_mounted = false;
  self->marks_bytes = self->generation = 0;
  if (!find_last(self, &last, &newest)) return ZO_ERROR_STORE;
  end_sector(self, last == NO_PAGE ? self->flash->sectors - 1u : sector_of(self, last));
  if (last != NO_PAGE) {
    self->generation = newest.generation;
    if (!is_own(self, &newest)) return ZO_ERROR_LOG;
  }
  if (!find_pages(self) || (last != NO_PAGE && !find_marks(self, last))) return ZO_ERROR_STORE;
  self->is_mounted = true;
  return ZO_OK;
}

zo_status zo_flash_store_mount(zo_flash_store* self, const zo_flash* flash, uint16_t* pages) {
  if (self == NULL || flash == NULL || pages == NULL || !fits_flash(flash)) {
    return ZO_ERROR_ARGUMENT;
  }
  self->flash = flash;
  self->pages = pages;
  self->geometry = flash_geometry(flash);
  self->count = ZO_FLASH_STORE_PAGES(flash->sectors, flash->sector_bytes, flash->page_bytes);
  self->sector = NO_PAGE;
  return find_all(self);
}

/* After a failure the state is read again, and writes continue behind the failed sector. */
static zo_status find_again(zo_flash_store* self) {
  if (self->flash == NULL) return ZO_ERROR_STORE;
  if (self->is_mounted) return ZO_OK;
  const uint32_t sector = self->sector;
  const zo_status status = find_all(self);
  if (sector != NO_PAGE) end_sector(self, sector);
  return status;
}

/* --- Writing ------------------------------------------------------------------------------------
 */

/* The new content of a page from `begin` to `end`. */
typedef struct page_change {
  const uint8_t* bytes;
  uint32_t begin, end;
} page_change;

/* Lays the change over bytes of a page's content that begin at `at`. */
static void lay_over(const page_change* change, uint32_t at, uint8_t* bytes, uint32_t count) {
  const uint32_t begin = change->begin > at ? change->begin : at;
  const uint32_t end = change->end < at + count ? change->end : at + count;
  if (begin < end) memcpy(bytes + (begin - at), change->bytes + (begin - change->begin), end - begin);
}

/* Programs bytes at an offset of the open page's content, but for the units at their end that stay
 * erased, which are left for later writes. */
static bool program_data(zo_flash_store* self, uint32_t page, uint32_t at, const uint8_t* bytes, uint32_t count) {
  const zo_flash* f = self->flash;
  while (count > 0u && zo_is_erased(bytes + (count - f->unit), f->unit)) count -= f->unit;
  if (count == 0u) return true;
  self->filled = at + count;
  return f->program(f->context, data_at(f, page) + at, bytes, count);
}

/* Makes the page at the head valid, with the content programmed behind its header. */
static bool write_header(zo_flash_store* self, page_kind kind, uint32_t number) {
  const zo_flash* f = self->flash;
  const uint32_t page = self->head++;
  uint8_t header[kFlashChunk];
  memset(header, 0xFF, sizeof header);
  zo_write_u32(header, self->geometry);
  zo_write_u32(header + kPageWhat, number | (uint32_t)kind << 16 | self->generation << 18);
  zo_write_u32(header + kPageWrite, self->writes++);
  zo_write_u32(header + kPageChecksum, zo_crc32(0, header, kPageChecksum));
  return f->program(f->context, page * f->page_bytes, header, page_header_bytes(f));
}

/* Writes a page of content at the head, which has room for it. */
static bool write_page(zo_flash_store* self, page_kind kind, uint32_t number, const page_change* change) {
  const zo_flash* f = self->flash;
  const uint32_t from = self->pages[number], to = self->head, size = page_data_bytes(f);
  self->open = number;
  self->filled = 0;
  for (uint32_t at = 0, count; at < size; at += count) {
    uint8_t bytes[kFlashChunk];
    count = size - at < kFlashChunk ? size - at : (uint32_t)kFlashChunk;
    memset(bytes, 0xFF, sizeof bytes);
    if (from != 0u && !read_data(f, data_at(f, from - 1u) + at, bytes, count, 0xFF)) return false;
    lay_over(change, at, bytes, count);
    if (!program_data(self, to, at, bytes, count)) return false;
  }
  if (!write_header(self, kind, number)) return false;
  self->pages[number] = (uint16_t)(to + 1u);
  return true;
}

static uint32_t room_of(const zo_flash_store* self) {
  return (self->sector + 1u) * pages_of_sector(self->flash) - self->head;
}

/* Pages of content in a sector. */
static uint32_t content_of(const zo_flash_store* self, uint32_t sector) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < self->count; ++i) {
    if (self->pages[i] != 0u && sector_of(self, self->pages[i] - 1u) == sector) ++found;
  }
  return found;
}

/* Gives the head the next sector that has no content and can be erased; the last one, too, if
 * copying to it was broken off. */
static bool take_sector(zo_flash_store* self) {
  const zo_flash* f = self->flash;
  for (uint32_t i = 1; i <= f->sectors; ++i) {
    const uint32_t sector = (self->sector + i) % f->sectors, first = sector * pages_of_sector(f);
    bool is_read = true;
    if (content_of(self, sector) > 0u) continue;
    if (i == f->sectors && (is_complete(self, first, &is_read) || !is_read)) return false;
    if (!f->erase(f->context, sector * f->sector_bytes)) continue;
    end_sector(self, sector);
    self->head = first;
    return true;
  }
  return false;
}

/* Copies the content of a sector to the head. The copies count once the last one is there. */
static bool empty_sector(zo_flash_store* self, uint32_t sector) {
  const page_change none = {NULL, 0, 0};
  uint32_t left = content_of(self, sector);
  for (uint32_t i = 0; i < self->count; ++i) {
    if (self->pages[i] == 0u || sector_of(self, self->pages[i] - 1u) != sector) continue;
    if (!write_page(self, --left > 0u ? PAGE_COPIED : PAGE_WRITTEN, i, &none)) return false;
  }
  return true;
}

/* Gives the head another sector. The sectors behind it have no content: one, and as many as may
 * fail to be erased; if they are fewer, the content of the next one goes into the head's. */
static bool next_sector(zo_flash_store* self) {
  const uint32_t sectors = self->flash->sectors;
  if (!take_sector(self)) return false;
  for (uint32_t i = 1; i <= 1u + ZO_FLASH_STORE_SPARE(sectors); ++i) {
    const uint32_t sector = (self->sector + i) % sectors;
    if (content_of(self, sector) > 0u) return empty_sector(self, sector);
  }
  return true;
}

/* Gives the head a page. The content is smaller than the ring by two sectors and the spare ones, so
 * there is room in a round at the latest. */
static bool make_room(zo_flash_store* self) {
  for (uint32_t i = 0; room_of(self) == 0u; ++i) {
    if (i > self->flash->sectors || !next_sector(self)) return false;
  }
  return true;
}

/* Bytes of the page of content that was written last. */
static bool go_on(zo_flash_store* self, const page_change* change) {
  const uint32_t unit = self->flash->unit, end = (change->end + unit - 1u) / unit * unit;
  const uint32_t page = (uint32_t)self->pages[self->open] - 1u;
  for (uint32_t at = change->begin / unit * unit, count; at < end; at += count) {
    uint8_t bytes[kFlashChunk];
    count = end - at < kFlashChunk ? end - at : (uint32_t)kFlashChunk;
    memset(bytes, 0xFF, sizeof bytes);
    lay_over(change, at, bytes, count);
    if (!program_data(self, page, at, bytes, count)) return false;
  }
  return true;
}

static bool write_change(zo_flash_store* self, uint32_t number, const page_change* change) {
  const uint32_t unit = self->flash->unit;
  if (number == self->open && change->begin / unit * unit >= self->filled) {
    return go_on(self, change);
  }
  return make_room(self) && write_page(self, PAGE_WRITTEN, number, change);
}

/* The next mark: all zeros, which a unit may be programmed to although it is not erased: a power
 * cut may have left the mark looking as if it were. */
static bool program_mark(zo_flash_store* self) {
  const zo_flash* f = self->flash;
  uint8_t zeros[ZO_STORE_UNIT_MOST];
  memset(zeros, 0, sizeof zeros);
  const uint32_t address = data_at(f, self->marks_page) + self->marks++ * f->unit;
  self->marks_bytes += f->unit;
  return f->program(f->context, address, zeros, f->unit);
}

/* Called before anything is programmed: the last write may be unfinished from here on. */
static bool begin_write(zo_flash_store* self) {
  if (!self->is_closed) return true;
  self->is_closed = false;
  return program_mark(self);
}

/* Finishes a write. Marks help programs that mount often. Once a sector's worth of them was
 * programmed since the mount, no more are written: they would cost more than they save. */
static bool end_write(zo_flash_store* self) {
  const zo_flash* f = self->flash;
  if (self->marks_bytes >= f->sector_bytes || pages_of_sector(f) < kPagesWithMarks) return true;
  /* This mark, and that of the write to come. */
  if (self->marks_page != NO_PAGE && (self->marks + 2u) * f->unit <= page_data_bytes(f)) {
    if (!program_mark(self)) return false;
  } else {
    if (room_of(self) == 0u) return true;
    self->marks_page = self->head;
    self->marks = 0;
    self->marks_bytes += f->page_bytes;
    if (!write_header(self, PAGE_MARKS, 0xFFFFu)) return false;
  }
  self->is_closed = true;
  return true;
}

static bool clear_all(zo_flash_store* self) {
  if (room_of(self) == 0u && !take_sector(self)) return false;
  self->generation = (self->generation + 1u) % kGenerations;
  if (!write_header(self, PAGE_CLEARED, 0xFFFFu)) return false;
  for (uint32_t i = 0; i < self->count; ++i) self->pages[i] = 0;
  self->open = NO_PAGE;
  return true;
}

/* Writes, or clears if there are no bytes. A failed write is repeated: a sector that cannot be
 * programmed is left for the next one. */
static bool change_content(zo_flash_store* self, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  const uint32_t size = page_data_bytes(self->flash);
  uint32_t failures = 0;
  do {
    const uint32_t begin = offset % size, part = size - begin < count ? size - begin : count;
    const page_change change = {bytes, begin, begin + part};
    const zo_status status = find_again(self);
    if (status != ZO_OK && (status != ZO_ERROR_LOG || bytes != NULL)) return false;
    self->is_mounted =
        begin_write(self) && (bytes == NULL ? clear_all(self) : write_change(self, offset / size, &change));
    if (!self->is_mounted) {
      if (failures++ > self->flash->sectors) return false;
      continue;
    }
    failures = 0;
    offset += part;
    if (bytes != NULL) bytes += part;
    count -= part;
  } while (!self->is_mounted || count > 0u);
  self->is_mounted = end_write(self);
  return true;
}

static uint32_t bytes_of(const zo_flash_store* self) {
  return self->flash == NULL ? 0u : self->count * page_data_bytes(self->flash);
}

bool zo_flash_store_write(void* store, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  zo_flash_store* self = (zo_flash_store*)store;
  const uint32_t room = bytes_of(self);
  if (offset > room || count > room - offset) return false;
  return count == 0u || change_content(self, offset, bytes, count);
}

zo_status zo_flash_store_clear(zo_flash_store* self) {
  if (self == NULL) return ZO_ERROR_ARGUMENT;
  const bool is_done = self->flash != NULL && change_content(self, 0, NULL, 0);
  return is_done ? ZO_OK : ZO_ERROR_STORE;
}

int32_t zo_flash_store_read(void* store, uint32_t offset, uint8_t* bytes, uint32_t count) {
  zo_flash_store* self = (zo_flash_store*)store;
  const zo_flash* f = self->flash;
  const uint32_t room = bytes_of(self);
  if (find_again(self) != ZO_OK) return -(int32_t)ZO_ERROR_STORE;
  if (offset > room) return 0;
  const int32_t all = (int32_t)(count < room - offset ? count : room - offset);
  for (count = (uint32_t)all; count > 0u;) {
    const uint32_t size = page_data_bytes(f), begin = offset % size;
    const uint32_t part = size - begin < count ? size - begin : count;
    const uint32_t page = self->pages[offset / size];
    if (page == 0u) {
      memset(bytes, 0xFF, part);
    } else if (!read_data(f, data_at(f, page - 1u) + begin, bytes, part, 0xFF)) {
      return -(int32_t)ZO_ERROR_STORE;
    }
    offset += part;
    bytes += part;
    count -= part;
  }
  return all;
}
