/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Where a log is kept, as the application provides it.
 */
#ifndef TFLM_ZO_OPS_CORE_LOG_ZO_LOG_STORE_H_
#define TFLM_ZO_OPS_CORE_LOG_ZO_LOG_STORE_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the log goes, a file as it were: flash (zo_flash_store.h), a file of a file system, an
 * EEPROM, a UART with somebody at its other end. Weight perturbation writes a header at 0 and
 * appends; layer-wise runs write snapshots in two places by turns.
 *
 *   write  `count` bytes at an offset, over others, too: whole units, offset and count are
 *          multiples of `unit`. True once they are safe from a power failure, or, in a store that
 *          has a `sync`, once they are taken
 *   read   any number of bytes at any offset, those that were written, synced or not; past them it
 *          fails, or gives any bytes
 *   sync   true once all that was written is safe; null: a write that returns is
 *   unit   bytes that are programmed at once: 1 (or 0), 2, 4, 8, 16 or 32. A power failure may lose
 *          whatever was written and is not safe, whole units of it, in any order, and nothing else
 *
 * All return false where they fail. */
typedef struct zo_log_store {
  bool (*write)(void* context, uint32_t offset, const uint8_t* bytes, uint32_t count);
  bool (*read)(void* context, uint32_t offset, uint8_t* bytes, uint32_t count);
  void* context;
  bool (*sync)(void* context);
  uint32_t unit;
} zo_log_store;

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_LOG_ZO_LOG_STORE_H_ */
