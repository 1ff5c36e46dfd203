/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Logs in stores that program several bytes at once.
 *
 * Memory that programs a unit of several bytes at once may lose all of them when power fails. In a
 * store with such a unit, each thing that is written by itself, the header, a slot, a record, a
 * measurement, therefore begins at a multiple of the unit and is filled up to the next one with
 * 0xFF: a power failure damages the write in progress, and nothing beside it. But for these bytes,
 * a padded log is that of a store with a unit of 1, checksums included; byte 9 of its header, which
 * checksums take as 0, has its padding:
 *
 *   9    u8  0: not at all; 128 + unit
 *
 * It sets two bits, so that a single damaged bit is detected.
 */
#ifndef TFLM_ZO_OPS_CORE_LOG_ZO_STORE_UNITS_H_
#define TFLM_ZO_OPS_CORE_LOG_ZO_STORE_UNITS_H_

#include <stdbool.h>
#include <stdint.h>

#define ZO_STORE_UNIT_MOST 32
#define ZO_LOG_UNIT_AT 9

/* Whether a store may have such a unit: 1, 2, 4, 8, 16 or 32 bytes; 0 stands for 1. */
static inline bool zo_is_store_unit(uint32_t unit) { return unit <= ZO_STORE_UNIT_MOST && (unit & (unit - 1u)) == 0u; }

/* Bytes, filled up to whole units. */
static inline uint32_t zo_padded(uint32_t bytes, uint32_t unit) {
  return unit > 1u ? (bytes + unit - 1u) & ~(unit - 1u) : bytes;
}

/* Writes the padding into a header. */
static inline void zo_log_write_unit(uint8_t* header, uint32_t unit) {
  header[ZO_LOG_UNIT_AT] = unit > 1u ? (uint8_t)(128u + unit) : 0u;
}

/* Whether bytes equal those of erased flash. */
static inline bool zo_is_erased(const uint8_t* bytes, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (bytes[i] != 0xFFu) return false;
  }
  return true;
}

#endif /* TFLM_ZO_OPS_CORE_LOG_ZO_STORE_UNITS_H_ */
