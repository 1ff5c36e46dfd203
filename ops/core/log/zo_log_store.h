/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The store of a log, which the application provides.
 */
#ifndef TFLM_ZO_OPS_CORE_LOG_ZO_LOG_STORE_H_
#define TFLM_ZO_OPS_CORE_LOG_ZO_LOG_STORE_H_

#include <stdbool.h>

#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The store of the log, which behaves like a file: flash (zo_flash_store.h), a file of a file
 * system, an EEPROM, a UART with somebody at its other end.
 *
 *   write  `count` bytes at an offset, over others, too: whole units, offset and count are
 *          multiples of `unit`. True once they are safe from a power failure, or, in a store that
 *          has a `sync`, once they are taken
 *   read   any number of bytes at any offset, synced or not. Returns the number of bytes read:
 *          fewer than `count` only if a file ends, and bytes that were never written may be
 *          anything. Negative, an error code of its own: the read has failed, and the content is
 *          unknown
 *   sync   true once all written bytes are safe; null: every write is safe when it returns
 *   unit   bytes that are programmed at once: 1 (or 0), 2, 4, 8, 16 or 32. A power failure may lose
 *          any written units that are not safe yet, in any order, and nothing else
 *   bytes  that the store has: no others are requested. UINT32_MAX: a file that grows
 *
 * `write` and `sync` return false if they fail. */
typedef struct zo_log_store {
  bool (*write)(void* context, uint32_t offset, const uint8_t* bytes, uint32_t count);
  int32_t (*read)(void* context, uint32_t offset, uint8_t* bytes, uint32_t count);
  void* context;
  bool (*sync)(void* context);
  uint32_t unit;
  uint32_t bytes;
} zo_log_store;

/* Reads bytes of a store, for every reader. Errors: ZO_ERROR_LOG: the store ends before them;
 * ZO_ERROR_STORE: it has failed, and its content is unknown. */
zo_status zo_store_read(const zo_log_store* store, uint32_t offset, void* bytes, uint32_t count);

/* Writes bytes of a store, for every writer. False: it has no room, or fails. */
bool zo_store_write(const zo_log_store* store, uint32_t offset, const void* bytes, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_LOG_ZO_LOG_STORE_H_ */
