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

// Longest record of this build.
constexpr uint32_t kRecordBytes = 20 + 4 * ZO_MAX_QUERIES;

// Something that is written by itself, with room for what fills its last unit up.
template <uint32_t kBytes>
using Padded = uint8_t[kBytes + ZO_STORE_UNIT_MOST - 1];

// Writes such a thing in whole units, and makes it safe. Errors: ZO_ERROR_STORE.
zo_status WritePadded(const LogStore& log, uint32_t at, uint8_t* bytes, uint32_t count) {
  const uint32_t whole = zo_padded(count, log.unit);
  memset(bytes + count, 0xFF, whole - count);
  return zo_store_write(&log, at, bytes, whole) && MakeSafe(log) ? ZO_OK : ZO_ERROR_STORE;
}

}  // namespace

zo_status WeightTrainer::Init(Network* network, const uint8_t* block_segments,
                              const SampleSource& source) {
  network_ = network;
  source_ = source;
  is_suspended_ = false;
  measuring_ = nullptr;
  measurements_ = {};
  return zo_control_init(&control_, nullptr, block_segments);
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

// Leads the weights of a step in progress to those of the last whole step, or back.
zo_status WeightTrainer::Suspend(bool whole) {
  if (is_suspended_ == whole) return ZO_OK;
  zo_moves moves;
  zo_status status = zo_control_suspend_moves(&control_, is_suspended_ ? 1 : 0, &moves);
  if (status == ZO_OK) status = Move(moves);
  if (status == ZO_OK) is_suspended_ = whole;
  return status;
}

// Leads them to those of the last whole step for good; `executed` as zo_control_abandon takes it.
zo_status WeightTrainer::Abandon(uint32_t executed) {
  zo_moves moves;
  zo_control_abandon_moves(&control_, executed, &moves);
  return Move(moves);
}

zo_status WeightTrainer::TrainSlice(zo_report* report) {
  const ModelInfo& info = network_->info();
  *report = {};
  zo_status status = Suspend(false);
  if (status == ZO_OK && zo_control_is_in_step(&control_) == 0) status = BeginStep();
  if (status != ZO_OK) return status;
  zo_request request;
  zo_moves moves;
  status = zo_control_next_moves(&control_, &moves, &request);
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
  status = zo_control_report(&control_, network_->losses(), info.batch, report);
  if (status != ZO_OK || report->step_done == 0) return status;
  mean_loss_ = report->mean_loss;
  before_ = after_;
  status = log_ == nullptr ? ZO_OK : WriteRecord(*log_);
  return status == ZO_OK ? MeasureWhereDue() : status;
}

// What comes before the first invoke of a step.
zo_status WeightTrainer::BeginStep() {
  if (log_ != nullptr && control_.step == 0 && measurements_.count() == 0) {
    const zo_status status = WriteHeader(*log_);
    if (status != ZO_OK) return status;
  }
  return MeasureWhereDue();
}

void WeightTrainer::Header(const LogStore& log, uint8_t* bytes) const {
  memcpy(bytes, kLogHeader, ZO_LOG_HEADER_BYTES);
  network_->MarkFingerprint(bytes + ZO_LOG_FINGERPRINT_AT);
  zo_log_complete_header(bytes, measurements_.every());
  zo_log_write_unit(bytes, log.unit);
}

uint32_t WeightTrainer::RecordAt(const LogStore& log, uint32_t step) const {
  return zo_step_record_at(zo_padded(ZO_LOG_HEADER_BYTES, log.unit),
                           zo_log_record_bytes(Settings()->queries), measurements_.every(),
                           log.unit, step);
}

uint32_t WeightTrainer::MeasurementAt(const LogStore& log, uint32_t step) const {
  return zo_measurement_at(zo_padded(ZO_LOG_HEADER_BYTES, log.unit),
                           zo_log_record_bytes(Settings()->queries), measurements_.every(),
                           log.unit, step);
}

uint32_t WeightTrainer::LogBytes() const {
  const uint32_t unit = log_ != nullptr ? log_->unit : 1;
  return zo_padded(ZO_LOG_HEADER_BYTES, unit) +
         control_.step * zo_padded(zo_log_record_bytes(Settings()->queries), unit) +
         measurements_.count() * zo_padded(ZO_MEASUREMENT_BYTES, unit);
}

// A run with the same settings and other samples has the same header: its first record, of a step
// or a measurement, which goes on from there, is erased. The others go on from a record that this
// run will not have.
zo_status WeightTrainer::EraseFirstRecord(const LogStore& log) const {
  const uint32_t size = zo_log_record_bytes(Settings()->queries);
  const uint32_t at = zo_padded(ZO_LOG_HEADER_BYTES, log.unit);
  Padded<kRecordBytes> found;
  const zo_status status = zo_store_read(&log, at, found, size);
  if (status == ZO_ERROR_STORE) return status;
  if (status != ZO_OK || zo_is_erased(found, size)) return ZO_OK;
  memset(found, 0xFF, size);
  return WritePadded(log, at, found, size);
}

zo_status WeightTrainer::WriteHeader(const LogStore& log) {
  if (!zo_is_store_unit(log.unit)) return ZO_ERROR_ARGUMENT;
  const zo_status status = EraseFirstRecord(log);
  if (status != ZO_OK) return status;
  Padded<ZO_LOG_HEADER_BYTES> header;
  Header(log, header);
  after_ = zo_log_checksum(header, ZO_LOG_HEADER_BYTES);
  return WritePadded(log, 0, header, ZO_LOG_HEADER_BYTES);
}

zo_status WeightTrainer::WriteRecord(const LogStore& log) {
  const uint32_t size = zo_log_record_bytes(Settings()->queries);
  const uint32_t step = control_.step - 1;
  Padded<kRecordBytes> record;
  zo_log_write_record(&control_, mean_loss_, before_, record);
  after_ = zo_log_checksum(record, size);
  return WritePadded(log, RecordAt(log, step), record, size);
}

zo_status WeightTrainer::ExportLog(const LogStore& log) {
  if (control_.step == 0) return ZO_OK;
  const uint32_t after = after_;  // a measurement may have followed
  const zo_status status = WriteRecord(log);
  after_ = after;
  return status;
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
    [](WeightTrainer* trainer, const LogStore& log, uint32_t step) {
      return trainer->ReadMeasurement(log, step);
    },
};

bool WeightTrainer::IsMeasurementDue(uint32_t step) const {
  return measuring_ != nullptr && measurements_.IsDue(Settings()->steps, step);
}

zo_status WeightTrainer::KeepBest(const Yardstick& yardstick) {
  if (zo_control_is_in_step(&control_) != 0) return ZO_ERROR_ORDER;
  const zo_status status = measurements_.Begin(network_, control_.step, yardstick);
  if (status == ZO_OK) measuring_ = &kMeasuring;
  return status;
}

zo_status WeightTrainer::Measure() {
  if (!IsMeasurementDue(control_.step)) return ZO_OK;
  const Yardstick& yardstick = measurements_.yardstick();
  Evaluation found;
  const zo_status status = Evaluate(yardstick.source, 0, yardstick.count, &found);
  if (status != ZO_OK) return status;
  const zo_measurement measured = measurements_.Of(control_.step, found);
  if (log_ != nullptr) {
    Padded<ZO_MEASUREMENT_BYTES> record;
    zo_measurement_write(&measured, after_, record);
    const zo_status written =
        WritePadded(*log_, MeasurementAt(*log_, control_.step), record, ZO_MEASUREMENT_BYTES);
    if (written != ZO_OK) return written;
    after_ = zo_log_checksum(record, ZO_MEASUREMENT_BYTES);
  }
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
  if (!done() || measuring_ == nullptr || IsMeasurementDue(control_.step) || log_ == nullptr) {
    return ZO_ERROR_ORDER;
  }
  const zo_status settled = Settle();
  if (settled != ZO_OK) return settled;
  const zo_measurement found = measurements_.best();
  WeightTrainer replay = *this;
  uint8_t header[ZO_LOG_HEADER_BYTES];
  Header(*log_, header);
  const uint32_t header_checksum = zo_log_checksum(header, sizeof header);
  // Nothing has changed where the log does not lead there.
  for (const bool moves : {false, true}) {
    replay.Rewind(header_checksum);
    zo_status status = moves ? network_->Restore() : ZO_OK;
    for (uint32_t step = 0; status == ZO_OK && step < found.step; ++step) {
      zo_log_record record;
      status = replay.ReadRecord(*log_, step, &record);
      if (status == ZO_OK && moves) status = Replay(record);
    }
    if (status != ZO_OK) return status;
  }
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
  before_ = after_;
  after_ = zo_log_checksum(bytes, size);
  mean_loss_ = record->mean_loss;
  return ZO_OK;
}

uint32_t WeightTrainer::MarkOfWeights() const {
  uint8_t bytes[4];
  zo_write_u32(bytes, network_->checksum());
  return zo_crc32(after_, bytes, sizeof bytes);
}

zo_status WeightTrainer::SnapshotMark(uint32_t* mark) {
  const zo_status status = Settle();
  if (status == ZO_OK) *mark = MarkOfWeights();
  return status;
}

// Sets the weights of a snapshot. The records before it are read, not replayed: with them comes the
// checksum that its mark goes on from.
bool WeightTrainer::GoTo(const LogStore& log, const WeightSnapshot& snapshot,
                         int64_t* mean_square) {
  zo_log_record record;
  for (uint32_t step = 0; step < snapshot.step; ++step) {
    if (ReadRecord(log, step, &record) != ZO_OK) return false;
    *mean_square = record.mean_square;
  }
  if (IsMeasurementDue(snapshot.step) && measuring_->read(this, log, snapshot.step) != ZO_OK) {
    return false;
  }
  return network_->ReadWeights(snapshot.weights) == ZO_OK && MarkOfWeights() == snapshot.mark;
}

zo_status WeightTrainer::ImportLog(const LogStore& log, const WeightSnapshot* snapshot) {
  uint8_t own[ZO_LOG_HEADER_BYTES];
  uint8_t found[ZO_LOG_HEADER_BYTES];
  if (!zo_is_store_unit(log.unit)) return ZO_ERROR_ARGUMENT;
  Header(log, own);
  // Equal settings give equal headers, byte for byte.
  zo_status status = zo_store_read(&log, 0, found, sizeof found);
  if (status != ZO_OK) return status;
  if (memcmp(found, own, sizeof own) != 0) return ZO_ERROR_LOG;
  int64_t mean_square = 0;
  uint32_t step = 0;
  const uint32_t header_checksum = zo_log_checksum(own, sizeof own);
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
  is_suspended_ = false;
  return zo_control_resume(&control_, step, mean_square);
}

zo_status WeightTrainer::ImportWeights(const LogStore& store) {
  const bool has_begun = control_.step != 0 || zo_control_is_in_step(&control_) != 0;
  return has_begun ? ZO_ERROR_ORDER : network_->ImportWeights(store);
}

zo_status WeightTrainer::Settle() {
  if (zo_control_is_in_step(&control_) != 0) return Suspend(true);
  return control_.pending != 0 ? Abandon(0) : ZO_OK;
}

zo_status WeightTrainer::Evaluate(const SampleSource& source, uint32_t first, uint32_t count,
                                  Evaluation* evaluation) {
  const zo_status status = Settle();
  return status == ZO_OK ? network_->Evaluate(source, first, count, evaluation) : status;
}

zo_status WeightTrainer::ExportWeights(const WeightSink& sink) {
  const zo_status status = Settle();
  return status == ZO_OK ? network_->ExportWeights(sink) : status;
}

}  // namespace tflm_zo
