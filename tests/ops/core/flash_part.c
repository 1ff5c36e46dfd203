/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "flash_part.h"

#include <stdlib.h>
#include <string.h>

uint32_t flash_draw(void) {
  static uint64_t state = 1;
  uint64_t z = (state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return (uint32_t)(z >> 32);
}

static uint32_t bytes_of(const flash_part* part) { return part->flash.sectors * part->flash.sector_bytes; }

/* --- Operations, complete or torn ---------------------------------------------------------------
 */

static int is_zero(const uint8_t* bytes, uint32_t count) {
  while (count > 0u && *bytes == 0u) ++bytes, --count;
  return count == 0u;
}

/* A unit after a power failure: some of its bits have their new values. */
static void tear_unit(flash_part* part, uint32_t u, const uint8_t* bytes) {
  const uint32_t unit = part->flash.unit, fate = flash_draw() % 4u;
  uint8_t* to = part->image.bytes + u * unit;
  for (uint32_t i = 0; i < unit; ++i) {
    const uint8_t wanted = bytes == NULL ? 0xFFu : bytes[i], changed = (uint8_t)(to[i] ^ wanted);
    if (fate == 1u || (fate > 1u && !part->has_ecc)) to[i] ^= (uint8_t)(changed & flash_draw());
    if (fate == 0u) to[i] = wanted;
  }
  part->image.programmed[u] = fate > 1u && part->has_ecc ? FLASH_TORN : 1u;
}

/* Units may be programmed twice, to zeros. With ECC they may then be torn. */
static void program_units(flash_part* part, const flash_operation* o, int cut) {
  const uint32_t unit = part->flash.unit, all = o->count / unit;
  const uint32_t units = cut ? flash_draw() % all : all;
  for (uint32_t u = 0; u < units + (cut ? 1u : 0u); ++u) {
    const uint8_t* bytes = o->bytes + u * unit;
    uint8_t* programmed = &part->image.programmed[o->address / unit + u];
    const int is_over = *programmed != 0u;
    part->faults += is_over && !is_zero(bytes, unit);
    if (u == units) {
      tear_unit(part, o->address / unit + u, bytes);
      continue;
    }
    memcpy(part->image.bytes + o->address + u * unit, bytes, unit);
    *programmed = is_over && part->has_ecc && flash_draw() % 2u == 0u ? FLASH_TORN : 1u;
  }
}

static void erase_sector(flash_part* part, const flash_operation* o, int cut) {
  const uint32_t unit = part->flash.unit, size = part->flash.sector_bytes;
  if (cut) {
    const uint32_t rare = 1u << 2u * (flash_draw() % 4u);
    for (uint32_t u = o->address / unit; u < (o->address + size) / unit; ++u) {
      if (flash_draw() % rare == 0u) tear_unit(part, u, NULL);
      part->image.programmed[u] |= 1u;
    }
    return;
  }
  memset(part->image.bytes + o->address, 0xFF, size);
  memset(part->image.programmed + o->address / unit, 0, size / unit);
  part->erases[o->address / size] += 1u;
}

static void write_units(flash_part* part, const flash_operation* o) {
  memcpy(part->image.bytes + o->address, o->bytes, o->count);
  memset(part->image.programmed + o->address / part->flash.unit, 1, o->count / part->flash.unit);
}

/* Waiting bytes have arrived, or were cut off on their way. */
static void settle(flash_part* part, int cut) {
  const uint32_t unit = part->flash.unit;
  const uint32_t rare = 3u << 2u * (flash_draw() % 4u); /* from two of three to two of 192 */
  for (uint32_t u = 0; u < bytes_of(part) / unit; ++u) {
    if (part->image.programmed[u] == 0u) continue;
    part->image.programmed[u] = 0;
    const uint32_t fate = cut ? flash_draw() % rare : 0u;
    for (uint32_t i = u * unit; i < (u + 1u) * unit; ++i) {
      if (fate == 1u) part->image.bytes[i] = part->image.safe[i];
      if (fate == 2u) part->image.bytes[i] = (uint8_t)flash_draw();
      part->image.safe[i] = part->image.bytes[i];
    }
  }
}

static void carry_out(flash_part* part, const flash_operation* o, int cut) {
  switch (o->kind) {
    case FLASH_PROGRAM:
      program_units(part, o, cut);
      return;
    case FLASH_ERASE:
      erase_sector(part, o, cut);
      return;
    case FLASH_WRITE:
      write_units(part, o);
      if (cut || !part->has_cache) settle(part, cut);
      return;
    case FLASH_SYNC:
      settle(part, cut);
      return;
  }
}

static void record(flash_part* part, const flash_operation* o) {
  flash_operation* all =
      (flash_operation*)realloc(part->operations, (part->operation_count + 1u) * sizeof *part->operations);
  flash_operation* to = &all[part->operation_count++];
  *to = *o;
  to->bytes = (uint8_t*)malloc(o->count + 1u);
  if (o->count > 0u) memcpy(to->bytes, o->bytes, o->count);
  part->operations = all;
}

static int is_failing(flash_part* part) {
  if (part->fails_for == 0u) return 0;
  if (part->fails_in > 0u) return --part->fails_in, 0;
  return --part->fails_for, 1;
}

static bool operate(flash_part* part, const flash_operation* o) {
  const uint32_t unit = part->flash.unit;
  const int is_inside = o->address <= bytes_of(part) && o->count <= bytes_of(part) - o->address;
  if (!is_inside || o->address % unit != 0u || o->count % unit != 0u) {
    ++part->faults;
    return false;
  }
  if (part->is_off) return false;
  if (part->is_recording) record(part, o);
  if (part->cut_in > 0u && --part->cut_in == 0u) part->is_off = 1;
  const uint8_t failure = part->failures[o->address / part->flash.sector_bytes];
  const int fails = is_failing(part) || (o->kind == FLASH_ERASE && failure == FLASH_NO_ERASE) ||
                    (o->kind == FLASH_PROGRAM && failure == FLASH_NO_PROGRAM);
  carry_out(part, o, part->is_off || fails);
  part->program_bytes += o->count;
  return !part->is_off && !fails;
}

static bool program(void* context, uint32_t address, const uint8_t* bytes, uint32_t count) {
  flash_part* part = (flash_part*)context;
  const flash_operation o = {FLASH_PROGRAM, address, count, (uint8_t*)(uintptr_t)bytes};
  if (count == 0u) ++part->faults;
  return count > 0u && operate(part, &o);
}

static bool erase(void* context, uint32_t address) {
  flash_part* part = (flash_part*)context;
  const flash_operation o = {FLASH_ERASE, address, 0, NULL};
  if (address % part->flash.sector_bytes != 0u || address >= bytes_of(part)) ++part->faults;
  return part->faults == 0u && operate(part, &o);
}

static int32_t read(void* context, uint32_t address, uint8_t* bytes, uint32_t count) {
  flash_part* part = (flash_part*)context;
  if (++part->reads == part->failing_read) return -5;
  if (address > bytes_of(part) || count > bytes_of(part) - address) return ++part->faults, -22;
  if (part->is_off) return -5;
  for (uint32_t u = address / part->flash.unit; part->has_ecc && u * part->flash.unit < address + count; ++u) {
    if (part->image.programmed[u] >= FLASH_TORN) return 0;
  }
  memcpy(bytes, part->image.bytes + address, count);
  return (int32_t)count;
}

bool flash_part_write(flash_part* part, uint32_t address, const uint8_t* bytes, uint32_t count) {
  const flash_operation o = {FLASH_WRITE, address, count, (uint8_t*)(uintptr_t)bytes};
  return count == 0u || operate(part, &o);
}

bool flash_part_sync(flash_part* part) {
  const flash_operation o = {FLASH_SYNC, 0, 0, NULL};
  return operate(part, &o);
}

/* --- Parts --------------------------------------------------------------------------------------
 */

static flash_image new_image(const flash_part* part) {
  const flash_image image = {(uint8_t*)malloc(bytes_of(part)), (uint8_t*)malloc(bytes_of(part)),
                             (uint8_t*)malloc(bytes_of(part) / part->flash.unit)};
  return image;
}

static void copy_image(const flash_part* part, flash_image* to, const flash_image* from) {
  memcpy(to->bytes, from->bytes, bytes_of(part));
  memcpy(to->safe, from->safe, bytes_of(part));
  memcpy(to->programmed, from->programmed, bytes_of(part) / part->flash.unit);
}

static void free_image(flash_image* image) {
  free(image->bytes);
  free(image->safe);
  free(image->programmed);
}

static void forget(flash_part* part) {
  for (uint32_t i = 0; i < part->operation_count; ++i) free(part->operations[i].bytes);
  free(part->operations);
  part->operations = NULL;
  part->operation_count = 0;
}

void flash_part_init(flash_part* part, uint32_t sectors, uint32_t sector_bytes, uint32_t page_bytes, uint32_t unit,
                     int dirty) {
  const zo_flash flash = {program, erase, read, part, sectors, sector_bytes, page_bytes, unit};
  memset(part, 0, sizeof *part);
  part->flash = flash;
  part->image = new_image(part);
  part->before = new_image(part);
  part->erases = (uint32_t*)calloc(sectors, sizeof *part->erases);
  part->failures = (uint8_t*)calloc(sectors + 1u, sizeof *part->failures);
  memset(part->image.bytes, 0xFF, bytes_of(part));
  memset(part->image.programmed, dirty, bytes_of(part) / unit);
  for (uint32_t i = 0; dirty && i < bytes_of(part); ++i) {
    part->image.bytes[i] = (uint8_t)flash_draw();
  }
  memcpy(part->image.safe, part->image.bytes, bytes_of(part));
}

void flash_part_free(flash_part* part) {
  if (part->image.bytes == NULL) return;
  free_image(&part->image);
  free_image(&part->before);
  forget(part);
  free(part->erases);
  free(part->failures);
}

void flash_part_take(flash_part* part, const flash_part* other) { copy_image(part, &part->image, &other->image); }

void flash_part_cut_in(flash_part* part, uint32_t operations) { part->cut_in = operations; }

void flash_part_power_on(flash_part* part) {
  part->is_off = 0;
  part->cut_in = 0;
}

void flash_part_fail(flash_part* part, uint32_t after, uint32_t operations) {
  part->fails_in = after;
  part->fails_for = operations;
}

void flash_part_record(flash_part* part) {
  forget(part);
  part->is_recording = 1;
  part->next = 0;
  copy_image(part, &part->before, &part->image);
}

void flash_part_cut_at(flash_part* part, uint32_t operation) {
  part->is_recording = 0;
  copy_image(part, &part->image, &part->before);
  for (; part->next < operation; ++part->next) {
    carry_out(part, &part->operations[part->next], 0);
  }
  copy_image(part, &part->before, &part->image);
  carry_out(part, &part->operations[operation], 1);
}

uint32_t flash_part_erases(const flash_part* part) {
  uint32_t all = 0;
  for (uint32_t i = 0; i < part->flash.sectors; ++i) all += part->erases[i];
  return all;
}

uint32_t flash_part_most_erases(const flash_part* part) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < part->flash.sectors; ++i) {
    if (part->erases[i] > most) most = part->erases[i];
  }
  return most;
}

uint32_t flash_part_least_erases(const flash_part* part) {
  uint32_t least = UINT32_MAX;
  for (uint32_t i = 0; i < part->flash.sectors; ++i) {
    if (part->erases[i] < least) least = part->erases[i];
  }
  return least;
}
