/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The weights of a network: their places, the initial ones, and their export. */
#include <string.h>

#include "ops/core/log/zo_crc32.h"
#include "ops/core/weights/zo_checksum.h"
#include "ops/core/zo_little_endian.h"
#include "ops/device/zo_network.h"

namespace tflm_zo {
namespace {

// Where a fingerprint's last four bytes are.
constexpr uint32_t kLastOfFingerprint = ZO_LOG_FINGERPRINT_BYTES - 4;

}  // namespace

zo_status Network::Restore() {
  for (uint32_t k = 0; k <= LastSegment(); ++k) zo_directory_restore(&directories_[k]);
  is_restoring_ = true;
  zo_status status = FinishRestore();
  if (status != ZO_OK || base_.read == nullptr) return status;
  status = ReadWeights(base_);
  return status == ZO_OK && checksum() != base_checksum_ ? ZO_ERROR_STORE : status;
}

zo_status Network::FinishRestore() {
  const zo_status status = is_restoring_ ? Run(nullptr, false, 0, false) : ZO_OK;
  if (status == ZO_OK) is_restoring_ = false;
  return status;
}

zo_status Network::ReadWeights(const LogStore& store) {
  const zo_status restored = FinishRestore();
  if (restored != ZO_OK) return restored;
  uint32_t at = 0;
  for (int fractions = 0; fractions < 2; ++fractions) {
    for (uint32_t i = 0; i < info().trainable_count; ++i) {
      const zo_tensor of = tensor(i);
      int8_t* values = fractions != 0 ? of.fraction : of.weights;
      if (values == nullptr) continue;
      if (zo_store_read(&store, at, values, of.size) != ZO_OK) return ZO_ERROR_STORE;
      at += of.size;
      if (of.type == ZO_TENSOR_INT32) continue;
      for (uint32_t j = 0; fractions == 0 && j < of.size; ++j) {
        if (values[j] > of.limit || values[j] < -of.limit) return ZO_ERROR_ARGUMENT;
      }
    }
  }
  return ZO_OK;
}

zo_status Network::ImportWeights(const LogStore& store) {
  const zo_status status = ReadWeights(store);
  base_ = {};
  base_mark_ = 0;
  if (status == ZO_OK) {
    base_ = store;
    base_checksum_ = checksum();
    uint8_t own[4];
    zo_write_u32(own, base_checksum_);
    const uint32_t last = zo_read_u32(info().fingerprint + kLastOfFingerprint);
    base_mark_ = last ^ zo_crc32(last, own, sizeof own);
    return ZO_OK;
  }
  const zo_status restored = Restore();
  return restored == ZO_OK ? status : restored;
}

void Network::MarkFingerprint(uint8_t* bytes) const {
  uint8_t* last = bytes + kLastOfFingerprint;
  zo_write_u32(last, zo_read_u32(last) ^ base_mark_);
}

zo_tensor Network::tensor(uint32_t number) const {
  // A segment's weight ops publish its tensors in the order of the tables.
  const zo_directory_entry& entry = entries_[number];
  zo_tensor tensor = {};
  tensor.weights = entry.weights;
  tensor.fraction = entry.fraction;
  tensor.size = entry.size;
  tensor.stream = entry.stream;
  tensor.limit = info().limit;
#if ZO_WITH_MULTIPLIERS
  tensor.multiplier = info().trainable[number].multiplier;
  tensor.channels = info().trainable[number].channels;
  tensor.inner = info().trainable[number].inner;
#endif
  tensor.type = TypeOf(info(), number);
  return tensor;
}

uint32_t Network::checksum() const {
  if (!is_ready_) return 0;
  uint32_t sum = info().frozen_checksum;
  for (uint32_t i = 0; i < info().trainable_count; ++i) {
    const zo_tensor of = tensor(i);
    sum += zo_checksum(&of);
  }
  return sum;
}

zo_status Network::ExportWeights(const WeightSink& sink) const {
  constexpr uint32_t kPiece = 64;
  for (int fractions = 0; fractions < 2; ++fractions) {
    for (uint32_t i = 0; i < info().trainable_count; ++i) {
      const zo_tensor of = tensor(i);
      const int8_t* values = fractions != 0 ? of.fraction : of.weights;
      if (values == nullptr) continue;
      for (uint32_t at = 0; at < of.size; at += kPiece) {
        const uint32_t count = of.size - at < kPiece ? of.size - at : kPiece;
        if (!sink.write(sink.context, of.stream, values + at, count)) return ZO_ERROR_STORE;
      }
    }
  }
  return ZO_OK;
}

}  // namespace tflm_zo
