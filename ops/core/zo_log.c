/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "zo_log.h"

#include <string.h>

#include "zo_node_options.h"

enum {
  kVersion = 8,
  kHeaderBytes = 10,
  kRecordBytes = 12,
  kQueries = 14,
  kFingerprint = 16,
  kSettings = 32,
  kSettingsWords = 18,
  kHeaderChecksum = ZO_LOG_HEADER_BYTES - 4,
};

enum { kStep = 0, kMeanLoss = 4, kMeanSquare = 8, kCoefficients = 16 };

static const uint8_t magic[8] = {0x5A, 0x4F, 0x4C, 0x4F, 0x47, 0x0D, 0x0A, 0x1A};

/* Without a table: a record is a few dozen bytes, once per step. */
static uint32_t crc32(const uint8_t* bytes, uint32_t count) {
  uint32_t crc = UINT32_C(0xFFFFFFFF);
  for (uint32_t i = 0; i < count; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ (UINT32_C(0xEDB88320) & (0u - (crc & 1u)));
    }
  }
  return ~crc;
}

static void write_u16(uint8_t* bytes, uint32_t value) {
  bytes[0] = (uint8_t)value;
  bytes[1] = (uint8_t)(value >> 8);
}

static void write_u32(uint8_t* bytes, uint32_t value) {
  write_u16(bytes, value & 0xFFFFu);
  write_u16(bytes + 2, value >> 16);
}

uint32_t zo_log_record_bytes(uint32_t queries) { return kCoefficients + 4u * queries + 4u; }

void zo_log_write_header(const zo_control_settings* s, const uint8_t* fingerprint, uint8_t* bytes) {
  const uint32_t distribution = (uint32_t)s->distribution.kind << 24 |
                                (uint32_t)s->distribution.p_zero << 16 | s->distribution.mu;
  const uint32_t words[kSettingsWords] = {
      s->run_seed,     s->steps, s->samples,     s->batch, s->parts,         s->queries,
      s->estimator,    s->rule,  distribution,   s->rate,  s->final_rate,    s->schedule,
      s->warmup_steps, s->decay, s->decay_steps, s->clip,  s->gradient_norm, s->blocks};
  memset(bytes, 0, ZO_LOG_HEADER_BYTES);
  memcpy(bytes, magic, sizeof magic);
  write_u16(bytes + kVersion, 1);
  write_u16(bytes + kHeaderBytes, ZO_LOG_HEADER_BYTES);
  write_u16(bytes + kRecordBytes, zo_log_record_bytes(s->queries));
  write_u16(bytes + kQueries, s->queries);
  memcpy(bytes + kFingerprint, fingerprint, ZO_LOG_FINGERPRINT_BYTES);
  for (uint32_t i = 0; i < kSettingsWords; ++i) write_u32(bytes + kSettings + 4u * i, words[i]);
  write_u32(bytes + kHeaderChecksum, crc32(bytes, kHeaderChecksum));
}

/* Not memcmp: the core calls nothing but memcpy and memset. */
static int has_magic(const uint8_t* bytes) {
  for (uint32_t i = 0; i < sizeof magic; ++i) {
    if (bytes[i] != magic[i]) return 0;
  }
  return 1;
}

zo_status zo_log_read_header(const uint8_t* bytes, zo_control_settings* settings,
                             uint8_t* fingerprint) {
  if (!has_magic(bytes) || zo_read_u16(bytes + kVersion) != 1u ||
      zo_read_u16(bytes + kHeaderBytes) != ZO_LOG_HEADER_BYTES ||
      zo_read_u32(bytes + kHeaderChecksum) != crc32(bytes, kHeaderChecksum)) {
    return ZO_ERROR_OPTIONS;
  }
  uint32_t words[kSettingsWords];
  for (uint32_t i = 0; i < kSettingsWords; ++i) words[i] = zo_read_u32(bytes + kSettings + 4u * i);
  memset(settings, 0, sizeof *settings);
  settings->run_seed = words[0];
  settings->steps = words[1];
  settings->samples = words[2];
  settings->batch = words[3];
  settings->parts = words[4];
  settings->queries = words[5];
  settings->estimator = words[6];
  settings->rule = words[7];
  settings->distribution.kind = (uint8_t)(words[8] >> 24);
  settings->distribution.p_zero = (uint8_t)(words[8] >> 16);
  settings->distribution.mu = (uint16_t)words[8];
  settings->rate = words[9];
  settings->final_rate = words[10];
  settings->schedule = words[11];
  settings->warmup_steps = words[12];
  settings->decay = words[13];
  settings->decay_steps = words[14];
  settings->clip = words[15];
  settings->gradient_norm = words[16];
  settings->blocks = words[17];
  if (settings->queries < 1u || settings->queries > ZO_MAX_QUERIES ||
      zo_read_u16(bytes + kQueries) != settings->queries ||
      zo_read_u16(bytes + kRecordBytes) != zo_log_record_bytes(settings->queries)) {
    return ZO_ERROR_OPTIONS;
  }
  memcpy(fingerprint, bytes + kFingerprint, ZO_LOG_FINGERPRINT_BYTES);
  return ZO_OK;
}

void zo_log_write_record(const zo_control* control, int32_t mean_loss, uint8_t* bytes) {
  const uint32_t queries = control->settings.queries;
  const uint64_t mean_square = (uint64_t)control->mean_square;
  write_u32(bytes + kStep, control->step - 1u);
  write_u32(bytes + kMeanLoss, (uint32_t)mean_loss);
  write_u32(bytes + kMeanSquare, (uint32_t)mean_square);
  write_u32(bytes + kMeanSquare + 4, (uint32_t)(mean_square >> 32));
  for (uint32_t q = 0; q < queries; ++q) {
    write_u32(bytes + kCoefficients + 4u * q, (uint32_t)control->queries[q].coefficient);
  }
  const uint32_t end = kCoefficients + 4u * queries;
  write_u32(bytes + end, crc32(bytes, end));
}

zo_status zo_log_read_record(const uint8_t* bytes, uint32_t queries, zo_log_record* record) {
  if (queries < 1u || queries > ZO_MAX_QUERIES) return ZO_ERROR_QUERIES;
  const uint32_t end = kCoefficients + 4u * queries;
  if (zo_read_u32(bytes + end) != crc32(bytes, end)) return ZO_ERROR_OPTIONS;
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
