/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/device/zo_store_writer.h"

#include <string.h>

namespace tflm_zo {

bool StoreWriter::Put(const uint8_t* bytes, uint32_t count) {
  if (count > 0 && !zo_store_write(&log_, at_, bytes, count)) return false;
  at_ += count;
  return true;
}

bool StoreWriter::Write(const uint8_t* bytes, uint32_t count) {
  const uint32_t unit = log_.unit;
  if (waiting_ > 0) {
    const uint32_t taken = count < unit - waiting_ ? count : unit - waiting_;
    memcpy(unit_ + waiting_, bytes, taken);
    waiting_ += taken;
    if (waiting_ < unit) return true;
    if (!Put(unit_, unit)) return false;
    waiting_ = 0;
    bytes += taken;
    count -= taken;
  }
  const uint32_t rest = unit > 1 ? count & (unit - 1) : 0;
  if (!Put(bytes, count - rest)) return false;
  memcpy(unit_, bytes + (count - rest), rest);
  waiting_ = rest;
  return true;
}

bool StoreWriter::WriteAll(const uint8_t* bytes, uint32_t count) {
  if (!Write(bytes, count)) return false;
  if (waiting_ == 0) return true;
  memset(unit_ + waiting_, 0xFF, log_.unit - waiting_);
  return Put(unit_, log_.unit);
}

zo_status WriteSafely(const LogStore& log, uint32_t at, const uint8_t* bytes, uint32_t count) {
  return StoreWriter(log, at).WriteAll(bytes, count) && MakeSafe(log) ? ZO_OK : ZO_ERROR_STORE;
}

}  // namespace tflm_zo
