/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Little-endian fields without alignment: custom options in a flatbuffer, files. */
#ifndef TFLM_ZO_OPS_CORE_ZO_LITTLE_ENDIAN_H_
#define TFLM_ZO_OPS_CORE_ZO_LITTLE_ENDIAN_H_

#include <stdint.h>

static inline uint32_t zo_read_u16(const uint8_t* bytes) { return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8; }

static inline uint32_t zo_read_u32(const uint8_t* bytes) { return zo_read_u16(bytes) | zo_read_u16(bytes + 2) << 16; }

static inline void zo_write_u16(uint8_t* bytes, uint32_t value) {
  bytes[0] = (uint8_t)value;
  bytes[1] = (uint8_t)(value >> 8);
}

static inline void zo_write_u32(uint8_t* bytes, uint32_t value) {
  zo_write_u16(bytes, value & 0xFFFFu);
  zo_write_u16(bytes + 2, value >> 16);
}

static inline uint64_t zo_read_u64(const uint8_t* bytes) {
  return zo_read_u32(bytes) | (uint64_t)zo_read_u32(bytes + 4) << 32;
}

static inline void zo_write_u64(uint8_t* bytes, uint64_t value) {
  zo_write_u32(bytes, (uint32_t)value);
  zo_write_u32(bytes + 4, (uint32_t)(value >> 32));
}

#endif /* TFLM_ZO_OPS_CORE_ZO_LITTLE_ENDIAN_H_ */
