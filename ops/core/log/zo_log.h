/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The seed log (.zolog): a complete, append-only checkpoint of a weight-perturbation run. Base
 * model + log = trained weights, since every direction comes from a seed.
 *
 * All fields little-endian. Header, ZO_LOG_HEADER_BYTES:
 *
 *   0    8   magic 5A 4F 4C 4F 47 0D 0A 1A ("ZOLOG", and bytes that text transfers change)
 *   8    u16 version, 3; its upper byte is another one in a padded log, see zo_store_units.h
 *   10   u16 bytes of the header
 *   12   u16 bytes of a record
 *   14   u16 queries per step
 *   16   16  fingerprint of the base model: the first 16 bytes of its file's SHA-256
 *   32   92  u32 each: run_seed, steps, samples, batch, parts, queries, estimator, rule,
 *            distribution (kind << 24 | p_zero << 16 | mu), rate, final_rate, schedule,
 *            warmup_steps, decay, decay_steps, clip, gradient_norm, blocks, stage_steps [2],
 *            stage_p_zero ([0] | [1] << 8), chain << 16 | momentum, sharpness
 *            (zo_control_settings)
 *   124  u32 measure_every, see zo_measurement.h: steps between measurements; 0: never
 *   128  u32 CRC-32 (IEEE 802.3) of bytes 0..127
 *
 * then one record for each complete step, zo_log_record_bytes(queries) = 20 + 4 queries, and among
 * them one for each measurement, zo_measurement.h:
 *
 *   0    u32 step, counted from 0
 *   4    i32 mean loss of the step, unit 2^-16
 *   8    i64 mean_square after the step, for the control unit to resume with
 *   16   i32 coefficients [queries]
 *   end  u32 checksum
 *
 * The checksum of a record, a measurement's too, is the CRC-32 of it continued from the checksum
 * right before it, the first one's from the header's: a record only follows the records that it was
 * written after, so remains of an older run in the same store never continue a newer one.
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
