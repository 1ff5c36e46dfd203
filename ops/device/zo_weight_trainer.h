/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Weight perturbation on a device: the control unit (zo_control.h) and a network, in the memory of
 * inference plus the trainable weights. Every decision is the control unit's, so a run on a desktop
 * with the same model, settings and samples gives the same log and weights if both runtimes
 * compute the same losses.
 */
#ifndef TFLM_ZO_OPS_DEVICE_ZO_WEIGHT_TRAINER_H_
#define TFLM_ZO_OPS_DEVICE_ZO_WEIGHT_TRAINER_H_

#include "ops/core/link/zo_fleet.h"
#include "ops/device/zo_measurements.h"
#include "ops/device/zo_network.h"
#include "ops/device/zo_store_writer.h"

namespace tflm_zo {

// The header of the run's log as the generator has written it, for a run that measures nothing and
// begins with the model's own weights.
extern const uint8_t kLogHeader[ZO_LOG_HEADER_BYTES];

class WeightTrainer {
 public:
  constexpr WeightTrainer() = default;

  // Starts a run on a network that Init has set up, with the settings of the build (zo_settings_of).
  //
  //   block_segments  see zo_control_init
  //
  // Errors: those of zo_control_init.
  zo_status Init(Network* network, const uint8_t* block_segments, const SampleSource& source);

  // Does one step.
  //
  //   report  of the step; step_done == 0 if the run is over
  //
  // Errors: ZO_ERROR_SAMPLE, ZO_ERROR_LABEL, ZO_ERROR_RUNTIME: the weights are those of the last
  // complete step, and the next call begins the step anew; if step_done is 1, only the measurement
  // behind the step has failed, and the next call begins with it. ZO_ERROR_STORE: the log could not
  // be written; if step_done is 1 the step is done. The next call, or ExportLog, first writes the
  // missing part. ZO_ERROR_ORDER: before Init, or the weights are those of no step, see ImportLog.
  zo_status TrainStep(zo_report* report) { return TrainWholeStep(this, report); }

  // Does a part of a step: one invoke of each segment. For programs that cannot wait for a whole step: between two
  // slices they feed a watchdog, sleep, or answer; Evaluate, ExportWeights and Trainer::Predict then use the weights of
  // the last complete step, which takes two more passes over the weights. Slices lead to the same bits as steps do. A
  // measurement is part of the slice that ends a step.
  //
  //   report  step_done == 1: the step is done; 0: it is not, or the run is over, see done()
  //
  // Errors: those of TrainStep.
  zo_status TrainSlice(zo_report* report);

  // Complete steps done.
  uint32_t step() const { return control_.step; }
  bool done() const { return control_.step == Settings()->steps; }
  // Whether the weights are the initial ones of the run.
  bool IsAtStart() const { return control_.step == 0 && zo_control_is_in_step(&control_) == 0; }

  // Begins the run with other weights than the model's own (Network::ImportWeights). Its log then does not match a run
  // from the model's own weights, so after a reset they are imported again, before ImportLog.
  //
  // Errors: ZO_ERROR_ORDER: the run has begun, nothing has changed; those of Network::ImportWeights.
  zo_status ImportWeights(const LogStore& store);

  // Lets the run keep its best state (zo_measurement.h). Each measurement takes a forward pass of
  // every sample and a record of 28 bytes in the log. Call it before the first step, and before
  // ImportLog, which requires a log with the same samples and interval of measurements.
  //
  // A program that calls it takes 1.8 KiB more of flash with RestoreBest (Cortex-M4, -O2), Evaluate
  // included, and no more RAM; other programs do not contain it.
  //
  // Errors: ZO_ERROR_ORDER: the run has begun; ZO_ERROR_ARGUMENT: no samples, or never. Nothing has
  // changed then. ZO_ERROR_SAMPLE.
  zo_status KeepBest(const Yardstick& yardstick);

  // After the last step: sets the weights of the best state, by a replay of the log up to it.
  //
  //   best  its measurement
  //
  // Errors: ZO_ERROR_ORDER: the run is not over and complete in its log, or measures nothing, or has no log.
  // ZO_ERROR_LOG: the log does not have it. Nothing has changed then. ZO_ERROR_STORE: a read has failed;
  // ZO_ERROR_RUNTIME. Then calls that need weights of a step return ZO_ERROR_ORDER until it succeeds.
  zo_status RestoreBest(zo_measurement* best);

  // Writes each further step into the log. The first step writes the header. Init forgets the log, null detaches it.
  //
  // Errors: ZO_ERROR_ORDER: before Init, or the run has begun, and its steps so far were neither
  // written to this store nor imported from it. Nothing has changed then.
  zo_status SetLog(const LogStore* log);

  // Writes the missing part of SetLog's log, after ZO_ERROR_STORE. A complete log stays unchanged.
  //
  // Errors: ZO_ERROR_ORDER: the run has begun, and this is not its log. ZO_ERROR_STORE.
  zo_status ExportLog(const LogStore& log);

  // Restores weights and state from a log, beginning with the initial weights of the run, up to its
  // last complete record, see step(). Bytes behind that, part of a record after a power failure or
  // damage, are ignored: the run resumes from there.
  //
  //   snapshot  saves the passes over the weights for the steps before it; null: none. One that
  //             does not belong to this log, or is damaged, is left out: the result is the same.
  //
  // Errors: ZO_ERROR_LOG: it is no log, or of another model, settings or first weights, or measured by other samples;
  // ZO_ERROR_ORDER: before Init, or SetLog was given another store. Nothing has changed then. ZO_ERROR_STORE: the log,
  // or imported weights, cannot be read: the end of the log is unknown, and nothing may be written over it.
  // ZO_ERROR_RUNTIME. After these two the weights are those of no step, and calls that need them return ZO_ERROR_ORDER
  // until ImportLog or Init succeeds.
  zo_status ImportLog(const LogStore& log, const WeightSnapshot* snapshot = nullptr);

  // A mark that binds the present output of ExportWeights to the log of the run; settles.
  //
  // Errors: those of Settle; ZO_ERROR_ORDER: the weights are those of RestoreBest.
  zo_status SnapshotMark(uint32_t* mark);

  // Bytes of the log in use: its header, and the records of completed steps and measurements.
  uint32_t LogBytes() const;

  // Makes the trainer a member of a fleet: steps are evaluated here, and decided elsewhere. The log
  // that SetLog was given keeps the fleet's records; without one, a device that has lost its power
  // begins with the first step. A run that measures itself cannot join a fleet.
  //
  //   fleet  of zo_link_add_fleet; the trainer stays where it is for as long as that is used
  //
  // A program that calls it takes 1.7 KiB of flash more than one that serves its log and resumes
  // from it (Cortex-M4, -O2); other programs do not contain it.
  void JoinFleet(zo_fleet* fleet);

  // Does a part of the evaluation of the fleet's next step: one invoke of each segment. Slices as
  // TrainSlice does them, and with the last one the weights are those before the step again.
  //
  //   answer  samples == 0: there are more slices to do
  //
  // Errors: those of TrainSlice, but for the log's; ZO_ERROR_ORDER: the run is over, or measures itself.
  zo_status AnswerSlice(zo_fleet_answer* answer);

  // Takes the record of a step that the fleet has decided: it goes into the log, then moves the
  // weights. An evaluation in progress is aborted. A known record does nothing.
  //
  //   record  [count], as the log has it
  //
  // Errors: ZO_ERROR_ARGUMENT: no record of this run has so many bytes. ZO_ERROR_ORDER: it is of a
  // later step than the next, or the run measures itself. ZO_ERROR_LOG: it is damaged, or does not
  // continue the log. ZO_ERROR_STORE: it could not be logged. Nothing has changed then.
  zo_status TakeRecord(const uint8_t* record, uint32_t count);

  // Complete steps, and the checksum that the log's next record continues from.
  zo_fleet_state FleetState() const;

  // Makes the weights in memory those of the last complete step: an update rides on the invoke that
  // follows it, and within a step they are a query's. Call it before any use of the weights
  // but TrainStep and TrainSlice. Changes no later bit.
  //
  // Errors: ZO_ERROR_ORDER: before Init, or they are those of no step, see ImportLog.
  zo_status Settle();

  // Settle, then Network::Evaluate and Network::ExportWeights.
  zo_status Evaluate(const SampleSource& source, uint32_t first, uint32_t count, Evaluation* evaluation);
  zo_status ExportWeights(const WeightSink& sink);

 protected:
  // Where the log of a run that is over ends, and from which checksum a threshold there continues; settles.
  // Errors: ZO_ERROR_ORDER: the run is not over and complete in its log; those of Settle.
  zo_status EndOfLog(const LogStore** log, uint32_t* at, uint32_t* checksum);

 private:
  static const zo_control_settings* Settings() { return zo_settings_of(nullptr); }
  zo_status Move(const zo_moves& moves);
  zo_status Suspend(bool whole);
  zo_status Abandon(uint32_t executed);
  zo_status GiveUp();
  zo_status BeginStep();
  zo_status Invoke(zo_report* report);
  bool HasBegun() const { return control_.step > 0 || measurements_.count() > 0; }
  bool IsComplete() const;
  uint32_t RecordAt(const LogStore& log, uint32_t step) const;
  uint32_t MeasurementAt(const LogStore& log, uint32_t step) const;
  void Header(const LogStore& log, uint8_t* bytes) const;
  uint32_t HeaderChecksum() const;
  // The checksum from which the log's next record continues.
  uint32_t NextChecksum() const { return HasBegun() ? after_ : HeaderChecksum(); }
  zo_status CatchUp();
  zo_status BeginLog();
  zo_status Append(uint32_t at, uint8_t* bytes, uint32_t count, uint32_t step, bool measured);
  zo_status EraseStale(uint32_t checksum, uint32_t step, bool measured) const;
  zo_status WriteRecord(const uint8_t* record, uint32_t step);
  zo_status LogLastStep();
  zo_status TakeKnown(const uint8_t* record, uint32_t count) const;
  bool IsMeasurementDue(uint32_t step) const;
  zo_status MeasureWhereDue() { return measuring_ != nullptr ? measuring_->measure(this) : ZO_OK; }
  // If it is due.
  zo_status Measure();
  zo_status ReadMeasurement(const LogStore& log, uint32_t step);
  zo_status ReadRecord(const LogStore& log, uint32_t step, zo_log_record* record);
  bool GoTo(const LogStore& log, const WeightSnapshot& snapshot, int64_t* mean_square);
  void Rewind(uint32_t header_checksum);
  uint32_t MarkOfWeights(uint32_t after) const;
  zo_status Replay(const zo_log_record& record);

  Network* network_ = nullptr;
  const LogStore* log_ = nullptr;
  StoreOfRun at_ = {};
  int32_t mean_loss_ = 0;      // of the last step
  uint32_t before_ = 0;        // checksum of the log before the last step's record
  uint32_t after_ = 0;         // that its next record continues from, once the run has begun
  bool is_ready_ = false;      // weights are those of a step, or of one of its queries
  bool is_unlogged_ = false;   // the last step's record is still to be written
  bool is_best_ = false;       // weights are those of RestoreBest
  bool is_suspended_ = false;  // within a step: weights are those of the last complete one
  // The functions that measure. The linker drops them if a program never calls KeepBest.
  struct Measuring {
    zo_status (*measure)(WeightTrainer* trainer);
    zo_status (*read)(WeightTrainer* trainer, const LogStore& log, uint32_t step);
    zo_status (*is_own)(const WeightTrainer* trainer, const LogStore& log, uint32_t header_checksum);
  };
  static const Measuring kMeasuring;
  const Measuring* measuring_ = nullptr;
  Measurements measurements_;
  SampleSource source_ = {};
  zo_control control_ = {};
};

}  // namespace tflm_zo

#endif  // TFLM_ZO_OPS_DEVICE_ZO_WEIGHT_TRAINER_H_
