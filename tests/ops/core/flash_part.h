/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * NOR flash in memory: erased in sectors, each unit programmed once in between; it counts what no
 * program may do.
 * When power fails, of what is programmed a part arrives, and of the unit at its end some bits; of
 * a sector that is erased some bytes, some bits of them.
 */
#ifndef TFLM_ZO_TESTS_OPS_CORE_FLASH_PART_H_
#define TFLM_ZO_TESTS_OPS_CORE_FLASH_PART_H_

#include "ops/core/log/zo_flash_store.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct flash_part {
  zo_flash flash;
  uint8_t* bytes;
  uint8_t* programmed; /* of each unit */
  uint32_t* erases;    /* of each sector */
  uint32_t cut_in;     /* power fails at the operation of this number from now on; 0: it does not */
  int is_off;
  uint32_t faults; /* what no program may do: units programmed twice, addresses outside */
  uint32_t reads;
  uint64_t program_bytes;
} flash_part;

uint32_t flash_draw(void);

/* dirty: full of somebody else's bytes. */
void flash_part_init(flash_part* part, uint32_t sectors, uint32_t sector_bytes, uint32_t page_bytes,
                     uint32_t unit, int dirty);
void flash_part_free(flash_part* part);

void flash_part_cut_in(flash_part* part, uint32_t operations);
void flash_part_power_on(flash_part* part);

uint32_t flash_part_most_erases(const flash_part* part);
uint32_t flash_part_least_erases(const flash_part* part);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_TESTS_OPS_CORE_FLASH_PART_H_ */
