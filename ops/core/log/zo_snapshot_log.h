/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The log of a run whose updates depend on data (zo_node_run.h): seeds alone do not repeat it, so
 * it carries snapshots of the weights. A resumed run starts from the last complete snapshot and,
 * with the same data, ends with the same bits, log included.
 *
 * docs/file-formats.md specifies its bytes: a header, zo_snapshot_header_bytes(tasks), two slots
 * for snapshots, three if the run measures, zo_snapshot_bytes(tasks, weight bytes) each, then one
 * record for each complete step and each measurement.
 *
 * Snapshot n goes into slot (n - 1) % 2: the one before stays whole until this one is. Of two that
 * are whole the one after more steps counts, since one that is taken between two that are due has
 * the number of the next. Slot 2 is for the best measured state, under the number of its
 * measurement plus 1. It is written before the snapshot of the same step or a later one, so a run
 * that finds it damaged is resumed from before that measurement and writes it again: one slot is
 * enough.
 *
 * The checksum of a record, a measurement's too, continues from the header's: remains of an older
 * run in the same store do not match. To start a run in a store that has been used before,
 * overwrite the first 8 bytes of each slot with zeros, then write the header; nothing else need be
 * erased.
 */
#ifndef TFLM_ZO_OPS_CORE_LOG_ZO_SNAPSHOT_LOG_H_
#define TFLM_ZO_OPS_CORE_LOG_ZO_SNAPSHOT_LOG_H_

#include "ops/core/log/zo_measurement.h"
#include "ops/core/run/zo_node_run.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZO_SNAPSHOT_RECORD_BYTES 12
#define ZO_SNAPSHOT_FINGERPRINT_BYTES 16
#define ZO_SNAPSHOT_BEST_SLOT 2

/* Fields of the header that are not in zo_node_settings. */
typedef struct zo_snapshot_header {
  uint8_t fingerprint[ZO_SNAPSHOT_FINGERPRINT_BYTES];
  uint32_t interval;
  uint32_t weight_bytes;
  uint32_t data_checksum;
  uint32_t measure_every;
} zo_snapshot_header;

/* A task's entry in the header. */
typedef struct zo_snapshot_task {
  uint32_t tensor;
  uint32_t tensors; /* but for weight tasks 1, or 2: a layer's filter and its biases */
  uint32_t kind;
  uint32_t queries;
  uint32_t mu;
  uint32_t rate;
  zo_scale gain;
} zo_snapshot_task;

uint32_t zo_snapshot_header_bytes(uint32_t tasks);
/* 0 if it is more than 32 bits hold, which no header that is read asks for. */
uint32_t zo_snapshot_bytes(uint32_t tasks, uint32_t weight_bytes);

/* Slots that a log has. */
uint32_t zo_snapshot_slots(uint32_t measure_every);

/* bytes: [zo_snapshot_header_bytes(settings->tasks)]. */
void zo_snapshot_write_header(const zo_snapshot_header* header, const zo_node_settings* settings,
                              const zo_snapshot_task* tasks, uint8_t* bytes);

/* Reads `count` bytes; `tasks` holds ZO_NODE_TASKS_MAX.
 * Errors: ZO_ERROR_OPTIONS: no header of this version, damaged, not whole, or of snapshots so large
 * that the offset of the records exceeds 32 bits; those of zo_node_settings_check and
 * zo_node_task_check if no run has such settings. */
zo_status zo_snapshot_read_header(const uint8_t* bytes, uint32_t count, zo_snapshot_header* header,
                                  zo_node_settings* settings, zo_snapshot_task* tasks);

/* The beginning of a slot, 16 + 8 tasks bytes; weights and the checksum are the writer's, piece by
 * piece, with zo_crc32.
 *   header_checksum  the header's last four bytes */
void zo_snapshot_write_head(const zo_node_run* run, uint32_t header_checksum, uint32_t number, uint8_t* bytes);

/* The number of the snapshot whose first 8 bytes these are; 0: the slot is empty. */
uint32_t zo_snapshot_number(const uint8_t* bytes, uint32_t header_checksum);

/* Checks a whole slot and reads its beginning.
 *   settings, tasks  from zo_snapshot_read_header
 *   mean_squares     [settings->tasks]
 * Errors: ZO_ERROR_OPTIONS: empty, damaged, or a state that zo_node_run_resume refuses. */
zo_status zo_snapshot_read(const uint8_t* bytes, uint32_t header_checksum, const zo_node_settings* settings,
                           const zo_snapshot_task* tasks, uint32_t weight_bytes, uint32_t* number, uint32_t* step,
                           int32_t* largest_loss, zo_scale* mean_squares);

/* Reads the output of zo_snapshot_write_head back into a run with the same tasks, which resumes
 * from there; for readers that check a slot piece by piece. Errors: ZO_ERROR_ARGUMENT: more steps
 * than the run has, or no state of such a run; the run is untouched. */
zo_status zo_snapshot_read_head(zo_node_run* run, const uint8_t* bytes);

/* bytes: [ZO_SNAPSHOT_RECORD_BYTES]. */
void zo_snapshot_write_record(uint32_t step, int32_t mean_loss, uint32_t header_checksum, uint8_t* bytes);

/* Errors: ZO_ERROR_OPTIONS if the checksum is wrong. */
zo_status zo_snapshot_read_record(const uint8_t* bytes, uint32_t header_checksum, uint32_t* step, int32_t* mean_loss);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_LOG_ZO_SNAPSHOT_LOG_H_ */
