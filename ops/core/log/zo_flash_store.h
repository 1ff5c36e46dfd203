/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A log store (zo_log_store) on raw NOR flash, the chip's own or a serial one: memory that is
 * erased in sectors, and of which each unit of a few bytes is programmed once between two erases.
 *
 * A store behaves like a file: bytes are written and overwritten at any offset, and are 0xFF
 * before. Its content lies in pages. A page that changes is written anew at the head of a ring of
 * all sectors, so that each sector is erased as often as every other one; valid pages of the sector
 * to be erased next are copied to the head first. A write that continues the last one is programmed
 * in place.
 *
 * Power may fail at any moment, also while a unit is programmed or a sector erased. The next
 * zo_flash_store_mount finds all bytes for which writes have returned true. Of the write in
 * progress it finds a part, or nothing: logs expect that, since their records have checksums.
 *
 * A sector that cannot be erased is skipped. One that cannot be programmed is left for the next
 * one, and its content is still read: one of eight may fail.
 */
#ifndef TFLM_ZO_OPS_CORE_LOG_ZO_FLASH_STORE_H_
#define TFLM_ZO_OPS_CORE_LOG_ZO_FLASH_STORE_H_

#include <stdbool.h>

#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The part, and functions that access it. Addresses count from the first sector of the store.
 *
 *   program  `count` bytes, whole units of which none has been programmed since it was erased, but
 *            for a unit of zeros, which may be programmed at any time. True once they are
 *            permanent
 *   erase    the sector that begins at the address
 *   read     any number of bytes. More than 0: all of them are read. 0: they have a unit that was
 *            never wholly programmed or erased, according to its ECC; nothing else is 0, and on
 *            parts without ECC such a unit may read as anything. Negative: the part fails, and the
 *            content is unknown
 *
 * `program` and `erase` return false if they fail. */
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

/* Sectors of a part that may fail. */
#define ZO_FLASH_STORE_SPARE(sectors) ((sectors) / 8u)

/* Pages of content that a part has room for, which is two bytes of RAM each. */
#define ZO_FLASH_STORE_PAGES(sectors, sector_bytes, page_bytes) \
  (((sectors) - 2u - ZO_FLASH_STORE_SPARE(sectors)) * ((sector_bytes) / (page_bytes)))

/* Bytes that such a store has, for zo_log_store. */
#define ZO_FLASH_STORE_BYTES(sectors, sector_bytes, page_bytes, unit) \
  (ZO_FLASH_STORE_PAGES(sectors, sector_bytes, page_bytes) * ((page_bytes) - ((unit) > 16u ? (unit) : 16u)))

typedef struct zo_flash_store {
  const zo_flash* flash;
  uint16_t* pages;      /* place of each page of content, counted from 1; 0: none */
  uint32_t count;       /* of pages */
  uint32_t geometry;    /* as headers have it */
  uint32_t generation;  /* of pages that count */
  uint32_t writes;      /* number of the next one */
  uint32_t sector;      /* that is written last */
  uint32_t head;        /* its page that is written next; the end of it: another sector is needed */
  uint32_t open;        /* the page of content that was written last */
  uint32_t filled;      /* bytes of it that may be programmed; the rest is erased */
  uint32_t marks_page;  /* the sector's page for marks */
  uint32_t marks;       /* in it */
  uint32_t marks_bytes; /* that marks have cost since the store is mounted */
  bool is_closed;       /* by the last mark, every write that was begun is done */
  bool is_mounted;      /* false: the state must be read before it is used */
} zo_flash_store;

/* Reads the state of a store. A part that was never used, or used otherwise, has an empty store.
 *   flash  the caller keeps it
 *   pages  [ZO_FLASH_STORE_PAGES(…)]
 * Errors: ZO_ERROR_ARGUMENT: invalid sizes of the part. ZO_ERROR_LOG: the part has a store of other
 * sectors, pages or units, or of another version of its format: nothing is read or written until it
 * is cleared. ZO_ERROR_STORE: the part cannot be read; the next call mounts again. */
zo_status zo_flash_store_mount(zo_flash_store* store, const zo_flash* flash, uint16_t* pages);

/* Forgets the content, for a log that begins anew: bytes are 0xFF again, and pages that nothing was
 * written to yet wear the part least. If power fails, all of it is gone, or nothing.
 * Errors: ZO_ERROR_STORE: the part fails. */
zo_status zo_flash_store_clear(zo_flash_store* store);

/* The two functions of a zo_log_store of ZO_FLASH_STORE_BYTES, whose context is a zo_flash_store
 * that was mounted. A write returns false if it exceeds the store or the part fails, and may then
 * be incomplete. A read is negative if the part fails. After a failure, the next call reads the
 * state like a mount, and continues: no explicit mount is needed. */
bool zo_flash_store_write(void* store, uint32_t offset, const uint8_t* bytes, uint32_t count);
int32_t zo_flash_store_read(void* store, uint32_t offset, uint8_t* bytes, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_LOG_ZO_FLASH_STORE_H_ */
