/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * What a trainer asks of the application, in C.
 */
#ifndef TFLM_ZO_OPS_DEVICE_ZO_APPLICATION_H_
#define TFLM_ZO_OPS_DEVICE_ZO_APPLICATION_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where samples come from: flash, an SD card, a ring of recordings. A run visits each sample again
 * and again, so each must be there under its number for as long as it takes.
 *
 *   sample  0 to samples - 1
 *   inputs  int8, one pointer per input of the model; null: this one is not wanted
 *   label   like zo_label of one sample: int32 class, -1: unlabelled (cross-entropy), int32 of each
 *           output (binary cross-entropy), int8 of each output (mean squared error); null: not
 *           wanted
 *
 * Returns false where it cannot be had: the step is given up, and can be tried again. */
typedef struct zo_sample_source {
  bool (*read)(void* context, uint32_t sample, int8_t* const* inputs, void* label);
  void* context;
} zo_sample_source;

/* Where the log goes, a file as it were: flash (zo_flash_store.h), a file of a file system, an
 * EEPROM, a UART with somebody at its other end. Weight perturbation writes a header at 0 and
 * appends; layer-wise runs write snapshots in two places by turns.
 *
 *   write  `count` bytes at an offset, over others, too: whole units, offset and count are
 *          multiples of `unit`. True once they are safe from a power failure, or, in a store that
 *          has a `sync`, once they are taken
 *   read   any number of bytes at any offset, those that were written, synced or not; past them it
 *          fails, or gives any bytes
 *   sync   true once all that was written is safe; null: a write that returns is
 *   unit   bytes that are programmed at once: 1 (or 0), 2, 4, 8, 16 or 32. A power failure may lose
 *          whatever was written and is not safe, whole units of it, in any order, and nothing else
 *
 * All return false where they fail. */
typedef struct zo_log_store {
  bool (*write)(void* context, uint32_t offset, const uint8_t* bytes, uint32_t count);
  bool (*read)(void* context, uint32_t offset, uint8_t* bytes, uint32_t count);
  void* context;
  bool (*sync)(void* context);
  uint32_t unit;
} zo_log_store;

/* Takes exported weights, and biases as bytes, in pieces of one tensor, by its number in the model,
 * after the other. What it has
 * taken, piece behind piece from offset 0 of a log store on, is what imported weights are read
 * from. */
typedef struct zo_weight_sink {
  bool (*write)(void* context, uint32_t tensor, const int8_t* weights, uint32_t count);
  void* context;
} zo_weight_sink;

/* Samples that were evaluated. */
typedef struct zo_evaluation {
  uint32_t samples; /* labelled */
  uint32_t correct; /* largest output is the label; softmax losses */
  int64_t loss;     /* sum, unit 2^-16 */
} zo_evaluation;

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_DEVICE_ZO_APPLICATION_H_ */
