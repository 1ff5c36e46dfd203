/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/log/zo_measurement.h"

#include "ops/core/log/zo_crc32.h"
#include "ops/core/log/zo_store_units.h"
#include "ops/core/zo_features.h"
#include "ops/core/zo_little_endian.h"

enum { kMeasuredStep = 0, kSamples = 4, kMeasuredLoss = 8, kCorrect = 16, kMeasuredChecksum = 20, kChecksum = 24 };

int zo_measurement_is_due(uint32_t every, uint32_t steps, uint32_t step) {
  return every > 0u && (step % every == 0u || step == steps);
}

uint32_t zo_measurement_number(uint32_t every, uint32_t step) { return step / every + (step % every > 0u ? 1u : 0u); }

int zo_measurement_is_better(const zo_measurement* measurement, const zo_measurement* best, uint32_t first_correct) {
  return measurement->correct >= first_correct && measurement->loss < best->loss;
}

/* Where so many steps and measurements end. */
static uint64_t records_end(uint32_t begin, uint32_t record_bytes, uint32_t unit, uint32_t steps,
                            uint32_t measurements) {
  return begin + (uint64_t)steps * zo_padded(record_bytes, unit) +
         (uint64_t)measurements * zo_padded(ZO_MEASUREMENT_BYTES, unit);
}

uint64_t zo_step_record_at(uint32_t begin, uint32_t record_bytes, uint32_t every, uint32_t unit, uint32_t step) {
  const uint32_t before = every > 0u ? step / every + 1u : 0u;
  return records_end(begin, record_bytes, unit, step, before);
}

uint64_t zo_measurement_at(uint32_t begin, uint32_t record_bytes, uint32_t every, uint32_t unit, uint32_t step) {
  return records_end(begin, record_bytes, unit, step, zo_measurement_number(every, step));
}

void zo_measurement_write(const zo_measurement* measurement, uint32_t checksum, uint8_t* bytes) {
  zo_write_u32(bytes + kMeasuredStep, measurement->step);
  zo_write_u32(bytes + kSamples, measurement->samples);
  zo_write_u64(bytes + kMeasuredLoss, (uint64_t)measurement->loss);
  zo_write_u32(bytes + kCorrect, measurement->correct);
  zo_write_u32(bytes + kMeasuredChecksum, measurement->data_checksum);
  zo_write_u32(bytes + kChecksum, zo_crc32(checksum, bytes, kChecksum));
}

zo_status zo_measurement_read(const uint8_t* bytes, uint32_t checksum, zo_measurement* measurement) {
  if (ZO_WITH_CHECKS && (bytes == NULL || measurement == NULL)) return ZO_ERROR_ARGUMENT;
  if (zo_read_u32(bytes + kChecksum) != zo_crc32(checksum, bytes, kChecksum)) {
    return ZO_ERROR_OPTIONS;
  }
  measurement->step = zo_read_u32(bytes + kMeasuredStep);
  measurement->samples = zo_read_u32(bytes + kSamples);
  measurement->loss = (int64_t)zo_read_u64(bytes + kMeasuredLoss);
  measurement->correct = zo_read_u32(bytes + kCorrect);
  measurement->data_checksum = zo_read_u32(bytes + kMeasuredChecksum);
  return ZO_OK;
}
