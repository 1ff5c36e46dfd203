/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * See micro_interpreter.h. Activations are at the beginning of the arena, shared by all
 * interpreters; permanent allocations are at its end.
 */
#ifndef TFLM_ZO_TESTS_DEVICE_MICRO_ALLOCATOR_H_
#define TFLM_ZO_TESTS_DEVICE_MICRO_ALLOCATOR_H_

#include <stddef.h>
#include <stdint.h>

namespace tflite {

class MicroAllocator {
 public:
  static size_t GetDefaultTailUsage(bool) { return kOwnBytes; }
  static MicroAllocator* Create(uint8_t* arena, size_t bytes);

  // Makes the activations' part at least so large.
  bool ReserveActivations(size_t bytes);
  bool AllocateForGood(size_t bytes);
  void* AllocatePersistentBuffer(size_t bytes);

  uint8_t* activations() const { return arena_; }
  size_t activation_bytes() const { return activation_bytes_; }
  size_t used_bytes() const { return activation_bytes_ + tail_bytes_; }

  // Overwrites permanent allocations with a pattern; and tests whether it is still there.
  void MarkTail();
  bool TailIsWhole() const;

 private:
  static constexpr size_t kOwnBytes = 256;
  uint8_t* arena_;
  size_t bytes_;
  size_t activation_bytes_;
  size_t tail_bytes_;
};

}  // namespace tflite

#endif  // TFLM_ZO_TESTS_DEVICE_MICRO_ALLOCATOR_H_
