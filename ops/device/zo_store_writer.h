/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Writes what belongs together of a log, in whole units of its store (zo_store_units.h).
 */
#ifndef TFLM_ZO_OPS_DEVICE_ZO_STORE_WRITER_H_
#define TFLM_ZO_OPS_DEVICE_ZO_STORE_WRITER_H_

#include "ops/core/log/zo_store_units.h"
#include "ops/device/zo_firmware.h"

namespace tflm_zo {

class StoreWriter {
 public:
  // From an offset on, a multiple of the store's unit.
  StoreWriter(const LogStore& log, uint32_t at) : log_(log), at_(at) {}

  // What follows the bytes before. What is less than a unit waits for more.
  bool Write(const uint8_t* bytes, uint32_t count);
  // The last bytes, and what fills their unit up.
  bool WriteAll(const uint8_t* bytes, uint32_t count);

 private:
  bool Put(const uint8_t* bytes, uint32_t count);

  const LogStore& log_;
  uint32_t at_;
  uint32_t waiting_ = 0;
  uint8_t unit_[ZO_STORE_UNIT_MOST];
};

// Whether all that was written to a store is safe.
inline bool MakeSafe(const LogStore& log) { return log.sync == nullptr || log.sync(log.context); }

// Writes what has a place by itself, and makes it safe. Errors: ZO_ERROR_STORE.
zo_status WriteSafely(const LogStore& log, uint32_t at, const uint8_t* bytes, uint32_t count);

}  // namespace tflm_zo

#endif  // TFLM_ZO_OPS_DEVICE_ZO_STORE_WRITER_H_
