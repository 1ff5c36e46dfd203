/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The seed log (.zolog): a complete, append-only checkpoint of a weight-perturbation run. Base
 * model + log = trained weights, since every direction comes from a seed.
 *
 * docs/file-formats.md specifies its bytes: a header with all settings, then one record for each
 * complete step, zo_log_record_bytes(queries), and among them one for each measurement.
 *
 * The checksum of a record, a measurement's too, continues from the one right before it, the first
 * one's from the header's: a record only follows the records that it was written after, so remains
 * of an older run in the same store never continue a newer one.
 *
 * The seed of query q of step t is zo_query_seed(run_seed, t, q). A step is in the log when its
 * record is complete: bytes behind the last complete record are an interrupted write and are cut
 * off.
 */
#ifndef TFLM_ZO_OPS_CORE_LOG_ZO_LOG_H_
#define TFLM_ZO_OPS_CORE_LOG_ZO_LOG_H_

#include "ops/core/log/zo_measurement.h"
#include "ops/core/run/zo_control.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZO_LOG_HEADER_BYTES 132
#define ZO_LOG_FINGERPRINT_BYTES 16
#define ZO_LOG_FINGERPRINT_AT 16

/* Fields of the header that are not in zo_control_settings. */
typedef struct zo_log_header {
  uint8_t fingerprint[ZO_LOG_FINGERPRINT_BYTES];
  uint32_t measure_every;
} zo_log_header;

typedef struct zo_log_record {
  uint32_t step;
  int32_t mean_loss;
  int64_t mean_square;
  int32_t coefficients[ZO_MAX_QUERIES];
} zo_log_record;

uint32_t zo_log_record_bytes(uint32_t queries);

/* bytes: [ZO_LOG_HEADER_BYTES]. */
void zo_log_write_header(const zo_log_header* header, const zo_control_settings* settings, uint8_t* bytes);

/* Of a header that has all but these: writes how often the run measures, and the checksum. */
void zo_log_complete_header(uint8_t* bytes, uint32_t measure_every);

/* Errors: ZO_ERROR_OPTIONS if it is no header of this version or the checksum is wrong; those of
 * zo_control_settings_check if no run has such settings. */
zo_status zo_log_read_header(const uint8_t* bytes, zo_log_header* header, zo_control_settings* settings);

/* The checksum at the end of a header, record or measurement of so many bytes, from which the next
 * one continues. */
uint32_t zo_log_checksum(const uint8_t* bytes, uint32_t count);

/* The record of the step that control has just finished (report.step_done).
 *   checksum  right before it
 *   bytes     [zo_log_record_bytes(settings.queries)] */
void zo_log_write_record(const zo_control* control, int32_t mean_loss, uint32_t checksum, uint8_t* bytes);

/* Reads a record of a run with settings that zo_control_settings_check accepts.
 *   checksum  right before it
 * Errors: ZO_ERROR_OPTIONS if its checksum is wrong, or it has coefficients or a mean square
 * that no step has. */
zo_status zo_log_read_record(const uint8_t* bytes, const zo_control_settings* settings, uint32_t checksum,
                             zo_log_record* record);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_LOG_ZO_LOG_H_ */
