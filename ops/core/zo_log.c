/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "zo_log.h"

#include <string.h>

#include "zo_crc32.h"
#include "zo_little_endian.h"
#include "zo_log_fields.h"

enum {
  kVersion = 8,
  kHeaderBytes = 10,
  kRecordBytes = 12,
  kQueries = 14,
  kFingerprint = 16,
  kSettings = 32,
  kHeaderChecksum = ZO_LOG_HEADER_BYTES - 4,
};

enum { kStep = 0, kMeanLoss = 4, kMeanSquare = 8, kCoefficients = 16 };

uint32_t zo_log_record_bytes(uint32_t queries) { return kCoefficients + 4u * queries + 4u; }

void zo_log_write_header(const zo_control_settings* s, const uint8_t* fingerprint, uint8_t* bytes) {
  memset(bytes, 0, ZO_LOG_HEADER_BYTES);
  zo_log_write_magic(bytes);
  zo_write_u16(bytes + kVersion, 1);
  zo_write_u16(bytes + kHeaderBytes, ZO_LOG_HEADER_BYTES);
  zo_write_u16(bytes + kRecordBytes, zo_log_record_bytes(s->queries));
  zo_write_u16(bytes + kQueries, s->queries);
  memcpy(bytes + kFingerprint, fingerprint, ZO_LOG_FINGERPRINT_BYTES);
  zo_log_write_settings(s, bytes + kSettings);
  zo_write_u32(bytes + kHeaderChecksum, zo_crc32(0, bytes, kHeaderChecksum));
}

zo_status zo_log_read_header(const uint8_t* bytes, zo_control_settings* settings,
                             uint8_t* fingerprint) {
  if (!zo_log_has_magic(bytes) || zo_read_u16(bytes + kVersion) != 1u ||
      zo_read_u16(bytes + kHeaderBytes) != ZO_LOG_HEADER_BYTES ||
      zo_read_u32(bytes + kHeaderChecksum) != zo_crc32(0, bytes, kHeaderChecksum)) {
    return ZO_ERROR_OPTIONS;
  }
  zo_log_read_settings(bytes + kSettings, settings);
  if (settings->queries < 1u || settings->queries > ZO_MAX_QUERIES ||
      zo_read_u16(bytes + kQueries) != settings->queries ||
      zo_read_u16(bytes + kRecordBytes) != zo_log_record_bytes(settings->queries)) {
    return ZO_ERROR_OPTIONS;
  }
  memcpy(fingerprint, bytes + kFingerprint, ZO_LOG_FINGERPRINT_BYTES);
  return ZO_OK;
}

void zo_log_write_record(const zo_control* control, int32_t mean_loss, uint8_t* bytes) {
  const uint32_t queries = control->settings->queries;
  const uint64_t mean_square = (uint64_t)control->mean_square;
  zo_write_u32(bytes + kStep, control->step - 1u);
  zo_write_u32(bytes + kMeanLoss, (uint32_t)mean_loss);
  zo_write_u32(bytes + kMeanSquare, (uint32_t)mean_square);
  zo_write_u32(bytes + kMeanSquare + 4, (uint32_t)(mean_square >> 32));
  for (uint32_t q = 0; q < queries; ++q) {
    zo_write_u32(bytes + kCoefficients + 4u * q, (uint32_t)control->queries[q].coefficient);
  }
  const uint32_t end = kCoefficients + 4u * queries;
  zo_write_u32(bytes + end, zo_crc32(0, bytes, end));
}

zo_status zo_log_read_record(const uint8_t* bytes, uint32_t queries, zo_log_record* record) {
  if (queries < 1u || queries > ZO_MAX_QUERIES) return ZO_ERROR_QUERIES;
  const uint32_t end = kCoefficients + 4u * queries;
  if (zo_read_u32(bytes + end) != zo_crc32(0, bytes, end)) return ZO_ERROR_OPTIONS;
  memset(record, 0, sizeof *record);
  record->step = zo_read_u32(bytes + kStep);
  record->mean_loss = (int32_t)zo_read_u32(bytes + kMeanLoss);
  record->mean_square = (int64_t)((uint64_t)zo_read_u32(bytes + kMeanSquare) |
                                  (uint64_t)zo_read_u32(bytes + kMeanSquare + 4) << 32);
  for (uint32_t q = 0; q < queries; ++q) {
    record->coefficients[q] = (int32_t)zo_read_u32(bytes + kCoefficients + 4u * q);
  }
  return ZO_OK;
}
