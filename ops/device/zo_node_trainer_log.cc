/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
// The log of a NodeTrainer: its header, snapshots and measurements, and the best state that was measured.
#include <string.h>

#include <initializer_list>

#include "ops/core/log/zo_crc32.h"
#include "ops/core/log/zo_store_units.h"
#include "ops/core/zo_little_endian.h"
#include "ops/device/zo_node_trainer.h"
#include "ops/device/zo_store_writer.h"

namespace tflm_zo {
namespace {

constexpr int32_t kNoLimit = 128;  // of a byte
// The beginning of a snapshot: its run, its number, and its steps.
constexpr uint32_t kNumberBytes = 8;
constexpr uint32_t kBeginningBytes = 12;

}  // namespace

// --- The best state ------------------------------------------------------------------------------

zo_status NodeTrainer::KeepBest(const Yardstick& yardstick) {
  if (!is_ready_ || IsInStep()) return ZO_ERROR_ORDER;
  const zo_status status = measurements_.Begin(network_, run_.step, yardstick);
  if (status != ZO_OK) return status;
  measuring_ = &kMeasuring;
  at_ = {};  // a header that is there is of a run that measures otherwise
  return ZO_OK;
}

uint32_t NodeTrainer::MeasurementAt(const LogStore& log, uint32_t step) const {
  return static_cast<uint32_t>(
      zo_measurement_at(RecordsAt(log), ZO_SNAPSHOT_RECORD_BYTES, measurements_.every(), log.unit, step));
}

const NodeTrainer::Measuring NodeTrainer::kMeasuring = {
    [](NodeTrainer* trainer) { return trainer->Measure(); },
    [](NodeTrainer* trainer, const LogStore& log) { return trainer->ReadMeasurements(log); },
    [](const NodeTrainer* trainer, const LogStore& log, uint32_t header_checksum) {
      return trainer->measurements_.IsOwn(log, trainer->MeasurementAt(log, 0), header_checksum);
    },
};

bool NodeTrainer::IsMeasurementDue() const {
  return measuring_ != nullptr && measurements_.IsDue(run_.settings.common.steps, run_.step);
}

zo_status NodeTrainer::Measure() {
  if (!IsMeasurementDue()) return ZO_OK;
  const Yardstick& yardstick = measurements_.yardstick();
  Evaluation found;
  const zo_status status = network_->Evaluate(yardstick.source, 0, yardstick.count, &found);
  if (status != ZO_OK) return status;
  const zo_measurement measured = measurements_.Of(run_.step, found);
  const bool better = measurements_.IsBetter(measured);
  if (log_ == nullptr) {
    at_ = {};
  } else {
    uint8_t record[ZO_MEASUREMENT_BYTES];
    zo_measurement_write(&measured, header_checksum_, record);
    const uint32_t at = MeasurementAt(*log_, run_.step);
    if (!StoreWriter(*log_, at).WriteAll(record, sizeof record)) return ZO_ERROR_STORE;
    // The weights before the first step need no slot.
    if (better && run_.step > 0) {
      const zo_status kept = WriteSlot(*log_, ZO_SNAPSHOT_BEST_SLOT, measurements_.count() + 1);
      if (kept != ZO_OK) return kept;
    }
  }
  measurements_.Add(measured);
  return ZO_OK;
}

// Reads measurements up to the present step of a log. ZO_ERROR_LOG: a measurement is damaged.
zo_status NodeTrainer::ReadMeasurements(const LogStore& log) {
  measurements_.Rewind();
  const uint32_t steps = run_.settings.common.steps;
  for (uint32_t step = 0; step <= run_.step;) {
    uint8_t record[ZO_MEASUREMENT_BYTES];
    zo_measurement measured;
    const uint32_t at = MeasurementAt(log, step);
    const zo_status status = zo_store_read(&log, at, record, sizeof record);
    if (status == ZO_ERROR_STORE) return status;
    if (status != ZO_OK || zo_measurement_read(record, header_checksum_, &measured) != ZO_OK || measured.step != step) {
      return step == run_.step ? ZO_OK : ZO_ERROR_LOG;  // it is still to be done
    }
    measurements_.Add(measured);
    if (step == steps) break;
    step = steps - step > measurements_.every() ? step + measurements_.every() : steps;
  }
  return ZO_OK;
}

zo_status NodeTrainer::RestoreBest(zo_measurement* best) {
  if (measuring_ == nullptr || !IsComplete()) return ZO_ERROR_ORDER;
  zo_status status = ZO_OK;
  if (measurements_.best().step == 0) {
    is_ready_ = false;
    status = network_->Restore();
  } else if (measurements_.best().step < run_.step) {
    uint32_t number = 0, step = 0;
    const uint32_t wanted = zo_measurement_number(measurements_.every(), measurements_.best().step) + 1;
    status = IsWhole(*log_, ZO_SNAPSHOT_BEST_SLOT, &number, &step);
    if (status == ZO_OK && number != wanted) status = ZO_ERROR_LOG;
    if (status != ZO_OK) return status;
    is_ready_ = false;
    status = ReadWeights(*log_, ZO_SNAPSHOT_BEST_SLOT);
  }
  if (status != ZO_OK) return status;
  is_ready_ = true;
  *best = measurements_.best();
  return ZO_OK;
}

// --- Log -----------------------------------------------------------------------------------------

uint32_t NodeTrainer::WeightBytes() const {
  uint32_t bytes = 0;
  for (uint32_t i = 0; i < run_.settings.tasks; ++i) {
    for (uint32_t j = 0; j < infos_[i].tensors; ++j) {
      const zo_tensor tensor = network_->tensor(infos_[i].first_tensor + j);
      bytes += tensor.fraction != nullptr ? 2 * tensor.size : tensor.size;
    }
  }
  return bytes;
}

uint32_t NodeTrainer::SlotAt(const LogStore& log, uint32_t slot) const {
  const uint32_t tasks = run_.settings.tasks;
  return zo_padded(zo_snapshot_header_bytes(tasks), log.unit) +
         slot * zo_padded(zo_snapshot_bytes(tasks, WeightBytes()), log.unit);
}

uint32_t NodeTrainer::RecordsAt(const LogStore& log) const {
  return SlotAt(log, zo_snapshot_slots(measurements_.every()));
}

zo_status NodeTrainer::EndOfLog(const LogStore** log, uint32_t* at, uint32_t* checksum) const {
  if (!IsComplete()) return ZO_ERROR_ORDER;
  *log = log_;
  *at = RecordsAt(*log_) + run_.step * zo_padded(ZO_SNAPSHOT_RECORD_BYTES, log_->unit) +
        measurements_.count() * zo_padded(ZO_MEASUREMENT_BYTES, log_->unit);
  *checksum = header_checksum_;
  return Settle();
}

void NodeTrainer::Header(const LogStore& log, uint8_t* bytes) const {
  const uint32_t count = run_.settings.tasks;
  zo_snapshot_header header = {};
  memcpy(header.fingerprint, network_->info().fingerprint, sizeof header.fingerprint);
  network_->MarkFingerprint(header.fingerprint);
  header.interval = interval_;
  header.weight_bytes = WeightBytes();
  header.data_checksum = data_checksum_;
  header.measure_every = measurements_.every();
  const uint32_t size = zo_snapshot_header_bytes(count);
  auto* entries =
      reinterpret_cast<zo_snapshot_task*>(reinterpret_cast<uint8_t*>(scratch_) + 2 * static_cast<size_t>(size));
  for (uint32_t i = 0; i < count; ++i) {
    const TaskInfo& info = infos_[i];
    const uint32_t tensor = network_->tensor(info.first_tensor).stream;
    entries[i] = {tensor, info.tensors, info.kind, info.queries, info.mu, info.rate, info.gain};
  }
  zo_snapshot_write_header(&header, &run_.settings, entries, bytes);
  zo_log_write_unit(bytes, log.unit);
}

// Finds the checksum of the samples, for the header.
zo_status NodeTrainer::KnowData() {
  uint32_t found;
  const zo_status status = network_->DataChecksum(source_, run_.settings.common.samples, &found);
  if (status != ZO_OK) return status;
  data_checksum_ = found;
  checked_ = 1;
  return ZO_OK;
}

zo_status NodeTrainer::WriteHeader(const LogStore& log) {
  if (!zo_is_store_unit(log.unit)) return ZO_ERROR_ARGUMENT;
  const zo_status known = checked_ != 0 ? ZO_OK : KnowData();
  if (known != ZO_OK) return known;
  uint8_t* bytes = reinterpret_cast<uint8_t*>(scratch_);
  const uint32_t size = zo_snapshot_header_bytes(run_.settings.tasks);
  // Slots that an older run has left are emptied before the header says whose they are.
  constexpr uint8_t kEmpty[8] = {};
  for (uint32_t slot = 0; slot < zo_snapshot_slots(measurements_.every()); ++slot) {
    const zo_status status = WriteSafely(log, SlotAt(log, slot), kEmpty, sizeof kEmpty);
    if (status != ZO_OK) return status;
  }
  snapshot_step_ = 0;
  Header(log, bytes);
  header_checksum_ = zo_log_checksum(bytes, size);
  const zo_status status = WriteSafely(log, 0, bytes, size);
  if (status == ZO_OK) at_ = StoreOfRun(log);
  return status;
}

zo_status NodeTrainer::SetLog(const LogStore* log) {
  if (log != nullptr) {
    if (!zo_is_store_unit(log->unit)) return ZO_ERROR_ARGUMENT;
    if (network_ == nullptr || (HasBegun() && !at_.Is(*log))) return ZO_ERROR_ORDER;
  }
  log_ = log;
  return ZO_OK;
}

// Writes the record of the last step.
zo_status NodeTrainer::WriteRecord() {
  if (log_ == nullptr) {
    at_ = {};
    return ZO_OK;
  }
  // The first one, if the log was given within its step.
  const zo_status status = at_.Is(*log_) ? ZO_OK : WriteHeader(*log_);
  if (status != ZO_OK) return status;
  uint8_t record[ZO_SNAPSHOT_RECORD_BYTES];
  zo_snapshot_write_record(run_.step - 1, mean_loss_, header_checksum_, record);
  // The generator refuses a run whose log may be too long for offsets of 32 bits.
  const auto at = static_cast<uint32_t>(
      zo_step_record_at(RecordsAt(*log_), ZO_SNAPSHOT_RECORD_BYTES, measurements_.every(), log_->unit, run_.step - 1));
  // Safe before the next snapshot is: until then the step is one that is repeated.
  return StoreWriter(*log_, at).WriteAll(record, sizeof record) ? ZO_OK : ZO_ERROR_STORE;
}

// Writes a snapshot of the weights after at least one step, if there is none of them.
zo_status NodeTrainer::WriteSnapshot() {
  if (snapshot_step_ == run_.step) return ZO_OK;
  // One that is taken between two that are due has the number, and so the slot, of the next.
  const uint32_t number = (run_.step + interval_ - 1) / interval_;
  const uint32_t slot = (number - 1) % 2;
  // Its records first, and the best state.
  if (!MakeSafe(*log_)) return ZO_ERROR_STORE;
  // The newest one stays whole until this one is, in the other slot.
  if (snapshot_step_ > 0 && snapshot_slot_ == slot) {
    const zo_status status = WriteSlot(*log_, 1 - slot, number);
    if (status != ZO_OK) return status;
    snapshot_slot_ = 1 - slot;
  }
  const zo_status status = WriteSlot(*log_, slot, number);
  if (status != ZO_OK) return status;
  snapshot_slot_ = slot;
  snapshot_step_ = run_.step;
  return ZO_OK;
}

// Calls does(array, bytes, limit) for the weights of a slot, in its order, until one is not ZO_OK.
// No value may be beyond the limit.
template <typename Does>
zo_status NodeTrainer::ForEachArray(const Does& does) const {
  for (int fractions = 0; fractions < 2; ++fractions) {
    for (uint32_t i = 0; i < run_.settings.tasks; ++i) {
      for (uint32_t j = 0; j < infos_[i].tensors; ++j) {
        const zo_tensor tensor = network_->tensor(infos_[i].first_tensor + j);
        int8_t* values = fractions != 0 ? tensor.fraction : tensor.weights;
        if (values == nullptr) continue;
        const bool is_limited = fractions == 0 && tensor.type != ZO_TENSOR_INT32;
        const zo_status status = does(values, tensor.size, is_limited ? tensor.limit : kNoLimit);
        if (status != ZO_OK) return status;
      }
    }
  }
  return ZO_OK;
}

zo_status NodeTrainer::WriteSlot(const LogStore& log, uint32_t slot, uint32_t number) const {
  StoreWriter writer(log, SlotAt(log, slot));
  uint8_t* head = reinterpret_cast<uint8_t*>(scratch_);
  const uint32_t head_bytes = zo_snapshot_bytes(run_.settings.tasks, 0) - 4;
  zo_snapshot_write_head(&run_, header_checksum_, number, head);
  uint32_t crc = zo_crc32(0, head, head_bytes);
  if (!writer.Write(head, head_bytes)) return ZO_ERROR_STORE;
  const zo_status status = ForEachArray([&](const int8_t* values, uint32_t size, int32_t) {
    crc = zo_crc32(crc, values, size);
    return writer.Write(reinterpret_cast<const uint8_t*>(values), size) ? ZO_OK : ZO_ERROR_STORE;
  });
  if (status != ZO_OK) return status;
  uint8_t end[4];
  zo_write_u32(end, crc);
  return writer.WriteAll(end, sizeof end) && MakeSafe(log) ? ZO_OK : ZO_ERROR_STORE;
}

zo_status NodeTrainer::ImportWeights(const LogStore& store) {
  if (network_ == nullptr || HasBegun() || IsInStep()) return ZO_ERROR_ORDER;
  at_ = {};  // a header that is there names other weights
  const zo_status status = network_->ImportWeights(store);
  is_ready_ = status != ZO_ERROR_RUNTIME;
  return status;
}

zo_status NodeTrainer::ExportLog(const LogStore& log) {
  if (!is_ready_ || IsInStep()) return ZO_ERROR_ORDER;
  if (run_.step == 0) return ZO_OK;
  if (log_ == nullptr || !StoreOfRun(*log_).Is(log)) return ZO_ERROR_ORDER;
  const zo_status status = is_ending_ ? EndStep() : MeasureWhereDue();
  return status == ZO_OK ? WriteSnapshot() : status;
}

// Whether a slot holds a snapshot of which every byte is as it was written, and no weight is beyond the limit, as one
// from a host may be: ZO_OK; ZO_ERROR_LOG: it does not; ZO_ERROR_STORE: it cannot be read.
zo_status NodeTrainer::IsWhole(const LogStore& log, uint32_t slot, uint32_t* number, uint32_t* step) const {
  uint8_t piece[64] = {};
  uint32_t at = SlotAt(log, slot), crc = 0;
  bool is_within = true;
  const auto read = [&](uint32_t size, int32_t limit) {
    for (uint32_t count; size > 0; size -= count, at += count) {
      count = size < sizeof piece ? size : static_cast<uint32_t>(sizeof piece);
      const zo_status status = zo_store_read(&log, at, piece, count);
      if (status != ZO_OK) return status;
      crc = zo_crc32(crc, piece, count);
      for (uint32_t i = 0; i < count; ++i) {
        const int32_t value = static_cast<int8_t>(piece[i]);
        is_within = is_within && value <= limit && value >= -limit;
      }
    }
    return ZO_OK;
  };
  zo_status status = read(kBeginningBytes, kNoLimit);
  *number = zo_snapshot_number(piece, header_checksum_);
  *step = zo_read_u32(piece + kNumberBytes);
  if (status == ZO_OK) {
    status = read(zo_snapshot_bytes(run_.settings.tasks, 0) - 4 - kBeginningBytes, kNoLimit);
  }
  if (status == ZO_OK) {
    status = ForEachArray([&](int8_t*, uint32_t size, int32_t limit) { return read(size, limit); });
  }
  if (status != ZO_OK) return status;
  const uint32_t found = crc;
  status = read(4, kNoLimit);
  if (status != ZO_OK) return status;
  return *number != 0 && is_within && zo_read_u32(piece) == found ? ZO_OK : ZO_ERROR_LOG;
}

zo_status NodeTrainer::ReadSnapshot(const LogStore& log, uint32_t slot) {
  uint8_t* head = reinterpret_cast<uint8_t*>(scratch_);
  const uint32_t head_bytes = zo_snapshot_bytes(run_.settings.tasks, 0) - 4;
  zo_status status = zo_store_read(&log, SlotAt(log, slot), head, head_bytes);
  if (status != ZO_OK) return status;
  if (zo_snapshot_read_head(&run_, head) != ZO_OK) return ZO_ERROR_LOG;
  if (measuring_ != nullptr) status = measuring_->read(this, log);
  return status == ZO_OK ? ReadWeights(log, slot) : status;
}

zo_status NodeTrainer::ReadWeights(const LogStore& log, uint32_t slot) {
  const zo_status restored = network_->FinishRestore();
  if (restored != ZO_OK) return restored;
  uint32_t at = SlotAt(log, slot) + zo_snapshot_bytes(run_.settings.tasks, 0) - 4;
  return ForEachArray([&](int8_t* values, uint32_t size, int32_t) {
    const zo_status status = zo_store_read(&log, at, values, size);
    at += size;
    return status;
  });
}

zo_status NodeTrainer::ImportLog(const LogStore& log) {
  if (!zo_is_store_unit(log.unit)) return ZO_ERROR_ARGUMENT;
  if (network_ == nullptr || (log_ != nullptr && !StoreOfRun(*log_).Is(log))) return ZO_ERROR_ORDER;
  const uint32_t size = zo_snapshot_header_bytes(run_.settings.tasks);
  uint8_t* own = reinterpret_cast<uint8_t*>(scratch_);
  uint8_t* found = own + size;
  zo_status status = KnowData();
  if (status != ZO_OK) return status;
  Header(log, own);
  status = zo_store_read(&log, 0, found, size);
  if (status != ZO_OK) return status;
  if (memcmp(own, found, size) != 0) return ZO_ERROR_LOG;
  const uint32_t header_checksum = zo_log_checksum(own, size);
  if (measuring_ != nullptr) status = measuring_->is_own(this, log, header_checksum);
  if (status != ZO_OK) return status;
  header_checksum_ = header_checksum;
  is_ready_ = is_ending_ = false;
  status = GoTo(log);
  if (status != ZO_OK) {
    // Nothing is known of a run, and the weights are those of no step.
    measurements_.Rewind();
    const zo_status back = zo_node_run_resume(&run_, 0, 0, nullptr);
    return back == ZO_OK ? status : back;
  }
  snapshot_step_ = run_.step;
  at_ = StoreOfRun(log);
  is_ready_ = true;
  return ZO_OK;
}

// Sets weights and state to the last complete snapshot, or to those before the first step.
zo_status NodeTrainer::GoTo(const LogStore& log) {
  uint32_t number = 0, steps[2] = {0, 0};
  bool whole[2];
  for (uint32_t slot = 0; slot < 2; ++slot) {
    const zo_status status = IsWhole(log, slot, &number, &steps[slot]);
    if (status == ZO_ERROR_STORE) return status;
    whole[slot] = status == ZO_OK;
  }
  const uint32_t newer = steps[1] > steps[0] ? 1 : 0;
  for (const uint32_t slot : {newer, 1 - newer}) {
    if (!whole[slot]) continue;
    snapshot_slot_ = slot;
    const zo_status status = ReadSnapshot(log, slot);
    if (status != ZO_ERROR_LOG) return status;
  }
  measurements_.Rewind();
  const zo_status status = zo_node_run_resume(&run_, 0, 0, nullptr);
  return status == ZO_OK ? network_->Restore() : status;
}

}  // namespace tflm_zo
