/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/log/zo_snapshot_log.h"

#include <string.h>

#include "ops/core/log/zo_crc32.h"
#include "ops/core/log/zo_log_fields.h"
#include "ops/core/zo_little_endian.h"

enum {
  kSnapshotVersion = 8,
  kSnapshotHeaderBytes = 10,
  kSnapshotRecordBytes = 12,
  kTasks = 14,
  kSnapshotFingerprint = 16,
  kSnapshotSettings = 32,
  kFirstSegment = 124,
  kInterval = 128,
  kWeightBytes = 132,
  kSnapshotDataChecksum = 136,
  kWeightClip = 140,
  kRules = 144,
  kBits = 148,
  kRows = 152,
  kSnapshotMeasureEvery = 156,
  kTaskEntries = 160,
  kTaskBytes = 32,
};

enum {
  kOwner = 0,
  kNumber = 4,
  kSnapshotStep = 8,
  kLargestLoss = 12,
  kMeanSquares = 16,
  kMeanSquareBytes = 8,
};

uint32_t zo_snapshot_header_bytes(uint32_t tasks) { return kTaskEntries + kTaskBytes * tasks + 4u; }

uint32_t zo_snapshot_bytes(uint32_t tasks, uint32_t weight_bytes) {
  const uint64_t bytes = kMeanSquares + kMeanSquareBytes * (uint64_t)tasks + (uint64_t)weight_bytes + 4u;
  return bytes <= UINT32_MAX ? (uint32_t)bytes : 0u;
}

/* Whether places in the file fit in 32 bits up to the first record. */
static int slots_fit(uint32_t tasks, uint32_t weight_bytes) {
  const uint32_t slot = zo_snapshot_bytes(tasks, weight_bytes);
  return slot != 0u && slot <= (UINT32_MAX - zo_snapshot_header_bytes(tasks)) / 3u;
}

uint32_t zo_snapshot_slots(uint32_t measure_every) { return measure_every > 0u ? 3u : 2u; }

void zo_snapshot_write_header(const zo_snapshot_header* header, const zo_node_settings* settings,
                              const zo_snapshot_task* tasks, uint8_t* bytes) {
  const uint32_t size = zo_snapshot_header_bytes(settings->tasks);
  memset(bytes, 0, size);
  zo_log_write_magic(bytes);
  zo_write_u16(bytes + kSnapshotVersion, 4);
  zo_write_u16(bytes + kSnapshotHeaderBytes, size);
  zo_write_u16(bytes + kSnapshotRecordBytes, ZO_SNAPSHOT_RECORD_BYTES);
  zo_write_u16(bytes + kTasks, settings->tasks);
  memcpy(bytes + kSnapshotFingerprint, header->fingerprint, sizeof header->fingerprint);
  zo_log_write_settings(&settings->common, bytes + kSnapshotSettings);
  zo_write_u32(bytes + kFirstSegment, settings->first_segment);
  zo_write_u32(bytes + kInterval, header->interval);
  zo_write_u32(bytes + kWeightBytes, header->weight_bytes);
  zo_write_u32(bytes + kSnapshotDataChecksum, header->data_checksum);
  zo_write_u32(bytes + kWeightClip, settings->weight_clip);
  zo_write_u32(bytes + kRules, settings->rule | settings->exact_rule << 8);
  zo_write_u32(bytes + kBits, settings->exact_bits[0] | settings->exact_bits[1] << 8 | settings->exact_bits[2] << 16 |
                                  settings->weight_bits << 24);
  zo_write_u32(bytes + kRows, settings->rows_least | settings->rows_most << 16);
  zo_write_u32(bytes + kSnapshotMeasureEvery, header->measure_every);
  for (uint32_t t = 0; t < settings->tasks; ++t) {
    uint8_t* entry = bytes + kTaskEntries + kTaskBytes * t;
    zo_write_u32(entry, tasks[t].tensor);
    zo_write_u32(entry + 4, tasks[t].tensors << 16 | (tasks[t].kind & 0xFFFFu));
    zo_write_u32(entry + 8, tasks[t].queries);
    zo_write_u32(entry + 12, tasks[t].mu << 16 | 1u);
    zo_write_u32(entry + 16, tasks[t].rate);
    zo_write_u32(entry + 20, tasks[t].gain.mantissa);
    zo_write_u32(entry + 24, (uint32_t)tasks[t].gain.exponent);
  }
  zo_write_u32(bytes + size - 4u, zo_crc32(0, bytes, size - 4u));
}

/* A valid checksum does not prove valid values: somebody may have written one to nonsense. */
static zo_status check_header(const zo_snapshot_header* header, const zo_node_settings* settings,
                              const zo_snapshot_task* tasks) {
  if (header->interval < 1u) return ZO_ERROR_OPTIONS;
  zo_status status = zo_node_settings_check(settings);
  for (uint32_t t = 0; status == ZO_OK && t < settings->tasks; ++t) {
    const zo_snapshot_task* task = &tasks[t];
    status = zo_node_task_check(task->kind, task->queries, task->mu, task->rate, task->gain);
    if (task->tensors < 1u || (task->kind != ZO_TASK_WEIGHTS && task->tensors > 2u)) {
      return ZO_ERROR_OPTIONS;
    }
  }
  return status;
}

zo_status zo_snapshot_read_header(const uint8_t* bytes, uint32_t count, zo_snapshot_header* header,
                                  zo_node_settings* settings, zo_snapshot_task* tasks) {
  if (bytes == NULL || header == NULL || settings == NULL || tasks == NULL) {
    return ZO_ERROR_ARGUMENT;
  }
  if (count < kTaskEntries || !zo_log_has_magic(bytes) || zo_read_u16(bytes + kSnapshotVersion) != 4u) {
    return ZO_ERROR_OPTIONS;
  }
  const uint32_t number = zo_read_u16(bytes + kTasks);
  const uint32_t size = zo_snapshot_header_bytes(number);
  if (number < 1u || number > ZO_NODE_TASKS_MAX || zo_read_u16(bytes + kSnapshotHeaderBytes) != size ||
      zo_read_u16(bytes + kSnapshotRecordBytes) != ZO_SNAPSHOT_RECORD_BYTES || count < size ||
      zo_read_u32(bytes + size - 4u) != zo_crc32(0, bytes, size - 4u) ||
      !slots_fit(number, zo_read_u32(bytes + kWeightBytes))) {
    return ZO_ERROR_OPTIONS;
  }
  memcpy(header->fingerprint, bytes + kSnapshotFingerprint, sizeof header->fingerprint);
  header->interval = zo_read_u32(bytes + kInterval);
  header->weight_bytes = zo_read_u32(bytes + kWeightBytes);
  header->data_checksum = zo_read_u32(bytes + kSnapshotDataChecksum);
  header->measure_every = zo_read_u32(bytes + kSnapshotMeasureEvery);
  memset(settings, 0, sizeof *settings);
  if (zo_log_read_settings(bytes + kSnapshotSettings, &settings->common) != ZO_OK) return ZO_ERROR_OPTIONS;
  settings->first_segment = zo_read_u32(bytes + kFirstSegment);
  settings->weight_clip = zo_read_u32(bytes + kWeightClip);
  settings->rule = zo_read_u32(bytes + kRules) & 0xFFu;
  settings->exact_rule = zo_read_u32(bytes + kRules) >> 8;
  for (uint32_t stage = 0; stage < 3u; ++stage) {
    settings->exact_bits[stage] = bytes[kBits + stage];
  }
  settings->weight_bits = bytes[kBits + 3];
  settings->rows_least = zo_read_u16(bytes + kRows);
  settings->rows_most = zo_read_u16(bytes + kRows + 2);
  settings->tasks = number;
  for (uint32_t t = 0; t < number; ++t) {
    const uint8_t* entry = bytes + kTaskEntries + kTaskBytes * t;
    const uint32_t of_tensors = zo_read_u32(entry + 4);
    if (zo_read_u16(entry + 12) != 1u) return ZO_ERROR_OPTIONS;
    tasks[t].tensor = zo_read_u32(entry);
    tasks[t].tensors = of_tensors >> 16;
    tasks[t].kind = of_tensors & 0xFFFFu;
    tasks[t].queries = zo_read_u32(entry + 8);
    tasks[t].mu = zo_read_u16(entry + 14);
    tasks[t].rate = zo_read_u32(entry + 16);
    tasks[t].gain.mantissa = zo_read_u32(entry + 20);
    tasks[t].gain.exponent = (int32_t)zo_read_u32(entry + 24);
  }
  return check_header(header, settings, tasks);
}

void zo_snapshot_write_head(const zo_node_run* run, uint32_t header_checksum, uint32_t number, uint8_t* bytes) {
  zo_write_u32(bytes + kOwner, header_checksum);
  zo_write_u32(bytes + kNumber, number);
  zo_write_u32(bytes + kSnapshotStep, run->step);
  zo_write_u32(bytes + kLargestLoss, (uint32_t)run->largest_loss);
  for (uint32_t t = 0; t < run->settings.tasks; ++t) {
    uint8_t* entry = bytes + kMeanSquares + kMeanSquareBytes * t;
    zo_write_u32(entry, run->tasks[t].mean_square.mantissa);
    zo_write_u32(entry + 4, (uint32_t)run->tasks[t].mean_square.exponent);
  }
}

uint32_t zo_snapshot_number(const uint8_t* bytes, uint32_t header_checksum) {
  return zo_read_u32(bytes + kOwner) == header_checksum ? zo_read_u32(bytes + kNumber) : 0u;
}

static void read_mean_squares(const uint8_t* bytes, uint32_t tasks, zo_scale* mean_squares) {
  for (uint32_t t = 0; t < tasks; ++t) {
    const uint8_t* entry = bytes + kMeanSquares + kMeanSquareBytes * t;
    mean_squares[t].mantissa = zo_read_u32(entry);
    mean_squares[t].exponent = (int32_t)zo_read_u32(entry + 4);
  }
}

zo_status zo_snapshot_read(const uint8_t* bytes, uint32_t header_checksum, const zo_node_settings* settings,
                           const zo_snapshot_task* tasks, uint32_t weight_bytes, uint32_t* number, uint32_t* step,
                           int32_t* largest_loss, zo_scale* mean_squares) {
  if (bytes == NULL || settings == NULL || tasks == NULL || number == NULL || step == NULL || largest_loss == NULL ||
      mean_squares == NULL) {
    return ZO_ERROR_ARGUMENT;
  }
  const uint32_t size = zo_snapshot_bytes(settings->tasks, weight_bytes);
  if (size == 0u) return ZO_ERROR_OPTIONS;
  const uint32_t end = size - 4u;
  *number = zo_snapshot_number(bytes, header_checksum);
  if (*number == 0u || zo_read_u32(bytes + end) != zo_crc32(0, bytes, end)) {
    return ZO_ERROR_OPTIONS;
  }
  *step = zo_read_u32(bytes + kSnapshotStep);
  *largest_loss = (int32_t)zo_read_u32(bytes + kLargestLoss);
  read_mean_squares(bytes, settings->tasks, mean_squares);
  int valid = *step <= settings->common.steps && *largest_loss >= 0;
  for (uint32_t t = 0; t < settings->tasks; ++t) {
    valid = valid && zo_task_mean_square_is_valid(tasks[t].kind, mean_squares[t]);
  }
  return valid ? ZO_OK : ZO_ERROR_OPTIONS;
}

zo_status zo_snapshot_read_head(zo_node_run* run, const uint8_t* bytes) {
  if (ZO_WITH_CHECKS && (run == NULL || bytes == NULL)) return ZO_ERROR_ARGUMENT;
  zo_scale mean_squares[ZO_NODE_TASKS_MAX];
  read_mean_squares(bytes, run->settings.tasks, mean_squares);
  return zo_node_run_resume(run, zo_read_u32(bytes + kSnapshotStep), (int32_t)zo_read_u32(bytes + kLargestLoss),
                            mean_squares);
}

void zo_snapshot_write_record(uint32_t step, int32_t mean_loss, uint32_t header_checksum, uint8_t* bytes) {
  zo_write_u32(bytes, step);
  zo_write_u32(bytes + 4, (uint32_t)mean_loss);
  zo_write_u32(bytes + 8, zo_crc32(header_checksum, bytes, 8));
}

zo_status zo_snapshot_read_record(const uint8_t* bytes, uint32_t header_checksum, uint32_t* step, int32_t* mean_loss) {
  if (bytes == NULL || step == NULL || mean_loss == NULL) return ZO_ERROR_ARGUMENT;
  if (zo_read_u32(bytes + 8) != zo_crc32(header_checksum, bytes, 8)) return ZO_ERROR_OPTIONS;
  *step = zo_read_u32(bytes);
  *mean_loss = (int32_t)zo_read_u32(bytes + 4);
  return ZO_OK;
}
