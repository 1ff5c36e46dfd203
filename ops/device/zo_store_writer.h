/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Writes adjacent parts of a log in whole units of its store (zo_store_units.h).
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

  // Appends bytes. Less than a unit waits for more.
  bool Write(const uint8_t* bytes, uint32_t count);
  // Appends the last bytes, and fills their unit up.
  bool WriteAll(const uint8_t* bytes, uint32_t count);

 private:
  bool Put(const uint8_t* bytes, uint32_t count);

  const LogStore& log_;
  uint32_t at_;
  uint32_t waiting_ = 0;
  uint8_t unit_[ZO_STORE_UNIT_MOST];
};

// Which store has all of a run so far: the one that its log goes into, or that it was taken from.
// None, if steps were done without a log.
class StoreOfRun {
 public:
  constexpr StoreOfRun() = default;
  explicit StoreOfRun(const LogStore& log) : context_(log.context), write_(log.write) {}
  bool Is(const LogStore& log) const { return context_ == log.context && write_ == log.write; }

 private:
  const void* context_ = nullptr;
  bool (*write_)(void*, uint32_t, const uint8_t*, uint32_t) = nullptr;
};

// Whether all written bytes of a store are safe.
inline bool MakeSafe(const LogStore& log) { return log.sync == nullptr || log.sync(log.context); }

// Writes bytes with units of their own, and makes them safe. Errors: ZO_ERROR_STORE.
zo_status WriteSafely(const LogStore& log, uint32_t at, const uint8_t* bytes, uint32_t count);

}  // namespace tflm_zo

#endif  // TFLM_ZO_OPS_DEVICE_ZO_STORE_WRITER_H_
