/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/log/zo_log.h"

#include <string.h>

#include "ops/core/log/zo_crc32.h"
#include "ops/core/log/zo_log_fields.h"
#include "ops/core/weights/zo_update.h"
#include "ops/core/zo_little_endian.h"

enum {
  kVersion = 8,
  kHeaderBytes = 10,
  kRecordBytes = 12,
  kQueries = 14,
  kFingerprint = ZO_LOG_FINGERPRINT_AT,
  kSettings = 32,
  kMeasureEvery = 124,
  kHeaderChecksum = ZO_LOG_HEADER_BYTES - 4,
};

enum { kStep = 0, kMeanLoss = 4, kMeanSquare = 8, kCoefficients = 16 };

uint32_t zo_log_record_bytes(uint32_t queries) { return kCoefficients + 4u * queries + 4u; }

void zo_log_write_header(const zo_log_header* header, const zo_control_settings* s, uint8_t* bytes) {
  zo_log_write_magic(bytes);
  zo_write_u16(bytes + kVersion, 3);
  zo_write_u16(bytes + kHeaderBytes, ZO_LOG_HEADER_BYTES);
  zo_write_u16(bytes + kRecordBytes, zo_log_record_bytes(s->queries));
  zo_write_u16(bytes + kQueries, s->queries);
  memcpy(bytes + kFingerprint, header->fingerprint, sizeof header->fingerprint);
  zo_log_write_settings(s, bytes + kSettings);
  zo_log_complete_header(bytes, header->measure_every);
}

void zo_log_complete_header(uint8_t* bytes, uint32_t measure_every) {
  zo_write_u32(bytes + kMeasureEvery, measure_every);
  zo_write_u32(bytes + kHeaderChecksum, zo_crc32(0, bytes, kHeaderChecksum));
}

zo_status zo_log_read_header(const uint8_t* bytes, zo_log_header* header, zo_control_settings* settings) {
  if (bytes == NULL || header == NULL || settings == NULL) return ZO_ERROR_ARGUMENT;
  if (!zo_log_has_magic(bytes) || zo_read_u16(bytes + kVersion) != 3u ||
      zo_read_u16(bytes + kHeaderBytes) != ZO_LOG_HEADER_BYTES ||
      zo_read_u32(bytes + kHeaderChecksum) != zo_crc32(0, bytes, kHeaderChecksum)) {
    return ZO_ERROR_OPTIONS;
  }
  zo_status status = zo_log_read_settings(bytes + kSettings, settings);
  if (status == ZO_OK) status = zo_control_settings_check(settings);
  if (status != ZO_OK) return status;
  if (zo_read_u16(bytes + kQueries) != settings->queries ||
      zo_read_u16(bytes + kRecordBytes) != zo_log_record_bytes(settings->queries)) {
    return ZO_ERROR_OPTIONS;
  }
  memcpy(header->fingerprint, bytes + kFingerprint, sizeof header->fingerprint);
  header->measure_every = zo_read_u32(bytes + kMeasureEvery);
  return ZO_OK;
}

uint32_t zo_log_checksum(const uint8_t* bytes, uint32_t count) { return zo_read_u32(bytes + count - 4u); }

void zo_log_write_record(const zo_control* control, int32_t mean_loss, uint32_t checksum, uint8_t* bytes) {
  const uint32_t queries = zo_queries_of(control->settings);
  zo_write_u32(bytes + kStep, control->step - 1u);
  zo_write_u32(bytes + kMeanLoss, (uint32_t)mean_loss);
  zo_write_u64(bytes + kMeanSquare, (uint64_t)control->mean_square);
  for (uint32_t q = 0; q < queries; ++q) {
    zo_write_u32(bytes + kCoefficients + 4u * q, (uint32_t)control->queries[q].coefficient);
  }
  const uint32_t end = kCoefficients + 4u * queries;
  zo_write_u32(bytes + end, zo_crc32(checksum, bytes, end));
}

zo_status zo_log_read_record(const uint8_t* bytes, const zo_control_settings* settings, uint32_t checksum,
                             zo_log_record* record) {
  if (ZO_WITH_CHECKS && (bytes == NULL || settings == NULL || record == NULL)) {
    return ZO_ERROR_ARGUMENT;
  }
  const uint32_t queries = zo_queries_of(settings);
  const uint32_t end = kCoefficients + 4u * queries;
  if (zo_read_u32(bytes + end) != zo_crc32(checksum, bytes, end)) return ZO_ERROR_OPTIONS;
  memset(record, 0, sizeof *record);
  record->step = zo_read_u32(bytes + kStep);
  record->mean_loss = (int32_t)zo_read_u32(bytes + kMeanLoss);
  record->mean_square = (int64_t)zo_read_u64(bytes + kMeanSquare);
  for (uint32_t q = 0; q < queries; ++q) {
    record->coefficients[q] = (int32_t)zo_read_u32(bytes + kCoefficients + 4u * q);
  }
  zo_query items[ZO_MAX_QUERIES];
  const uint32_t count = zo_control_items(settings, record->step, record->coefficients, items);
  const zo_distribution distribution = zo_control_distribution(settings, record->step);
  const int valid =
      record->step < settings->steps && record->mean_square >= 0 && zo_step_check(distribution, items, count) == ZO_OK;
  return valid ? ZO_OK : ZO_ERROR_OPTIONS;
}
