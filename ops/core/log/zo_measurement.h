/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Measurements of a run: the loss of its weights on data that are always the same, so that the best
 * state can be kept. A run that measures does so every `every` steps, before its first step and
 * after its last one. Each log has a record of each measurement among the records of its steps
 * (docs/file-formats.md).
 *
 * The best measurement is the first of those with the smallest sum among those with at least as
 * many right outputs as the first one. If a network is confidently wrong to begin with, its loss
 * may fall far while it gets worse, because it only loses its confidence.
 */
#ifndef TFLM_ZO_OPS_CORE_LOG_ZO_MEASUREMENT_H_
#define TFLM_ZO_OPS_CORE_LOG_ZO_MEASUREMENT_H_

#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZO_MEASUREMENT_BYTES 28

/* Such a record behind the last one, with this number for the steps, is no measurement: it has the threshold of an
 * anomaly (zo_calibration.h) as its loss, the number of normal samples, the percentile in 0.01 as `correct`, and
 * as its data_checksum the checksum of the weights that it belongs to. */
#define ZO_THRESHOLD_STEP UINT32_MAX

typedef struct zo_measurement {
  uint32_t step; /* complete steps done */
  uint32_t samples;
  int64_t loss;
  uint32_t correct;
  uint32_t data_checksum;
} zo_measurement;

/* Whether a run of so many steps measures after `step` of them.
 *   every  steps between measurements, 0: never */
int zo_measurement_is_due(uint32_t every, uint32_t steps, uint32_t step);

/* Number of the measurement after `step` steps, counted from 0, if one is due. */
uint32_t zo_measurement_number(uint32_t every, uint32_t step);

/* Whether a measurement replaces the best before it. first_correct is the first measurement's. */
int zo_measurement_is_better(const zo_measurement* measurement, const zo_measurement* best, uint32_t first_correct);

/* Offset of the record of a step, counted from 0, in a log whose records begin at `begin` and take
 * record_bytes each; the same for the measurement after `step` complete steps, if one is due.
 *   unit  that records are padded to, see zo_store_units.h
 * A run may have more steps than a store, whose offsets are of 32 bits, has places. */
uint64_t zo_step_record_at(uint32_t begin, uint32_t record_bytes, uint32_t every, uint32_t unit, uint32_t step);
uint64_t zo_measurement_at(uint32_t begin, uint32_t record_bytes, uint32_t every, uint32_t unit, uint32_t step);

/* checksum: CRC-32 that this one continues; bytes: [ZO_MEASUREMENT_BYTES]. */
void zo_measurement_write(const zo_measurement* measurement, uint32_t checksum, uint8_t* bytes);

/* Errors: ZO_ERROR_OPTIONS if the checksum is wrong. */
zo_status zo_measurement_read(const uint8_t* bytes, uint32_t checksum, zo_measurement* measurement);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_LOG_ZO_MEASUREMENT_H_ */
