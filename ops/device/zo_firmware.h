/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The trainers' tables of a model, and their functions for the application. `tflm-zo firmware`
 * writes the tables, constant (in flash), so that nobody looks up an index by hand.
 */
#ifndef TFLM_ZO_OPS_DEVICE_ZO_FIRMWARE_H_
#define TFLM_ZO_OPS_DEVICE_ZO_FIRMWARE_H_

#include <stdint.h>

#include "ops/core/graph/zo_op.h"
#include "ops/core/log/zo_log.h"
#include "ops/core/loss/zo_loss.h"
#include "ops/device/zo_application.h"

namespace tflm_zo {

// --- Provided by the application -----------------------------------------------------------------

using SampleSource = zo_sample_source;
using LogStore = zo_log_store;
using WeightSink = zo_weight_sink;
using Yardstick = zo_yardstick;
using WeightSnapshot = zo_weight_snapshot;

// --- Provided by the generator -------------------------------------------------------------------

// An original output, or an input of a segment that reads an original one.
struct Port {
  uint8_t segment;
  uint8_t index;   // of the segment's inputs or outputs
  uint8_t number;  // of the original input or output
  uint32_t bytes;  // of one sample
};

constexpr int8_t kNone = -1;
// Type of the output that the loss belongs to.
#ifdef ZO_OUTPUT_TYPE
using OutputType = ZO_OUTPUT_TYPE;
#else
using OutputType = int8_t;
#endif
constexpr uint32_t kMaxInputs = ZO_INPUTS;  // of the model
// Inputs of segments that read them, the first reader of each first: several segments may read one.
constexpr uint32_t kReaders = ZO_INPUT_READERS;

// An input of a segment that is a boundary which entered an earlier one.
struct Skip {
  uint8_t input;
  uint8_t segment;  // that it entered
};

// A segment: one model, one interpreter. Numbers of inputs and outputs; kNone: it has none.
struct Segment {
  const unsigned char* model;  // aligned to 16 bytes
  int8_t boundary_input;
  int8_t label;
  int8_t command;
  int8_t boundary_output;
  int8_t loss;
  int8_t status;
  uint8_t first_tensor;     // of its trainable tensors
  uint8_t tensors;          // how many it has
  uint32_t boundary_bytes;  // of its input, of a sample; 0 for the first segment
  int32_t kept_at;          // where the boundaries keep its input; -1: nowhere
  int32_t passing_at;       // where it is in a run that keeps nothing; -1: no later segment reads it
  uint8_t first_skip;
  uint8_t skips;       // how many it has
  uint8_t recomputed;  // its input is not kept, but computed again by Network::Rerun
  uint8_t of_parts;    // its input is kept for each part of a minibatch, one behind the other
  // Bytes of the arena's beginning that activations of this segment and earlier ones may take, where
  // a Rerun relies on it, else 0.
  uint32_t activations;
};

// Properties of a trainable tensor that the weight ops do not publish. The tables have a row for
// each tensor if there are any.
#define ZO_TRAINABLE_ROWS (ZO_WITH_MULTIPLIERS || ZO_WITH_BLOCKS || ZO_WITH_BIASES)
struct Trainable {
#if ZO_WITH_MULTIPLIERS
  const int32_t* multiplier;  // [channels] of the update, see zo_tensor; null: 1
  uint32_t channels;
  uint32_t inner;
#endif
#if ZO_WITH_BLOCKS
  uint16_t block;
#endif
#if ZO_WITH_BIASES
  uint8_t type;  // zo_tensor_type
#endif
};

// A ZO model.
struct ModelInfo {
  const Segment* segments;
  const Skip* skips;
  const Port* inputs;  // [kReaders]
#if ZO_TRAINABLE_ROWS
  const Trainable* trainable;
#endif
  const uint8_t* fingerprint;  // [ZO_LOG_FINGERPRINT_BYTES] of the file the model came from
  uint32_t segment_count;
  uint32_t trainable_count;
  uint32_t batch;
  uint32_t label_bytes;  // of a sample
  zo_model_loss loss;
  uint32_t classes;      // of a softmax, else outputs
  Port output;           // of the loss; of the last segment, or its input
  int32_t limit;         // of weights between steps: 127 - headroom
  uint32_t least_arena;  // bytes that no build of TFLM gets by with
  // Of the model's trainable tensors that the run does not train, which are constants.
  uint32_t frozen_checksum;
  // Bytes of boundaries in the arena, which end before TFLM's own memory; 0: boundaries lie elsewhere,
  // and a program may run the network during a step.
  uint32_t shared_arena;
  // Bytes of them that an invoke may overwrite: the activations of all segments. Scratch buffers that
  // kernels have in addition come before the boundaries.
  uint32_t shared_activations;
};

extern const ModelInfo kInfo;  // the only one

// Of a tensor: its zo_tensor_type, and the block that it belongs to.
inline uint32_t TypeOf([[maybe_unused]] const ModelInfo& info, [[maybe_unused]] uint32_t tensor) {
#if ZO_WITH_BIASES
  return info.trainable[tensor].type;
#else
  return ZO_TENSOR_INT8;
#endif
}

inline uint32_t BlockOf([[maybe_unused]] const ModelInfo& info, [[maybe_unused]] uint32_t tensor) {
#if ZO_WITH_BLOCKS
  return info.trainable[tensor].block;
#else
  return 0;
#endif
}

using Evaluation = zo_evaluation;

}  // namespace tflm_zo

#endif  // TFLM_ZO_OPS_DEVICE_ZO_FIRMWARE_H_
