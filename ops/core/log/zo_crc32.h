/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32 (IEEE 802.3), as zlib, PNG and Ethernet have it.
 */
#ifndef TFLM_ZO_OPS_CORE_LOG_ZO_CRC32_H_
#define TFLM_ZO_OPS_CORE_LOG_ZO_CRC32_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Continues the checksum `crc` of earlier bytes with these; 0 to begin with. */
uint32_t zo_crc32(uint32_t crc, const void* bytes, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_LOG_ZO_CRC32_H_ */
