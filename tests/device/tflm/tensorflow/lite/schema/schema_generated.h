/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * See ../micro/micro_interpreter.h. A model is its bytes.
 */
#ifndef TFLM_ZO_TESTS_DEVICE_SCHEMA_GENERATED_H_
#define TFLM_ZO_TESTS_DEVICE_SCHEMA_GENERATED_H_

#include <stdint.h>

#define TFLITE_SCHEMA_VERSION 3

namespace tflite {

class Model {
 public:
  // A table's `version` is its first field.
  uint32_t version() const {
    const auto* root = reinterpret_cast<const unsigned char*>(this);
    const auto read = [](const unsigned char* at) {
      return static_cast<uint32_t>(at[0] | at[1] << 8 | at[2] << 16) | static_cast<uint32_t>(at[3]) << 24;
    };
    const unsigned char* table = root + read(root);
    const unsigned char* vtable = table - static_cast<int32_t>(read(table));
    return read(table + (vtable[4] | vtable[5] << 8));
  }
};

inline const Model* GetModel(const void* bytes) { return static_cast<const Model*>(bytes); }

}  // namespace tflite

#endif  // TFLM_ZO_TESTS_DEVICE_SCHEMA_GENERATED_H_
