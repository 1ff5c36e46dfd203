/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/log/zo_crc32.h"

/* Of a nibble at a time: 64 bytes of table, a third of the time that single bits take. */
#if !defined(__OPTIMIZE_SIZE__)
static const uint32_t remainders[16] = {
    UINT32_C(0x00000000), UINT32_C(0x1DB71064), UINT32_C(0x3B6E20C8), UINT32_C(0x26D930AC),
    UINT32_C(0x76DC4190), UINT32_C(0x6B6B51F4), UINT32_C(0x4DB26158), UINT32_C(0x5005713C),
    UINT32_C(0xEDB88320), UINT32_C(0xF00F9344), UINT32_C(0xD6D6A3E8), UINT32_C(0xCB61B38C),
    UINT32_C(0x9B64C2B0), UINT32_C(0x86D3D2D4), UINT32_C(0xA00AE278), UINT32_C(0xBDBDF21C)};

static uint32_t without_nibble(uint32_t crc) { return (crc >> 4) ^ remainders[crc & 15u]; }
#else
static uint32_t without_nibble(uint32_t crc) {
  for (uint32_t bit = 0; bit < 4u; ++bit) {
    crc = (crc >> 1) ^ (UINT32_C(0xEDB88320) & (0u - (crc & 1u)));
  }
  return crc;
}
#endif

uint32_t zo_crc32(uint32_t crc, const void* bytes, uint32_t count) {
  const uint8_t* at = (const uint8_t*)bytes;
  crc = ~crc;
  for (uint32_t i = 0; i < count; ++i) {
    crc = without_nibble(without_nibble(crc ^ at[i]));
  }
  return ~crc;
}
