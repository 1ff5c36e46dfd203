/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A ZO model under TensorFlow Lite Micro: one interpreter per segment, all on one arena. TFLM lets
 * interpreters of a MicroAllocator share the memory of their activations, so the arena takes the
 * variables of all segments and the activations of the largest; inputs of segments, which have to
 * outlive an invoke, are copied to memory of the caller.
 */
#ifndef TFLM_ZO_OPS_DEVICE_ZO_NETWORK_H_
#define TFLM_ZO_OPS_DEVICE_ZO_NETWORK_H_

#include <stddef.h>

#include "ops/core/math/zo_drift.h"
#include "ops/core/run/zo_control.h"
#include "ops/device/zo_firmware.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_op_resolver.h"

namespace tflm_zo {

// Memory of a network besides the arena, static in firmware. Nothing in it is constructed before Network::Init.
template <uint32_t kSegments>
struct NetworkStorage {
  alignas(tflite::MicroInterpreter) unsigned char interpreters[kSegments][sizeof(tflite::MicroInterpreter)];
  zo_directory directories[kSegments];
};

// Which samples an invoke is fed with: those of numbers first + i, the last one in the place of later ones; or, in the
// order of a run with settings `order` (see zo_settings_of), those at positions first + i.
struct Feed {
  static constexpr uint32_t kInOrder = UINT32_MAX;
  const SampleSource* source;
  const zo_control_settings* order;
  uint32_t first;
  uint32_t last;  // or kInOrder
#ifdef ZO_SEQUENCE
  uint32_t steps = ZO_SEQUENCE;  // of a sample; 1: a step of a stream
  uint32_t step = 0;             // which of them is fed
  bool continues = false;        // a step of a stream: from the state behind the one before
#endif
#ifdef ZO_DRIFT_SEGMENT
  zo_drift* drift = nullptr;  // to which the layer's output for the first sample is added
#endif

  // Number by which the source knows sample i.
  uint32_t number(uint32_t i) const;
};

class Network {
 public:
  constexpr Network() = default;

  // Allocates everything and sets the initial weights.
  //
  //   arena       aligned to 16 bytes
  //   storage     a NetworkStorage of the model's size
  //   boundaries  of the size that the tables need; not read if they lie in the arena
  //
  // Errors: ZO_ERROR_ARGUMENT (arena not aligned), ZO_ERROR_MEMORY (arena too small),
  // ZO_ERROR_RUNTIME (an operator is not registered, the model is of another version).
  template <uint32_t kSegments>
  zo_status Init(const tflite::MicroOpResolver& resolver, uint8_t* arena, size_t arena_bytes,
                 NetworkStorage<kSegments>* storage, int8_t* boundaries) {
    if (kInfo.segment_count != kSegments) return ZO_ERROR_ARGUMENT;
    return Init(resolver, arena, arena_bytes, storage->interpreters[0], storage->directories, boundaries);
  }

  static const ModelInfo& info() { return kInfo; }

  // Used bytes of the arena. Init needs more if TFLM's temporary memory for planning a segment
  // exceeds that of the activations in the same place.
  size_t arena_used_bytes() {
    if (!is_ready_) return 0;
    return DirectoryBytes() + interpreter(LastSegment())->arena_used_bytes();
  }

  // The input of a segment, int8 [batch, boundary_bytes], in its interpreter. Valid until the next Run.
  int8_t* entering(uint32_t segment);

  // The input of a segment in the last Run that kept it, of the present part; null if it is not kept.
  int8_t* kept(uint32_t segment) const;

  // Before a Run: which part of the minibatch it is of. After Init: the first, 0.
  void SetPart(uint32_t part) { part_ = part; }

  // The memory at an offset of the tables: of the boundaries, which may lie in the arena.
  int8_t* place(int32_t at) const;

  // Runs the network from a segment to the end.
  //
  //   feed    null: inputs and labels are unchanged
  //   losses  whether they are computed
  //   start   its input is in entering(start); 0: the inputs
  //   keep    whether inputs of segments are kept. Segments read the kept inputs of boundaries
  //           before start
  //
  // Errors: ZO_ERROR_ORDER: before Init, or if that has failed; ZO_ERROR_SAMPLE, ZO_ERROR_LABEL:
  // the source has no such sample or label; ZO_ERROR_RUNTIME. Weights stay unchanged.
  zo_status Run(const Feed* feed, bool losses, uint32_t start, bool keep);

#ifdef ZO_SEQUENCE
  // Runs the network from its first segment for a step of a stream. Errors: ZO_ERROR_ORDER: the feed
  // continues, and the last Run was no step of a stream; those of Run.
  zo_status RunStream(const Feed& feed);
#endif

  // Runs segments [first, end) again from the kept input of the first one, or from the samples of a
  // feed, and keeps the inputs of the others and of `end`.
  //
  // Errors: ZO_ERROR_RUNTIME; ZO_ERROR_SAMPLE: the source has no such sample.
  zo_status Rerun(const Feed& feed, uint32_t first, uint32_t end);

  // Sets the initial weights of the run again: the model's own, or those of ImportWeights. After an
  // error some of them may be missing: try again.
  zo_status Restore();

  // Sets the initial weights of all further runs.
  //
  //   store  has the output of ExportWeights, from offset 0 on, for as long as the network is used
  //
  // Errors: ZO_ERROR_STORE: it cannot be read; ZO_ERROR_ARGUMENT: no weights of this model, one is
  // beyond the limit. The weights are the model's own then. ZO_ERROR_RUNTIME: as Restore.
  zo_status ImportWeights(const LogStore& store);

  // Sets weights, and nothing else. After an error only some of them are set.
  zo_status ReadWeights(const LogStore& store);

  // Finishes a Restore that has failed. Called before weights are set: the next invoke would
  // overwrite them otherwise. Errors: ZO_ERROR_RUNTIME.
  zo_status FinishRestore();

  // Changes the model's fingerprint by the checksum of the imported weights: a log identifies its
  // initial weights by the result.
  void MarkFingerprint(uint8_t* bytes) const;

  // Compares each operator's output for a sample of noise with the desktop's, with the model's own
  // weights, and restores the state after Init and ImportWeights.
  //
  //   found  zeros; the first operator that differs, or has failed
  //
  // Errors: ZO_ERROR_KERNEL: one differs. ZO_ERROR_RUNTIME: one has failed. ZO_ERROR_ORDER: before
  // Init. ZO_ERROR_OPTIONS: the desktop had no runtime for the model, so there is nothing to
  // compare with. Those of Init and Restore: the network is unusable until Init succeeds.
  zo_status SelfTest(zo_self_test* found);

  // Results of the last Run.
  const int32_t* losses();
  const int8_t* output();

  // Checksum of all present weights and fractions of the model, see zo_checksum.h. Before Init 0.
  uint32_t checksum() const;

  // A trainable tensor, for the functions of the core.
  zo_tensor tensor(uint32_t number) const;

  // Writes labels of the samples of a feed, [batch, label_bytes].
  zo_status ReadLabels(const Feed& feed, uint8_t* labels);

  // Writes samples of input 0, int8 [batch, bytes].
  zo_status ReadInputs(const Feed& feed, int8_t* inputs) const;

  // Losses and hits of samples first..first + count - 1.
  zo_status Evaluate(const SampleSource& source, uint32_t first, uint32_t count, Evaluation* evaluation);

  // Gives the weights of all tensors that the run trains, then, if there are any, their fractions, tensor by tensor.
  zo_status ExportWeights(const WeightSink& sink) const;

  // CRC-32 of samples 0..samples - 1 and their labels, as the log of a layer-wise run has it.
  zo_status DataChecksum(const SampleSource& source, uint32_t samples, uint32_t* checksum);

 private:
  zo_status Init(const tflite::MicroOpResolver& resolver, uint8_t* arena, size_t arena_bytes,
                 unsigned char* interpreters, zo_directory* directories, int8_t* boundaries);
  size_t DirectoryBytes() const;
  tflite::MicroInterpreter* interpreter(uint32_t segment) const;
  uint32_t LastSegment() const { return ZO_SEGMENTS - 1; }
  void SetCommand(uint32_t segment, uint32_t flags);
  zo_status RunStep(const Feed* feed, uint32_t flags, uint32_t start, bool keep);
  // Which inputs of segments are kept: none, those that no Rerun computes, or all.
  enum class Keep { kNothing, kOnce, kAll };
  int8_t* passing(uint32_t segment, Keep keep) const;
  void Pass(uint32_t segment, uint32_t start, Keep keep);
  void Enter(uint32_t segment, uint32_t start, Keep keep);
  zo_status FeedInputs(const Feed& feed, uint32_t segment);
  zo_status FeedLabels(const Feed& feed);
  zo_status CheckLabels(const uint8_t* labels);

  const tflite::MicroOpResolver* resolver_ = nullptr;
  uint8_t* arena_ = nullptr;
  size_t arena_bytes_ = 0;
  unsigned char* interpreters_ = nullptr;
  const zo_directory_entry* entries_ = nullptr;
  zo_directory* directories_ = nullptr;
  int8_t* boundaries_ = nullptr;
  uint32_t base_checksum_ = 0;    // of the weights in base_
  uint32_t base_mark_ = 0;        // bits of the fingerprint that it changes
  LogStore base_ = {};            // read == nullptr: the model's own
  uint32_t part_ = 0;             // see SetPart
  bool is_ready_ = false;         // Init has succeeded
  bool is_restoring_ = false;     // the next invoke sets the model's own weights
  bool labelled_[ZO_BATCH] = {};  // samples of the last Run that have a label
#ifdef ZO_SEQUENCE
  int32_t joined_[ZO_BATCH] = {};  // losses of the sequences of the last Run
  bool streams_ = false;           // the last Run was a step of a stream
#endif
};

// Does slices of a trainer until a step is done, or the run is.
template <typename Trainer>
zo_status TrainWholeStep(Trainer* trainer, zo_report* report) {
  zo_status status = ZO_OK;
  do {
    status = trainer->TrainSlice(report);
  } while (status == ZO_OK && report->step_done == 0 && !trainer->done());
  return status;
}

}  // namespace tflm_zo

#endif  // TFLM_ZO_OPS_DEVICE_ZO_NETWORK_H_
