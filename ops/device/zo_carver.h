/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of a workspace.
 */
#ifndef TFLM_ZO_OPS_DEVICE_ZO_CARVER_H_
#define TFLM_ZO_OPS_DEVICE_ZO_CARVER_H_

#include <stddef.h>
#include <stdint.h>

namespace tflm_zo {

// Takes pieces of a workspace one after the other; without one it counts them.
class Carver {
 public:
  Carver(void* memory, size_t bytes) : memory_(static_cast<uint8_t*>(memory)), bytes_(bytes) {}

  template <typename T>
  T* Take(size_t count) {
    constexpr size_t kAlignment = 8;
    T* piece = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + used_);
    used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return fits() ? piece : nullptr;
  }

  bool fits() const { return used_ <= bytes_; }
  size_t used() const { return used_; }

 private:
  uint8_t* memory_;
  size_t bytes_;
  size_t used_ = 0;
};

}  // namespace tflm_zo

#endif  // TFLM_ZO_OPS_DEVICE_ZO_CARVER_H_
