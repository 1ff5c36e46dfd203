/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Layer-wise training on a device (node perturbation, exact heads, perturbed weights, see
 * zo_node_run.h): a network of segments and a workspace for the pairs and nodes of a minibatch,
 * whose size `tflm-zo firmware` computes.
 */
#ifndef TFLM_ZO_OPS_DEVICE_ZO_NODE_TRAINER_H_
#define TFLM_ZO_OPS_DEVICE_ZO_NODE_TRAINER_H_

#include "ops/core/log/zo_snapshot_log.h"
#include "ops/core/run/zo_node_run.h"
#include "ops/device/zo_measurements.h"
#include "ops/device/zo_network.h"
#include "ops/device/zo_store_writer.h"

namespace tflm_zo {

struct BackwardInfo;  // zo_backward_tail.h
struct BackwardTail;

// The generator's table of a task: zo_node_task without its buffers.
struct TaskInfo {
  uint32_t kind;  // zo_task_kind
  zo_node_layer layer;
  uint32_t start_segment;
  uint32_t queries;
  uint32_t in_tail;
  uint32_t mu;
  uint32_t rate;
  zo_scale gain;
  uint32_t boundary_bytes;
  uint32_t first_tensor;
  uint32_t tensors;
  uint32_t input_segment;        // its input is the layer's input; 0: input 0 of the network
  uint32_t output_segment;       // the layer's output, before any pooling, enters it
  const BackwardInfo* backward;  // exact tasks of a tail with a program, the same for all; or null
  uint32_t field;                // its field in the program
  uint32_t steps;                // of the program, that come before its update
  int32_t copy_at;               // if the next step reads the filter as it was before: where to copy it, see
                                 // Network::place; or -1
  int32_t bits_at;               // if a later step masks by the layer's inputs, which are gone then: where to keep
                                 // their bits; or -1
  uint32_t bits_step;            // the number of that step
};

class NodeTrainer {
 public:
  constexpr NodeTrainer() = default;

  // Starts a run on a network that Init has set up.
  //
  //   settings   of the run; the caller keeps them, and the tasks
  //   tasks      [settings->tasks]
  //   interval   steps between snapshots of the log, >= 1
  //   workspace  [workspace_bytes], aligned to 8 bytes
  //
  // Errors: ZO_ERROR_MEMORY: the workspace is smaller than WorkspaceBytes; those of zo_node_run_init.
  zo_status Init(Network* network, const zo_node_settings* settings, const TaskInfo* tasks, uint32_t interval,
                 void* workspace, size_t workspace_bytes, const SampleSource& source);

  // Bytes of workspace of a run, without the network's boundaries.
  static size_t WorkspaceBytes(const ModelInfo& info, const zo_node_settings& settings, const TaskInfo* tasks);

  // Does one step.
  //
  //   report  of the step; step_done == 0 if the run is over
  //
  // Errors: ZO_ERROR_SAMPLE, ZO_ERROR_LABEL, ZO_ERROR_RUNTIME: the weights are those of the last complete step, and the
  // next call begins the step anew; if step_done is 1, only the measurement behind the step has failed, and the next
  // call begins with it. ZO_ERROR_STORE: the log could not be written; if step_done is 1 the step is done. The next
  // call, or ExportLog, first writes the missing part. ZO_ERROR_ORDER: before Init, or the weights are those of no
  // step, see ImportLog. A run that computes activations again to save memory does so between its updates, from the
  // sample that it reads again. If that fails, with ZO_ERROR_RUNTIME or ZO_ERROR_SAMPLE, the step is still in progress,
  // and the next call goes on with it.
  zo_status TrainStep(zo_report* report) { return TrainWholeStep(this, report); }

  // Does a part of a step: a forward pass of a minibatch's part, a query, or the update of a layer. For programs that
  // cannot wait for a complete step: between two slices they feed a watchdog, sleep, or answer. Evaluate, ExportWeights
  // and Trainer::Predict then use the weights in memory: those of the last complete step until the first update of the
  // step in progress, from then on each layer's own; of some residual networks ZO_ERROR_ORDER, see Settle. All queries
  // of perturbed weights are one slice. Slices lead to the same bits as steps do. A measurement and a snapshot are part
  // of the slice that ends a step.
  //
  //   report  step_done == 1: the step is done; 0: it is not, or the run is over, see done()
  //
  // Errors: those of TrainStep.
  zo_status TrainSlice(zo_report* report);

  uint32_t step() const { return run_.step; }
  bool done() const { return network_ != nullptr && run_.step == run_.settings.common.steps; }
  // Whether the weights are the initial ones of the run.
  bool IsAtStart() const { return run_.step == 0 && !IsInStep(); }

  // Begins the run with other weights than the model's own (Network::ImportWeights). Its log then does not match a run
  // from the model's own weights, so after a reset they are imported again, before ImportLog.
  //
  // Errors: ZO_ERROR_ORDER: the run has begun, nothing has changed; those of Network::ImportWeights.
  zo_status ImportWeights(const LogStore& store);

  // Lets the run keep its best state (zo_measurement.h). Each measurement takes a forward pass of every sample and a
  // record of 28 bytes in the log, and the log a third slot for weights. Call it before the first step, and before
  // ImportLog, which requires a log with the same samples and interval of measurements.
  //
  // A program that calls it takes 1.5 KiB more of flash with RestoreBest (Cortex-M4, -O2), Evaluate
  // included, and no more RAM; other programs do not contain it.
  //
  // Errors: ZO_ERROR_ORDER: the run has begun; ZO_ERROR_ARGUMENT: no samples, or never;
  // ZO_ERROR_SAMPLE. Nothing has changed then.
  zo_status KeepBest(const Yardstick& yardstick);

  // After the last step: sets the weights of the best state, from the log.
  //
  //   best  its measurement
  //
  // Errors: ZO_ERROR_ORDER: the run is not over and complete in its log, or measures nothing, or has no log.
  // ZO_ERROR_LOG: the log does not have it. Nothing has changed then. ZO_ERROR_STORE: a read has failed;
  // ZO_ERROR_RUNTIME. Then calls that need weights of a step return ZO_ERROR_ORDER until it succeeds.
  zo_status RestoreBest(zo_measurement* best);

  // Writes each further step into the log. The first step writes the header, which takes one pass
  // over all samples, for their checksum. Init forgets the log, null detaches it.
  //
  // Errors: ZO_ERROR_ORDER: before Init, or the run has begun, and its steps so far were neither
  // written to this store nor imported from it. Nothing has changed then.
  zo_status SetLog(const LogStore* log);

  // Writes the missing part of SetLog's log, after ZO_ERROR_STORE, and a snapshot of the present
  // weights if it has none of this step; TrainStep does so every `interval` steps. The next one
  // that TrainStep writes takes two writes then, so that this one stays until it is complete.
  //
  // Errors: ZO_ERROR_ORDER: before Init, a step is in progress, the weights are those of no step,
  // or the run has begun, and this is not its log. Those of TrainStep behind a step.
  zo_status ExportLog(const LogStore& log);

  // Sets weights and state to the last complete snapshot of a log, or, if it has none, to those before the first step,
  // see step(). Steps after it are repeated by TrainStep, with the same bits if the samples are the same.
  //
  // Errors: ZO_ERROR_LOG: it is no log, or of another model, settings or samples, or measured by other samples;
  // ZO_ERROR_ORDER: before Init, or SetLog was given another store; ZO_ERROR_SAMPLE: a sample cannot be read. Nothing
  // has changed then. ZO_ERROR_RUNTIME, ZO_ERROR_STORE: the weights are those of no step, and calls that need them
  // return ZO_ERROR_ORDER until ImportLog or Init succeeds.
  zo_status ImportLog(const LogStore& log);

  // Call it before any use of the network but TrainStep and TrainSlice. Moves no weight.
  //
  // Errors: ZO_ERROR_ORDER: before Init, or the weights are those of no step, see ImportLog; a step
  // is in progress whose shortcut from layers before the trained ones is kept in a place that any
  // other use of the network overwrites, or whose errors share the arena.
  zo_status Settle() const { return is_ready_ && (!IsInStep() || HasRoomInStep()) ? ZO_OK : ZO_ERROR_ORDER; }

  zo_status Evaluate(const SampleSource& source, uint32_t first, uint32_t count, Evaluation* evaluation) {
    const zo_status status = Settle();
    return status == ZO_OK ? network_->Evaluate(source, first, count, evaluation) : status;
  }
  zo_status ExportWeights(const WeightSink& sink) const {
    return is_ready_ ? network_->ExportWeights(sink) : ZO_ERROR_ORDER;
  }

 protected:
  // Where the log of a run that is over ends, and from which checksum a threshold there continues.
  // Errors: ZO_ERROR_ORDER: the run is not over and complete in its log; those of Settle.
  zo_status EndOfLog(const LogStore** log, uint32_t* at, uint32_t* checksum) const;

 private:
  bool HasBegun() const { return run_.step > 0 || measurements_.count() > 0; }
  bool IsComplete() const { return done() && !IsMeasurementDue() && log_ != nullptr && !is_ending_; }
  zo_status Forward(const zo_node_request& request);
  zo_status Query(const zo_node_request& request);
  zo_status Capture(uint32_t task, const Feed& feed);
  zo_status Update(const zo_node_request& request, zo_report* report);
  // Whether errors of a layer are kept until its update alone, as those of one sample can be.
  bool UpdatesOnTheWay() const {
    return tail_ != nullptr && run_.settings.common.batch * run_.settings.common.parts == 1;
  }
  // Whether a step has begun that is not done.
  bool IsInStep() const { return !done() && (run_.stage != ZO_NODE_FORWARD || run_.part != 0); }
  bool HasRoomInStep() const;
  zo_status BeginStep();
  zo_status EndStep();
  bool MovesWeights(const zo_node_request& request) const;
  zo_status Answer(const zo_node_request& request, zo_report* report);
  zo_status Abandon(zo_status reason);
  uint32_t Tensors(uint32_t task, zo_tensor* tensors) const;
  zo_status KnowData();
  zo_status WriteHeader(const LogStore& log);
  zo_status WriteRecord();
  template <typename Does>
  zo_status ForEachArray(const Does& does) const;
  zo_status WriteSlot(const LogStore& log, uint32_t slot, uint32_t number) const;
  zo_status WriteSnapshot();
  bool IsMeasurementDue() const;
  zo_status MeasureWhereDue() { return measuring_ != nullptr ? measuring_->measure(this) : ZO_OK; }
  // If it is due.
  zo_status Measure();
  zo_status ReadMeasurements(const LogStore& log);
  uint32_t RecordsAt(const LogStore& log) const;
  uint32_t MeasurementAt(const LogStore& log, uint32_t step) const;
  zo_status IsWhole(const LogStore& log, uint32_t slot, uint32_t* number, uint32_t* step) const;
  zo_status GoTo(const LogStore& log);
  zo_status ReadSnapshot(const LogStore& log, uint32_t slot);
  zo_status ReadWeights(const LogStore& log, uint32_t slot);
  void Header(const LogStore& log, uint8_t* bytes) const;
  uint32_t WeightBytes() const;
  uint32_t SlotAt(const LogStore& log, uint32_t slot) const;

  Network* network_ = nullptr;
  const TaskInfo* infos_ = nullptr;
  const LogStore* log_ = nullptr;
  zo_node_task* tasks_ = nullptr;
  zo_tensor* tensors_ = nullptr;  // of the weight task in progress
  BackwardTail* tail_ = nullptr;  // if a program leads errors back
  int32_t* scratch_ = nullptr;
  uint8_t* labels_ = nullptr;  // of a batch, if an exact head needs them
  StoreOfRun at_ = {};
  uint32_t interval_ = 0;
  uint32_t data_checksum_ = 0;
  uint32_t checked_ = 0;  // data_checksum_ is known
  uint32_t header_checksum_ = 0;
  int32_t mean_loss_ = 0;       // of the last step
  uint32_t snapshot_step_ = 0;  // of the log's newest snapshot; 0: it has none
  uint32_t snapshot_slot_ = 0;  // that it is in
  bool is_ready_ = false;       // weights are those of a step, or of one in progress
  bool is_ending_ = false;      // the last step is still to be finished
  // The functions that measure. The linker drops them if a program never calls KeepBest.
  struct Measuring {
    zo_status (*measure)(NodeTrainer* trainer);
    zo_status (*read)(NodeTrainer* trainer, const LogStore& log);
    zo_status (*is_own)(const NodeTrainer* trainer, const LogStore& log, uint32_t header_checksum);
  };
  static const Measuring kMeasuring;
  const Measuring* measuring_ = nullptr;
  Measurements measurements_;
  SampleSource source_ = {};
  zo_node_run run_ = {};
};

}  // namespace tflm_zo

#endif  // TFLM_ZO_OPS_DEVICE_ZO_NODE_TRAINER_H_
