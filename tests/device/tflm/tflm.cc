/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * See tensorflow/lite/micro/micro_interpreter.h.
 */
#include <stdlib.h>
#include <string.h>

#include <initializer_list>
#include <new>
#include <vector>

#include "tensorflow/lite/micro/micro_interpreter.h"

namespace tflite {
namespace {

size_t Aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

Host host = {};

MicroAllocator* MicroAllocator::Create(uint8_t* arena, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(arena) % 16 != 0 || bytes < kOwnBytes) abort();
  auto* made = reinterpret_cast<MicroAllocator*>(arena + (bytes - kOwnBytes) / 16 * 16);
  *made = MicroAllocator();
  made->arena_ = arena;
  made->bytes_ = bytes / 16 * 16;
  made->activation_bytes_ = 0;
  made->tail_bytes_ = made->bytes_ - static_cast<size_t>(reinterpret_cast<uint8_t*>(made) - arena);
  return made;
}

bool MicroAllocator::ReserveActivations(size_t bytes) {
  if (bytes + tail_bytes_ > bytes_) return false;
  if (bytes > activation_bytes_) activation_bytes_ = bytes;
  return true;
}

bool MicroAllocator::AllocateForGood(size_t bytes) {
  if (bytes > bytes_ - tail_bytes_ || activation_bytes_ > bytes_ - tail_bytes_ - bytes) return false;
  tail_bytes_ += bytes;
  MarkTail();
  return true;
}

void* MicroAllocator::AllocatePersistentBuffer(size_t bytes) {
  return AllocateForGood(Aligned(bytes)) ? arena_ + bytes_ - tail_bytes_ : nullptr;
}

void MicroAllocator::MarkTail() {
  uint8_t* begin = arena_ + bytes_ - tail_bytes_;
  memset(begin, 0x5A, static_cast<size_t>(reinterpret_cast<uint8_t*>(this) - begin));
}

bool MicroAllocator::TailIsWhole() const {
  for (const uint8_t* at = arena_ + bytes_ - tail_bytes_; at < reinterpret_cast<const uint8_t*>(this); ++at) {
    if (*at != 0x5A) return false;
  }
  return true;
}

TfLiteStatus MicroInterpreter::AllocateTensors() {
  if (host.open(model_, context_, &segment_) == 0) return kTfLiteError;
  // Inputs that live to the end of an invoke come last, the others before them. Outputs, in reverse,
  // so that nobody can rely on an order, come first, and may share memory with the latter.
  uint8_t* const begin = allocator_->activations();
  uint8_t* at = begin;
  for (uint32_t i = segment_.outputs; i-- > 0;) {
    outputs_[i].data.raw = at;
    outputs_[i].bytes = segment_.output_bytes[i];
    at += Aligned(segment_.output_bytes[i]);
  }
  const auto outputs = static_cast<size_t>(at - begin);
  size_t kept = 0, others = 0;
  for (uint32_t i = 0; i < segment_.inputs; ++i) {
    (segment_.is_read_last[i] != 0 ? kept : others) += Aligned(segment_.input_bytes[i]);
  }
  const size_t needed = kept + (outputs > others ? outputs : others);
  activation_bytes_ = segment_.activations > needed ? segment_.activations : needed;
  at = begin + activation_bytes_ - kept - others;
  for (const uint32_t pass : {0u, 1u}) {
    for (uint32_t i = 0; i < segment_.inputs; ++i) {
      if ((segment_.is_read_last[i] != 0) != (pass != 0)) continue;
      inputs_[i].data.raw = at;
      inputs_[i].bytes = segment_.input_bytes[i];
      at += Aligned(segment_.input_bytes[i]);
    }
  }
  const size_t structs = Aligned(24 * (segment_.inputs + segment_.outputs));
  return allocator_->AllocateForGood(structs) && allocator_->ReserveActivations(activation_bytes_) ? kTfLiteOk
                                                                                                   : kTfLiteError;
}

TfLiteStatus MicroInterpreter::Invoke() {
  if (!allocator_->TailIsWhole()) abort();  // somebody has written over the interpreters' own
  void* inputs[kMaxTensors] = {};
  void* outputs[kMaxTensors] = {};
  std::vector<std::vector<uint8_t>> kept(kMaxTensors);
  std::vector<std::vector<uint8_t>> results(kMaxTensors);
  for (uint32_t i = 0; i < segment_.inputs; ++i) {
    const uint8_t* from = inputs_[i].data.uint8;
    kept[i].assign(from, from + segment_.input_bytes[i]);
    inputs[i] = kept[i].data();
  }
  for (uint32_t i = 0; i < segment_.outputs; ++i) {
    results[i].resize(segment_.output_bytes[i]);
    outputs[i] = results[i].data();
  }
  const bool works = host.invoke(model_, inputs, outputs) != 0;
  memset(allocator_->activations(), 0xC3, activation_bytes_);
  for (uint32_t i = 0; i < segment_.inputs; ++i) {
    if (segment_.is_read_last[i] != 0) memcpy(inputs_[i].data.raw, kept[i].data(), kept[i].size());
  }
  for (uint32_t i = 0; works && i < segment_.outputs; ++i) {
    memcpy(outputs_[i].data.raw, results[i].data(), results[i].size());
  }
  return works ? kTfLiteOk : kTfLiteError;
}

}  // namespace tflite
