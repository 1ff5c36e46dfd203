/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a device whose power fails: NOR flash, which is erased in sectors and whose units are
 * programmed once in between, or memory whose units are written over, an EEPROM say, perhaps behind
 * a cache that a sync writes back. It counts operations that no program may do.
 *
 * When power fails, a part of the programmed bytes arrives, and of the unit at its end some bits;
 * of an erased sector some units, some bits of others. On a part with ECC, a unit that was not
 * wholly programmed or erased reads as an error, as before, or as intended. Sectors that fail are
 * no longer erased, or no longer programmed. Of overwritten units, or units in a cache, each is
 * there, is not, or is lost, in any order.
 *
 * Operations can be recorded, and power be cut at each of them afterwards.
 */
#ifndef TFLM_ZO_TESTS_OPS_CORE_FLASH_PART_H_
#define TFLM_ZO_TESTS_OPS_CORE_FLASH_PART_H_

#include "ops/core/log/zo_flash_store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The content of the memory. */
typedef struct flash_image {
  uint8_t* bytes;
  uint8_t* safe;       /* bytes without waiting ones in a cache */
  uint8_t* programmed; /* of each unit: since it was erased, or synced; FLASH_TORN: an ECC error */
} flash_image;

enum { FLASH_TORN = 2 };

/* How a sector fails. */
typedef enum flash_failure { FLASH_GOOD, FLASH_NO_ERASE, FLASH_NO_PROGRAM } flash_failure;

typedef enum flash_operation_kind { FLASH_PROGRAM, FLASH_ERASE, FLASH_WRITE, FLASH_SYNC } flash_kind;

typedef struct flash_operation {
  flash_kind kind;
  uint32_t address, count;
  uint8_t* bytes;
} flash_operation;

typedef struct flash_part {
  zo_flash flash;
  flash_image image;
  int has_cache;     /* overwritten bytes are safe once they are synced */
  int has_ecc;       /* a unit that is neither programmed nor erased cannot be read */
  uint32_t* erases;  /* of each sector */
  uint8_t* failures; /* of each sector, flash_failure */
  uint32_t cut_in;   /* power fails at the operation of this number from now on; 0: it does not */
  int is_off;
  uint32_t fails_in, fails_for; /* see flash_part_fail */
  uint32_t faults;              /* forbidden operations: units programmed twice, addresses outside */
  uint32_t reads;
  uint32_t failing_read; /* number of the read that fails, from 1; 0: none */
  uint64_t program_bytes;

  int is_recording;
  flash_operation* operations;
  uint32_t operation_count;
  flash_image before; /* the operation of the number next */
  uint32_t next;
} flash_part;

uint32_t flash_draw(void);

/* dirty: full of somebody else's bytes. */
void flash_part_init(flash_part* part, uint32_t sectors, uint32_t sector_bytes, uint32_t page_bytes, uint32_t unit,
                     int dirty);
void flash_part_free(flash_part* part);
/* As another part of the same geometry is. */
void flash_part_take(flash_part* part, const flash_part* other);

/* Memory that is written over, of whole units. */
bool flash_part_write(flash_part* part, uint32_t address, const uint8_t* bytes, uint32_t count);
bool flash_part_sync(flash_part* part);

void flash_part_cut_in(flash_part* part, uint32_t operations);
void flash_part_power_on(flash_part* part);
/* After some operations, a number of them fail, and none behind them. */
void flash_part_fail(flash_part* part, uint32_t after, uint32_t operations);

/* From now on operations are recorded; those recorded before are forgotten. */
void flash_part_record(flash_part* part);
/* As if power had failed at a recorded operation, counted from 0; one after the other. */
void flash_part_cut_at(flash_part* part, uint32_t operation);

uint32_t flash_part_erases(const flash_part* part);
uint32_t flash_part_most_erases(const flash_part* part);
uint32_t flash_part_least_erases(const flash_part* part);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_TESTS_OPS_CORE_FLASH_PART_H_ */
