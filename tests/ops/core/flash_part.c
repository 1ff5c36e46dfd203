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

static uint32_t bytes_of(const flash_part* part) {
  return part->flash.sectors * part->flash.sector_bytes;
}

/* Whether power fails now. */
static int is_cut(flash_part* part) {
  if (part->cut_in > 0u && --part->cut_in == 0u) part->is_off = 1;
  return part->is_off;
}

static bool program(void* context, uint32_t address, const uint8_t* bytes, uint32_t count) {
  flash_part* part = (flash_part*)context;
  const uint32_t unit = part->flash.unit;
  const int is_inside = address <= bytes_of(part) && count <= bytes_of(part) - address;
  if (!is_inside || count == 0u || address % unit != 0u || count % unit != 0u) {
    ++part->faults;
    return false;
  }
  if (part->is_off) return false;
  const int cut = is_cut(part);
  const uint32_t units = cut ? flash_draw() % (count / unit) : count / unit;
  for (uint32_t u = 0; u < units + (cut ? 1u : 0u); ++u) {
    part->faults += part->programmed[address / unit + u];
    part->programmed[address / unit + u] = 1u;
    for (uint32_t i = u * unit; i < (u + 1u) * unit; ++i) {
      /* Of the last one, some of the bits that would become 0. */
      part->bytes[address + i] = u < units ? bytes[i] : (uint8_t)(bytes[i] | flash_draw());
    }
  }
  part->program_bytes += count;
  return !cut;
}

static bool erase(void* context, uint32_t address) {
  flash_part* part = (flash_part*)context;
  const uint32_t size = part->flash.sector_bytes, sector = address / size;
  if (address % size != 0u || sector >= part->flash.sectors) ++part->faults;
  if (part->is_off || part->faults > 0u) return false;
  const int cut = is_cut(part);
  for (uint32_t i = address; i < address + size; ++i) {
    const uint32_t left = flash_draw();
    part->bytes[i] = cut && left % 2u == 0u ? (uint8_t)(part->bytes[i] | (left >> 8)) : 0xFFu;
  }
  if (cut) return false;
  memset(part->programmed + address / part->flash.unit, 0, size / part->flash.unit);
  part->erases[sector] += 1u;
  return true;
}

static bool read(void* context, uint32_t address, uint8_t* bytes, uint32_t count) {
  flash_part* part = (flash_part*)context;
  ++part->reads;
  if (address > bytes_of(part) || count > bytes_of(part) - address) return false;
  if (part->is_off) return false;
  memcpy(bytes, part->bytes + address, count);
  return true;
}

void flash_part_init(flash_part* part, uint32_t sectors, uint32_t sector_bytes, uint32_t page_bytes,
                     uint32_t unit, int dirty) {
  const zo_flash flash = {program, erase, read, part, sectors, sector_bytes, page_bytes, unit};
  memset(part, 0, sizeof *part);
  part->flash = flash;
  part->bytes = (uint8_t*)malloc(bytes_of(part));
  part->programmed = (uint8_t*)malloc(bytes_of(part) / unit);
  part->erases = (uint32_t*)calloc(sectors, sizeof *part->erases);
  memset(part->bytes, 0xFF, bytes_of(part));
  memset(part->programmed, dirty, bytes_of(part) / unit);
  for (uint32_t i = 0; dirty && i < bytes_of(part); ++i) part->bytes[i] = (uint8_t)flash_draw();
}

void flash_part_free(flash_part* part) {
  free(part->bytes);
  free(part->programmed);
  free(part->erases);
}

void flash_part_cut_in(flash_part* part, uint32_t operations) { part->cut_in = operations; }

void flash_part_power_on(flash_part* part) {
  part->is_off = 0;
  part->cut_in = 0;
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
