/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A log store (zo_log_store) on raw NOR flash, the chip's own or a serial one: memory that is
 * erased in sectors, and of which each unit of a few bytes is programmed once between two erases.
 *
 * A store is a file as it were: bytes are written and overwritten at any offset, and are 0xFF
 * before. Its content lies in pages. A page that changes is written anew at the head of a ring of
 * all sectors, so that each sector is erased as often as every other one; what is still needed of
 * the sector that is to be erased next is copied to the head first. A write that goes on behind
 * what was written last is programmed in place.
 *
 * Power may fail at any moment, while a unit is programmed or a sector erased, too. What writes
 * have returned true for is there after the next zo_flash_store_mount. Of the write in progress a
 * part is there, or none of it; that is what logs expect, whose records have checksums.
 *
 * A page is a header of 16 bytes, filled up to a whole unit, then its part of the content:
 *
 *   0    u32 0x4B53465A ("ZFSK")
 *   4    u32 number of the page in the content; 0xFFFFFFFE: no page, all that was written before is
 *        gone
 *   8    u32 number of the write; of two copies of a page the one with the larger number counts
 *   12   u32 CRC-32 of the header before it
 *
 * It is programmed behind the content that is copied: a page without a whole header is none.
 */
#ifndef TFLM_ZO_OPS_CORE_LOG_ZO_FLASH_STORE_H_
#define TFLM_ZO_OPS_CORE_LOG_ZO_FLASH_STORE_H_

#include <stdbool.h>

#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The part, and how it is reached. Addresses count from the first sector of the store.
 *
 *   program  `count` bytes, whole units of which none has been programmed since it was erased; true
 *            once they are there for good
 *   erase    the sector that begins at the address
 *   read     any number of bytes. More than 0: all of them are read; 0 or less: they are not
 *
 * `program` and `erase` return false where they fail. Where a power cut has left a unit undecided,
 * `read` may give anything for it, but must not fail. */
typedef struct zo_flash {
  bool (*program)(void* context, uint32_t address, const uint8_t* bytes, uint32_t count);
  bool (*erase)(void* context, uint32_t address);
  int32_t (*read)(void* context, uint32_t address, uint8_t* bytes, uint32_t count);
  void* context;
  uint32_t sectors;      /* 4 at least */
  uint32_t sector_bytes; /* a multiple of page_bytes */
  uint32_t page_bytes;   /* a multiple of 32, 64 at least; 256 suits most: see
                            ZO_FLASH_STORE_PAGES */
  uint32_t unit;         /* bytes that are programmed at once: 1, 2, 4, 8, 16 or 32 */
} zo_flash;

/* Pages of content that a part has room for, which is two bytes of RAM each. */
#define ZO_FLASH_STORE_PAGES(sectors, sector_bytes, page_bytes) \
  (((sectors) - 2u) * ((sector_bytes) / (page_bytes)))

/* Bytes that such a store has, for zo_log_store. */
#define ZO_FLASH_STORE_BYTES(sectors, sector_bytes, page_bytes, unit) \
  (ZO_FLASH_STORE_PAGES(sectors, sector_bytes, page_bytes) *          \
   ((page_bytes) - ((unit) > 16u ? (unit) : 16u)))

typedef struct zo_flash_store {
  const zo_flash* flash; /* null: not mounted, or a write has failed */
  uint16_t* pages;       /* of each page of content, where it is, counted from 1; 0: nowhere */
  uint32_t count;        /* of pages */
  uint32_t writes;       /* number of the next one */
  uint32_t head;         /* the page that is written next */
  uint32_t room;         /* pages from there to the end of its sector */
  uint32_t open;         /* the page of content that was written last, since the store is mounted */
  uint32_t filled;       /* bytes of it from where on none is programmed */
} zo_flash_store;

/* Finds what is there. A part that was never used, or for something else, has an empty store.
 *   flash  the caller keeps it
 *   pages  [ZO_FLASH_STORE_PAGES(…)]
 * Errors: ZO_ERROR_ARGUMENT: a part as it cannot be; ZO_ERROR_STORE: it cannot be read, or erased
 * where a power cut asks for that. */
zo_status zo_flash_store_mount(zo_flash_store* store, const zo_flash* flash, uint16_t* pages);

/* Forgets the content, for a log that begins anew: bytes are 0xFF again, and pages that nothing was
 * written to yet wear the part least. Where power fails, all of it is gone, or nothing.
 * Errors: ZO_ERROR_STORE: the part fails; the store has to be mounted again. */
zo_status zo_flash_store_clear(zo_flash_store* store);

/* The two functions of a zo_log_store of ZO_FLASH_STORE_BYTES, whose context is a zo_flash_store. A
 * write that returns false, of more than there is room for or where the part fails, may have done a
 * part; where the part has failed, the store has to be mounted again. A read is negative where the
 * part fails or the store is not mounted. */
bool zo_flash_store_write(void* store, uint32_t offset, const uint8_t* bytes, uint32_t count);
int32_t zo_flash_store_read(void* store, uint32_t offset, uint8_t* bytes, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_LOG_ZO_FLASH_STORE_H_ */
