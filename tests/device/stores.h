/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Stores that a device's log is tested with, on memory whose power fails (flash_part.h).
 */
#ifndef TFLM_ZO_TESTS_DEVICE_STORES_H_
#define TFLM_ZO_TESTS_DEVICE_STORES_H_

#include "flash_part.h"
#include "zo_trainer.h"

namespace stores {

enum Kind : uint32_t {
  kRing,      // zo_flash_store on raw flash
  kDirect,    // memory that is written over
  kCached,    // the same behind a cache
  kLittlefs,  // littlefs, if it is compiled in
  kHidden,    // memory that is written over, whose units the log is not told of
};

// Memory of a store that somebody else has used; for littlefs, formatted.
//
//   file_bytes  of littlefs's files
//
// False: there is no such store here.
bool Begin(uint32_t kind, uint32_t sectors, uint32_t sector_bytes, uint32_t page_bytes, uint32_t unit,
           uint32_t file_bytes);

flash_part& Part();

// After a reset; false if the memory fails.
bool Mount();

// Forgets its content, once it is mounted; false if the memory fails.
bool Clear();

// Once it is mounted.
const tflm_zo::LogStore& Log();

// The content that a mount would find in raw flash, with any failures; false: a fault of the store.
bool Content(uint8_t* bytes, uint32_t count);

}  // namespace stores

#endif  // TFLM_ZO_TESTS_DEVICE_STORES_H_
