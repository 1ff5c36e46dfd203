/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/device/zo_weight_trainer.h"

#include <string.h>

#include <initializer_list>

#include "ops/core/log/zo_crc32.h"
#include "ops/core/log/zo_store_units.h"
#include "ops/core/weights/zo_update.h"
#include "ops/core/zo_little_endian.h"
#include "ops/device/zo_store_writer.h"

namespace tflm_zo {
namespace {

// Longest record of this build, and the longest entry of a log, a record or a measurement.
constexpr uint32_t kRecordBytes = 20 + 4 * ZO_MAX_QUERIES;
constexpr uint32_t kEntryBytes = kRecordBytes > ZO_MEASUREMENT_BYTES ? kRecordBytes : ZO_MEASUREMENT_BYTES;

// Bytes that are written by themselves, with room to fill the last unit up.
template <uint32_t kBytes>
using Padded = uint8_t[kBytes + ZO_STORE_UNIT_MOST - 1];

// Writes such a thing in whole units, and makes it safe. Errors: ZO_ERROR_STORE.
zo_status WritePadded(const LogStore& log, uint32_t at, uint8_t* bytes, uint32_t count) {
  const uint32_t whole = zo_padded(count, log.unit);
  memset(bytes + count, 0xFF, whole - count);
  return zo_store_write(&log, at, bytes, whole) && MakeSafe(log) ? ZO_OK : ZO_ERROR_STORE;
}

}  // namespace

zo_status WeightTrainer::Init(Network* network, const uint8_t* block_segments, const SampleSource& source) {
  *this = {};
  const zo_status status = zo_control_init(&control_, nullptr, block_segments);
  if (status != ZO_OK) return status;
  network_ = network;
  source_ = source;
  is_ready_ = true;
  return ZO_OK;
}

zo_status WeightTrainer::Move(const zo_moves& moves) {
  const ModelInfo& info = network_->info();
  for (uint32_t i = 0; i < info.trainable_count; ++i) {
    const zo_tensor tensor = network_->tensor(i);
    const zo_status status = zo_moves_apply(&moves, &tensor, BlockOf(info, i));
    if (status != ZO_OK) return status;
  }
  return ZO_OK;
}

// Leads the weights of a step in progress to those of the last complete step, or back.
zo_status WeightTrainer::Suspend(bool whole) {
  if (is_suspended_ == whole) return ZO_OK;
  zo_moves moves;
  zo_status status = zo_control_suspend_moves(&control_, is_suspended_ ? 1 : 0, &moves);
  if (status == ZO_OK) status = Move(moves);
  if (status == ZO_OK) is_suspended_ = whole;
  return status;
}

// Leads them to those of the last complete step for good; `executed` as zo_control_abandon takes it.
zo_status WeightTrainer::Abandon(uint32_t executed) {
  zo_moves moves;
  zo_control_abandon_moves(&control_, executed, &moves);
  return Move(moves);
}

// The invoke that the control unit asks for, whose step has begun.
zo_status WeightTrainer::Invoke(zo_report* report) {
  const ModelInfo& info = network_->info();
  zo_request request;
  zo_moves moves;
  zo_status status = zo_control_next_moves(&control_, &moves, &request);
  if (status != ZO_OK || request.action == ZO_ACTION_DONE) return status;
  if (ZO_WITH_SEGMENTS && request.start_segment > 0) {
    memcpy(network_->entering(request.start_segment), network_->kept(request.start_segment),
           info.batch * info.segments[request.start_segment].boundary_bytes);
  }
  status = Move(moves);
  if (status != ZO_OK) return status;
  const Feed feed = {&source_, nullptr, request.first_sample, Feed::kInOrder};
  status = network_->Run(&feed, true, request.start_segment, true);
  if (status != ZO_OK) {
    const zo_status back = Abandon(1);
    return back == ZO_OK ? status : back;
  }
  return zo_control_report(&control_, network_->losses(), info.batch, report);
}

zo_status WeightTrainer::TrainSlice(zo_report* report) {
  *report = {};
  zo_status status = BeginStep();
  if (status == ZO_OK) status = Invoke(report);
  if (status != ZO_OK || report->step_done == 0) return status;
  mean_loss_ = report->mean_loss;
  before_ = after_;
  is_unlogged_ = true;
  status = LogLastStep();
  return status == ZO_OK ? MeasureWhereDue() : status;
}

// Called before an invoke. At the beginning of a step, finishes the step before.
zo_status WeightTrainer::BeginStep() {
  if (!is_ready_) return ZO_ERROR_ORDER;
  if (zo_control_is_in_step(&control_) != 0) return Suspend(false);
  const zo_status status = CatchUp();
  return status == ZO_OK ? MeasureWhereDue() : status;
}

void WeightTrainer::Header(const LogStore& log, uint8_t* bytes) const {
  memcpy(bytes, kLogHeader, ZO_LOG_HEADER_BYTES);
  network_->MarkFingerprint(bytes + ZO_LOG_FINGERPRINT_AT);
  zo_log_complete_header(bytes, measurements_.every());
  zo_log_write_unit(bytes, log.unit);
}

// The generator refuses a run whose log may be too long for offsets of 32 bits.
uint32_t WeightTrainer::RecordAt(const LogStore& log, uint32_t step) const {
  return static_cast<uint32_t>(zo_step_record_at(zo_padded(ZO_LOG_HEADER_BYTES, log.unit),
                                                 zo_log_record_bytes(Settings()->queries), measurements_.every(),
                                                 log.unit, step));
}

uint32_t WeightTrainer::MeasurementAt(const LogStore& log, uint32_t step) const {
  return static_cast<uint32_t>(zo_measurement_at(zo_padded(ZO_LOG_HEADER_BYTES, log.unit),
                                                 zo_log_record_bytes(Settings()->queries), measurements_.every(),
                                                 log.unit, step));
}

uint32_t WeightTrainer::LogBytes() const {
  const uint32_t unit = log_ != nullptr ? log_->unit : 1;
  return zo_padded(ZO_LOG_HEADER_BYTES, unit) +
         control_.step * zo_padded(zo_log_record_bytes(Settings()->queries), unit) +
         measurements_.count() * zo_padded(ZO_MEASUREMENT_BYTES, unit);
}

zo_status WeightTrainer::EndOfLog(const LogStore** log, uint32_t* at, uint32_t* checksum) {
  if (!IsComplete()) return ZO_ERROR_ORDER;
  *log = log_;
  *at = LogBytes();
  *checksum = after_;
  return Settle();
}

// Whether the run is over, and all of it is in its log.
bool WeightTrainer::IsComplete() const {
  return done() && !IsMeasurementDue(control_.step) && log_ != nullptr && !is_unlogged_;
}

uint32_t WeightTrainer::HeaderChecksum() const {
  const LogStore none = {};
  uint8_t header[ZO_LOG_HEADER_BYTES];
  Header(none, header);
  return zo_log_checksum(header, sizeof header);
}

zo_status WeightTrainer::SetLog(const LogStore* log) {
  if (log != nullptr) {
    if (!zo_is_store_unit(log->unit)) return ZO_ERROR_ARGUMENT;
    if (network_ == nullptr || (HasBegun() && !at_.Is(*log))) return ZO_ERROR_ORDER;
  }
  log_ = log;
  return ZO_OK;
}

// Brings the log, if there is one, up to date.
zo_status WeightTrainer::CatchUp() { return HasBegun() ? LogLastStep() : BeginLog(); }

// Begins the chain of checksums, and the log, if there is one that has no header yet.
zo_status WeightTrainer::BeginLog() {
  after_ = HeaderChecksum();
  if (log_ == nullptr || at_.Is(*log_)) return ZO_OK;
  Padded<ZO_LOG_HEADER_BYTES> header;
  Header(*log_, header);
  const zo_status status = Append(0, header, ZO_LOG_HEADER_BYTES, 0, false);
  if (status == ZO_OK) at_ = StoreOfRun(*log_);
  return status;
}

// Remains of an older run in the store continue a newer one if everything before them is equal, for
// instance if only samples differ that the first steps do not read. So before bytes are written,
// the entry behind them is read, and erased if it continues them: the one after `step` complete
// steps, a measurement first if it is due and not `measured`.
zo_status WeightTrainer::EraseStale(uint32_t checksum, uint32_t step, bool measured) const {
  const bool measures = !measured && zo_measurement_is_due(measurements_.every(), Settings()->steps, step) != 0;
  const uint32_t size = measures ? ZO_MEASUREMENT_BYTES : zo_log_record_bytes(Settings()->queries);
  const uint32_t at = measures ? MeasurementAt(*log_, step) : RecordAt(*log_, step);
  if (step == Settings()->steps && !measures) return ZO_OK;
  Padded<kEntryBytes> found;
  const zo_status status = zo_store_read(log_, at, found, size);
  if (status == ZO_ERROR_STORE) return status;
  if (status != ZO_OK || zo_log_checksum(found, size) != zo_crc32(checksum, found, size - 4)) {
    return ZO_OK;
  }
  memset(found, 0xFF, size);
  return WritePadded(*log_, at, found, size);
}

// Writes an entry that ends with `step` complete steps, and with a measurement if `measured`.
zo_status WeightTrainer::Append(uint32_t at, uint8_t* bytes, uint32_t count, uint32_t step, bool measured) {
  const zo_status status = EraseStale(zo_log_checksum(bytes, count), step, measured);
  return status == ZO_OK ? WritePadded(*log_, at, bytes, count) : status;
}

// Writes the record of a step.
zo_status WeightTrainer::WriteRecord(const uint8_t* record, uint32_t step) {
  const uint32_t size = zo_log_record_bytes(Settings()->queries);
  Padded<kRecordBytes> bytes;
  memcpy(bytes, record, size);
  return Append(RecordAt(*log_, step), bytes, size, step + 1, false);
}

// Writes the record of the last step, if that has not been done.
zo_status WeightTrainer::LogLastStep() {
  if (!is_unlogged_) return ZO_OK;
  uint8_t record[kRecordBytes];
  zo_log_write_record(&control_, mean_loss_, before_, record);
  zo_status status = ZO_OK;
  if (log_ == nullptr) {
    at_ = {};
  } else {
    // The first one, if the log was given within its step.
    if (!at_.Is(*log_)) status = BeginLog();
    if (status == ZO_OK) status = WriteRecord(record, control_.step - 1);
  }
  after_ = zo_log_checksum(record, zo_log_record_bytes(Settings()->queries));
  is_unlogged_ = status != ZO_OK;
  return status;
}

zo_status WeightTrainer::ExportLog(const LogStore& log) {
  if (network_ == nullptr) return ZO_ERROR_ORDER;
  if (control_.step == 0) return ZO_OK;
  return log_ != nullptr && StoreOfRun(*log_).Is(log) ? LogLastStep() : ZO_ERROR_ORDER;
}

zo_status WeightTrainer::Replay(const zo_log_record& record) {
  const zo_control_settings& settings = *Settings();
  const ModelInfo& info = network_->info();
  zo_query items[ZO_MAX_QUERIES];
  const uint32_t count = zo_control_items(&settings, record.step, record.coefficients, items);
  const zo_distribution distribution = zo_control_distribution(&settings, record.step);
  for (uint32_t i = 0; i < info.trainable_count; ++i) {
    const uint32_t blocks = zo_blocks_of(&settings);
    if (blocks > 0 && BlockOf(info, i) != record.step % blocks) continue;
    const zo_tensor tensor = network_->tensor(i);
    const zo_status status = zo_update_s8(&tensor, distribution, nullptr, items, count, nullptr);
    if (status != ZO_OK) return status;
  }
  return ZO_OK;
}

const WeightTrainer::Measuring WeightTrainer::kMeasuring = {
    [](WeightTrainer* trainer) { return trainer->Measure(); },
    [](WeightTrainer* trainer, const LogStore& log, uint32_t step) { return trainer->ReadMeasurement(log, step); },
    [](const WeightTrainer* trainer, const LogStore& log, uint32_t header_checksum) {
      return trainer->measurements_.IsOwn(log, trainer->MeasurementAt(log, 0), header_checksum);
    },
};

bool WeightTrainer::IsMeasurementDue(uint32_t step) const {
  return measuring_ != nullptr && measurements_.IsDue(Settings()->steps, step);
}

zo_status WeightTrainer::KeepBest(const Yardstick& yardstick) {
  if (!is_ready_ || zo_control_is_in_step(&control_) != 0) return ZO_ERROR_ORDER;
  const zo_status status = measurements_.Begin(network_, control_.step, yardstick);
  if (status != ZO_OK) return status;
  measuring_ = &kMeasuring;
  at_ = {};  // a header that is there is of a run that measures otherwise
  return ZO_OK;
}

zo_status WeightTrainer::Measure() {
  if (!IsMeasurementDue(control_.step)) return ZO_OK;
  const Yardstick& yardstick = measurements_.yardstick();
  Evaluation found;
  const zo_status status = Evaluate(yardstick.source, 0, yardstick.count, &found);
  if (status != ZO_OK) return status;
  const zo_measurement measured = measurements_.Of(control_.step, found);
  Padded<ZO_MEASUREMENT_BYTES> record;
  zo_measurement_write(&measured, after_, record);
  if (log_ == nullptr) {
    at_ = {};
  } else {
    const zo_status written =
        Append(MeasurementAt(*log_, control_.step), record, ZO_MEASUREMENT_BYTES, control_.step, true);
    if (written != ZO_OK) return written;
  }
  after_ = zo_log_checksum(record, ZO_MEASUREMENT_BYTES);
  measurements_.Add(measured);
  return ZO_OK;
}

// Reads the measurement that is due after so many steps. ZO_ERROR_LOG: there is no whole one.
zo_status WeightTrainer::ReadMeasurement(const LogStore& log, uint32_t step) {
  uint8_t bytes[ZO_MEASUREMENT_BYTES];
  zo_measurement measured;
  const zo_status status = zo_store_read(&log, MeasurementAt(log, step), bytes, sizeof bytes);
  if (status != ZO_OK) return status;
  if (zo_measurement_read(bytes, after_, &measured) != ZO_OK || measured.step != step) {
    return ZO_ERROR_LOG;
  }
  after_ = zo_log_checksum(bytes, sizeof bytes);
  measurements_.Add(measured);
  return ZO_OK;
}

// To where the records begin.
void WeightTrainer::Rewind(uint32_t header_checksum) {
  after_ = header_checksum;
  measurements_.Rewind();
}

// Sets the weights by the log anew, up to the best of all measurements.
zo_status WeightTrainer::RestoreBest(zo_measurement* best) {
  if (measuring_ == nullptr || !IsComplete()) return ZO_ERROR_ORDER;
  // An interrupted earlier call leaves nothing pending.
  const zo_status settled = is_ready_ ? Settle() : ZO_OK;
  if (settled != ZO_OK) return settled;
  const zo_measurement found = measurements_.best();
  WeightTrainer replay = *this;
  // Nothing has changed if the log does not lead there.
  for (const bool moves : {false, true}) {
    replay.Rewind(HeaderChecksum());
    if (moves) is_ready_ = false;
    zo_status status = moves ? network_->Restore() : ZO_OK;
    for (uint32_t step = 0; status == ZO_OK && step < found.step; ++step) {
      zo_log_record record;
      status = replay.ReadRecord(*log_, step, &record);
      if (status == ZO_OK && moves) status = Replay(record);
    }
    // Records that were there a moment ago are so still: they cannot be read.
    if (status != ZO_OK) return moves && status == ZO_ERROR_LOG ? ZO_ERROR_STORE : status;
  }
  is_ready_ = is_best_ = true;
  *best = found;
  return ZO_OK;
}

// Reads a record, and the measurement between it and the one before it. ZO_ERROR_LOG: there is no
// whole one that follows the one before it.
zo_status WeightTrainer::ReadRecord(const LogStore& log, uint32_t step, zo_log_record* record) {
  const uint32_t size = zo_log_record_bytes(Settings()->queries);
  uint8_t bytes[kRecordBytes];
  zo_status status = ZO_OK;
  if (IsMeasurementDue(step)) status = measuring_->read(this, log, step);
  if (status == ZO_OK && step == Settings()->steps) status = ZO_ERROR_LOG;
  if (status == ZO_OK) status = zo_store_read(&log, RecordAt(log, step), bytes, size);
  if (status != ZO_OK) return status;
  if (zo_log_read_record(bytes, Settings(), after_, record) != ZO_OK || record->step != step) {
    return ZO_ERROR_LOG;
  }
  after_ = zo_log_checksum(bytes, size);
  return ZO_OK;
}

// `after`: checksum that the log's next record continues from.
uint32_t WeightTrainer::MarkOfWeights(uint32_t after) const {
  uint8_t bytes[4];
  zo_write_u32(bytes, network_->checksum());
  return zo_crc32(after, bytes, sizeof bytes);
}

zo_status WeightTrainer::SnapshotMark(uint32_t* mark) {
  const zo_status status = is_best_ ? ZO_ERROR_ORDER : Settle();
  if (status == ZO_OK) *mark = MarkOfWeights(NextChecksum());
  return status;
}

// Sets the weights of a snapshot. The records before it are read, not replayed: with them comes the
// checksum that its mark continues from.
bool WeightTrainer::GoTo(const LogStore& log, const WeightSnapshot& snapshot, int64_t* mean_square) {
  zo_log_record record;
  for (uint32_t step = 0; step < snapshot.step; ++step) {
    if (ReadRecord(log, step, &record) != ZO_OK) return false;
    *mean_square = record.mean_square;
  }
  if (IsMeasurementDue(snapshot.step) && measuring_->read(this, log, snapshot.step) != ZO_OK) {
    return false;
  }
  return network_->ReadWeights(snapshot.weights) == ZO_OK && MarkOfWeights(after_) == snapshot.mark;
}

zo_status WeightTrainer::ImportLog(const LogStore& log, const WeightSnapshot* snapshot) {
  uint8_t own[ZO_LOG_HEADER_BYTES];
  uint8_t found[ZO_LOG_HEADER_BYTES];
  if (!zo_is_store_unit(log.unit)) return ZO_ERROR_ARGUMENT;
  if (network_ == nullptr || (log_ != nullptr && !StoreOfRun(*log_).Is(log))) return ZO_ERROR_ORDER;
  Header(log, own);
  // Equal settings give equal headers, byte for byte.
  zo_status status = zo_store_read(&log, 0, found, sizeof found);
  if (status != ZO_OK) return status;
  if (memcmp(found, own, sizeof own) != 0) return ZO_ERROR_LOG;
  int64_t mean_square = 0;
  uint32_t step = 0;
  const uint32_t header_checksum = zo_log_checksum(own, sizeof own);
  if (measuring_ != nullptr) status = measuring_->is_own(this, log, header_checksum);
  if (status != ZO_OK) return status;
  is_ready_ = is_best_ = is_suspended_ = is_unlogged_ = false;
  status = zo_control_resume(&control_, 0, 0);
  if (status != ZO_OK) return status;
  Rewind(header_checksum);
  if (snapshot != nullptr && GoTo(log, *snapshot, &mean_square)) {
    step = snapshot->step;
  } else {
    Rewind(header_checksum);
    mean_square = 0;
    status = network_->Restore();
    if (status != ZO_OK) return status;
  }
  zo_log_record record;
  while ((status = ReadRecord(log, step, &record)) == ZO_OK) {
    status = Replay(record);
    if (status != ZO_OK) return status;
    mean_square = record.mean_square;
    ++step;
  }
  if (status != ZO_ERROR_LOG) return status;
  at_ = StoreOfRun(log);
  is_ready_ = true;
  return zo_control_resume(&control_, step, mean_square);
}

zo_status WeightTrainer::ImportWeights(const LogStore& store) {
  if (network_ == nullptr || HasBegun() || zo_control_is_in_step(&control_) != 0) {
    return ZO_ERROR_ORDER;
  }
  at_ = {};  // a header that is there names other weights
  const zo_status status = network_->ImportWeights(store);
  is_ready_ = status != ZO_ERROR_RUNTIME;
  return status;
}

zo_status WeightTrainer::Settle() {
  if (!is_ready_) return ZO_ERROR_ORDER;
  if (zo_control_is_in_step(&control_) != 0) return Suspend(true);
  return control_.pending != 0 ? Abandon(0) : ZO_OK;
}

zo_status WeightTrainer::Evaluate(const SampleSource& source, uint32_t first, uint32_t count, Evaluation* evaluation) {
  const zo_status status = Settle();
  return status == ZO_OK ? network_->Evaluate(source, first, count, evaluation) : status;
}

zo_status WeightTrainer::ExportWeights(const WeightSink& sink) {
  const zo_status status = Settle();
  return status == ZO_OK ? network_->ExportWeights(sink) : status;
}

}  // namespace tflm_zo
