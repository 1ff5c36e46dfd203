/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The trainer of a generated folder as functions that Python calls, with faults to order: samples
 * that cannot be read, writes of which only a part arrives. See emulation.py.
 */
#include <string.h>

#include <initializer_list>

#include "stores.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "zo_trainer.h"

namespace {

tflm_zo::Trainer trainer;
bool in_c = false;  // the called functions: the trainer's in C

// --- Samples -------------------------------------------------------------------------------------

constexpr uint32_t kMaxArrays = 8;
#ifdef ZO_SEQUENCE
constexpr uint32_t kSteps = ZO_SEQUENCE;
#else
constexpr uint32_t kSteps = 1;
#endif

struct Samples {
  const int8_t* inputs[kMaxArrays];
  uint32_t input_bytes[kMaxArrays];
  const uint8_t* labels;
  uint32_t label_bytes;
  uint32_t count;
  uint32_t reads;
  uint32_t failing_read;  // number of the read that fails, from 1; 0: none
};

bool ReadSample(void* context, uint32_t sample, int8_t* const* inputs, void* label) {
  auto* from = static_cast<Samples*>(context);
  if (++from->reads == from->failing_read || sample >= kSteps * from->count) return false;
  for (uint32_t i = 0; i < kMaxArrays; ++i) {
    const uint32_t bytes = from->input_bytes[i];
    if (bytes > 0 && inputs[i] != nullptr) memcpy(inputs[i], from->inputs[i] + sample * bytes, bytes);
  }
  if (label != nullptr) memcpy(label, from->labels + sample * from->label_bytes, from->label_bytes);
  return true;
}

tflm_zo::SampleSource SourceOf(Samples* samples) { return {ReadSample, samples}; }

// --- Store ---------------------------------------------------------------------------------------

struct Store {
  uint8_t* bytes;
  uint32_t room;  // bytes that it has
  uint32_t size;  // so many can be reached; calls beyond fail
  uint32_t unit;
  uint32_t reads;
  uint32_t failing_read;  // number of the read that fails, from 1; 0: none
  uint32_t writes;
  uint32_t failing_write;  // number of the first write that fails, from 1; 0: none
  uint32_t failing_writes;
  uint32_t arrives;  // bytes of the first one that arrive; of the others, none
  uint32_t in_part;  // not 0: it is that of stores.h instead
  // Told of each write before it is done, or null.
  void (*tell)(uint32_t offset, const uint8_t* bytes, uint32_t count);
};

bool WriteStore(void* context, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  auto* store = static_cast<Store*>(context);
  if (offset > store->size || count > store->size - offset) return false;
  if (offset % store->unit != 0 || count % store->unit != 0) return false;
  const uint32_t number = ++store->writes - store->failing_write;
  const bool fails = store->failing_write != 0 && number < store->failing_writes;
  if (fails && number > 0) return false;
  const bool tears = fails && store->arrives < count;
  if (tears) count = store->arrives - store->arrives % store->unit;
  if (store->tell != nullptr) store->tell(offset, bytes, count);
  memcpy(store->bytes + offset, bytes, count);
  // Of a unit that was being programmed nothing can be said.
  if (tears && store->unit > 1) memset(store->bytes + offset + count, 0x5A, store->unit);
  return !fails;
}

int32_t ReadStore(void* context, uint32_t offset, uint8_t* bytes, uint32_t count) {
  constexpr int32_t kFailed = -5;
  auto* store = static_cast<Store*>(context);
  if (++store->reads == store->failing_read) return kFailed;
  if (offset > store->size || count > store->size - offset) return kFailed;
  memcpy(bytes, store->bytes + offset, count);
  return static_cast<int32_t>(count);
}

zo_places places;

// Without bytes: the log of the active place.
tflm_zo::LogStore StoreOf(Store* store) {
  if (store->in_part != 0) return stores::Log();
  if (store->bytes == nullptr) return places.log;
  return {WriteStore, ReadStore, store, nullptr, store->unit, store->room};
}

tflm_zo::LogStore log_store = {};
tflm_zo::LogStore link_store = {};

// --- Link ----------------------------------------------------------------------------------------

zo_link device_end;
#if HAS_SNAPSHOTS
zo_fleet own_fleet = {};
#endif
uint8_t link_buffer[1 << 12];
uint32_t adoptions = 0;
zo_status (*reset)() = nullptr;
bool (*send)(const uint8_t* bytes, uint32_t count) = nullptr;

zo_status ResumePlace() { return in_c ? zo_trainer_resume_place(&places) : tflm_zo::ResumePlace(&trainer, places); }

zo_status Adopt(void*) {
  ++adoptions;
  const zo_status status = reset();
  return status == ZO_OK ? ResumePlace() : status;
}

bool Send(void*, const uint8_t* bytes, uint32_t count) { return send(bytes, count); }

// --- Weights -------------------------------------------------------------------------------------

struct Weights {
  uint8_t* bytes;
  uint32_t size;
  uint32_t at;
};

bool TakeWeights(void* context, uint32_t, const int8_t* weights, uint32_t count) {
  auto* to = static_cast<Weights*>(context);
  if (count > to->size - to->at) return false;
  memcpy(to->bytes + to->at, weights, count);
  to->at += count;
  return true;
}

// --- Functions of some trainers only ------------------------------------------------------------

template <typename T>
auto Settle(T* of, int) -> decltype(of->Settle()) {
  return of->Settle();
}

template <typename T>
zo_status Settle(T*, long) {
  return ZO_OK;
}

// ZO_WORKSPACE_BYTES is for 32-bit targets: a run's own structs are larger here.
uint32_t WorkspaceBytes() {
  size_t bytes = 0;
#if TRAINS_NODES
  bytes = tflm_zo::NodeTrainer::WorkspaceBytes(tflm_zo::kInfo, tflm_zo::kSettings, tflm_zo::kTasks);
#else
  return ZO_WORKSPACE_BYTES;
#endif
  size_t boundaries = 0;
  for (uint32_t k = 0; k < ZO_SEGMENTS; ++k) {
    const tflm_zo::Segment& segment = tflm_zo::kInfo.segments[k];
    for (const int32_t at : {segment.kept_at, segment.passing_at}) {
      if (at < 0) continue;
      size_t own = k == 0 ? tflm_zo::kInfo.inputs[0].bytes : segment.boundary_bytes;
#if TRAINS_NODES
      if (segment.of_parts != 0) own *= tflm_zo::kSettings.common.parts;
#endif
      const size_t end = static_cast<size_t>(at) + (tflm_zo::kInfo.batch * own + 7) / 8 * 8;
      if (end > boundaries) boundaries = end;
    }
  }
#if TRAINS_NODES && ZO_WITH_BACKWARD
  for (uint32_t i = 0; i < tflm_zo::kSettings.tasks; ++i) {
    const tflm_zo::BackwardInfo* backward = tflm_zo::kTasks[i].backward;
    for (uint32_t f = 0; backward != nullptr && f < backward->field_count; ++f) {
      const tflm_zo::ErrorFieldInfo& field = backward->fields[f];
      if (field.at < 0) continue;
      const size_t end = static_cast<size_t>(field.at) + (2 * field.count + 7) / 8 * 8;
      if (end > boundaries) boundaries = end;
    }
  }
#endif
  return static_cast<uint32_t>((tflm_zo::kInfo.shared_arena > 0 ? 0 : boundaries) + bytes);
}

}  // namespace

extern "C" {

void device_sizes(uint32_t* sizes) {
  sizes[0] = ZO_ARENA_BYTES;
  sizes[1] = WorkspaceBytes();
  sizes[2] = ZO_SEGMENTS;
}

void device_set_host(tflite::Host own) { tflite::host = own; }

const void* device_segment_model(uint32_t number) { return tflm_zo::kInfo.segments[number].model; }

int device_init(uint8_t* arena, size_t arena_bytes, uint8_t* workspace, size_t workspace_bytes, Samples* samples) {
  const tflm_zo::SampleSource source = SourceOf(samples);
  if (in_c) return zo_trainer_init(arena, arena_bytes, workspace, workspace_bytes, &source);
  trainer = tflm_zo::Trainer();
  return trainer.Init(arena, arena_bytes, workspace, workspace_bytes, source);
}

void device_power_on() { trainer = tflm_zo::Trainer(); }
void device_use_c(int own) { in_c = own != 0; }

// Samples and stores as the trainer's functions in C take them.
void device_source(Samples* samples, tflm_zo::SampleSource* source) { *source = SourceOf(samples); }
void device_store(Store* store, tflm_zo::LogStore* log) { *log = StoreOf(store); }

int device_set_log(Store* store) {
  if (store == nullptr) return in_c ? zo_trainer_set_log(nullptr) : trainer.SetLog(nullptr);
  const tflm_zo::LogStore before = log_store;
  log_store = StoreOf(store);
  const zo_status status = in_c ? zo_trainer_set_log(&log_store) : trainer.SetLog(&log_store);
  if (status != ZO_OK) log_store = before;
  return status;
}

// --- A log in memory whose power fails

int device_memory_begin(uint32_t kind, uint32_t sectors, uint32_t sector_bytes, uint32_t page_bytes, uint32_t unit,
                        uint32_t file_bytes) {
  return stores::Begin(kind, sectors, sector_bytes, page_bytes, unit, file_bytes);
}

const flash_part* device_memory() { return &stores::Part(); }
void device_memory_take(const flash_part* other) { flash_part_take(&stores::Part(), other); }
int device_memory_mount() { return stores::Mount() ? ZO_OK : ZO_ERROR_STORE; }
int device_memory_clear() { return stores::Clear() ? ZO_OK : ZO_ERROR_STORE; }
void device_memory_cut_in(uint32_t operations) { flash_part_cut_in(&stores::Part(), operations); }
void device_memory_fail(uint32_t after, uint32_t operations) { flash_part_fail(&stores::Part(), after, operations); }
void device_memory_power_on() { flash_part_power_on(&stores::Part()); }
void device_memory_record() { flash_part_record(&stores::Part()); }
void device_memory_cut_at(uint32_t operation) { flash_part_cut_at(&stores::Part(), operation); }
uint32_t device_memory_operations() { return stores::Part().operation_count; }
void device_memory_fail_read(uint32_t read) {
  stores::Part().reads = 0;
  stores::Part().failing_read = read;
}
uint32_t device_memory_faults() { return stores::Part().faults; }
int device_memory_content(uint8_t* bytes, uint32_t count) { return stores::Content(bytes, count); }
uint32_t device_memory_bytes() { return stores::Log().bytes; }
int device_memory_read(uint8_t* bytes, uint32_t count) {
  const tflm_zo::LogStore& log = stores::Log();
  return zo_store_read(&log, 0, bytes, count) == ZO_OK;
}
int device_memory_set_log() { return trainer.SetLog(&stores::Log()); }
int device_memory_export_log() { return trainer.ExportLog(stores::Log()); }
int device_memory_import_log() { return trainer.ImportLog(stores::Log()); }

// --- A link to a host. `whole`: the store has two places; else it is the log. `reset` sets the
// trainer up anew.

static int BeginLink(int whole, uint32_t buffer_bytes, zo_status (*own_reset)(),
                     bool (*own_send)(const uint8_t* bytes, uint32_t count)) {
  reset = own_reset;
  send = own_send;
  adoptions = 0;
  const uint8_t* fingerprint = trainer.network().info().fingerprint;
  if (buffer_bytes > sizeof link_buffer) return ZO_ERROR_ARGUMENT;
  device_end = {};
  device_end.buffer = link_buffer;
  device_end.buffer_bytes = buffer_bytes;
  device_end.to = {Send, nullptr};
  device_end.fingerprint = fingerprint;
  if (whole != 0) {
    const zo_status status = zo_places_mount(&places, &link_store, ZO_TRAINABLE_BYTES, fingerprint);
    if (status != ZO_OK) return status;
    const zo_status resumed = ResumePlace();
    if (resumed != ZO_OK) return resumed;
    return zo_link_begin_with_places(&device_end, &places, Adopt, nullptr);
  }
  device_end.log = &link_store;
  const zo_status resumed = trainer.ImportLog(link_store);
  if (resumed != ZO_OK && resumed != ZO_ERROR_LOG) return resumed;
  const zo_status logs = trainer.SetLog(&link_store);
  return logs == ZO_OK ? zo_link_begin(&device_end) : logs;
}

int device_link_begin(Store* store, int whole, uint32_t buffer_bytes, zo_status (*own_reset)(),
                      bool (*own_send)(const uint8_t* bytes, uint32_t count)) {
  link_store = StoreOf(store);
  return BeginLink(whole, buffer_bytes, own_reset, own_send);
}

// The same in memory whose power fails.
int device_memory_link_begin(int whole, uint32_t buffer_bytes, zo_status (*own_reset)(),
                             bool (*own_send)(const uint8_t* bytes, uint32_t count)) {
  link_store = stores::Log();
  return BeginLink(whole, buffer_bytes, own_reset, own_send);
}

uint32_t device_link_serve(const uint8_t* bytes, uint32_t count) { return zo_link_serve(&device_end, bytes, count); }

// A part in a fleet, after a link has begun: trainers of nodes have none.
#if HAS_SNAPSHOTS
int device_fleet_begin() {
  if (in_c) {
    zo_trainer_join_fleet(&own_fleet);
  } else {
    trainer.JoinFleet(&own_fleet);
  }
  return zo_link_add_fleet(&device_end, &own_fleet);
}

int device_take_record(const uint8_t* record, uint32_t count) { return trainer.TakeRecord(record, count); }

// `samples`: of the answer; 0: there are more slices to do.
int device_answer_slice(uint32_t* samples) {
  zo_fleet_answer answer{};
  const zo_status status = trainer.AnswerSlice(&answer);
  *samples = answer.samples;
  return status;
}

int device_is_evaluating() { return zo_fleet_is_evaluating(&own_fleet); }
void device_work() { zo_fleet_work(&own_fleet); }
#endif

uint32_t device_adoptions() { return adoptions; }

int device_train_step(zo_report* report) { return in_c ? zo_trainer_step(report) : trainer.TrainStep(report); }
int device_train_slice(zo_report* report) { return in_c ? zo_trainer_slice(report) : trainer.TrainSlice(report); }
uint32_t device_step() { return in_c ? zo_trainer_steps() : trainer.step(); }
int device_settle() { return in_c ? zo_trainer_settle() : Settle(&trainer, 0); }
uint32_t device_checksum() { return in_c ? zo_trainer_checksum() : trainer.network().checksum(); }

// `weights`: of a snapshot, or null.
int device_import_log(Store* store, Store* weights, uint32_t step, uint32_t mark) {
  [[maybe_unused]] tflm_zo::WeightSnapshot snapshot = {{}, step, mark};
  if (weights != nullptr) snapshot.weights = StoreOf(weights);
  const tflm_zo::LogStore log = StoreOf(store);
#if HAS_SNAPSHOTS
  if (weights != nullptr) {
    return in_c ? zo_trainer_import_log_from(&log, &snapshot) : trainer.ImportLog(log, &snapshot);
  }
#endif
  return in_c ? zo_trainer_import_log(&log) : trainer.ImportLog(log);
}

#if HAS_SNAPSHOTS
int device_snapshot_mark(uint32_t* mark) { return in_c ? zo_trainer_snapshot_mark(mark) : trainer.SnapshotMark(mark); }
uint32_t device_log_bytes() { return trainer.LogBytes(); }
#else
int device_snapshot_mark(uint32_t*) { return ZO_ERROR_ARGUMENT; }
uint32_t device_log_bytes() { return 0; }
#endif

int device_keep_best(Samples* samples, uint32_t every) {
  const tflm_zo::Yardstick yardstick = {SourceOf(samples), samples->count, every};
  return in_c ? zo_trainer_keep_best(&yardstick) : trainer.KeepBest(yardstick);
}

int device_restore_best(zo_measurement* best) {
  return in_c ? zo_trainer_restore_best(best) : trainer.RestoreBest(best);
}

int device_import_weights(Store* store) {
  const tflm_zo::LogStore weights = StoreOf(store);
  return in_c ? zo_trainer_import_weights(&weights) : trainer.ImportWeights(weights);
}
int device_export_log(Store* store) {
  const tflm_zo::LogStore log = StoreOf(store);
  return in_c ? zo_trainer_export_log(&log) : trainer.ExportLog(log);
}

int device_evaluate(Samples* samples, uint32_t first, uint32_t count, tflm_zo::Evaluation* found) {
  const tflm_zo::SampleSource source = SourceOf(samples);
  return in_c ? zo_trainer_evaluate(&source, first, count, found) : trainer.Evaluate(source, first, count, found);
}

int device_export_weights(Weights* weights) {
  const tflm_zo::WeightSink sink = {TakeWeights, weights};
  return in_c ? zo_trainer_export_weights(&sink) : trainer.ExportWeights(sink);
}

#ifdef ZO_SEQUENCE
int device_stream(const int8_t* input, int8_t* output, int continues) {
  return in_c ? zo_trainer_predict(&input, output, continues != 0) : trainer.Predict(&input, output, continues != 0);
}
#else
int device_predict(const int8_t* input, int8_t* output) {
  return in_c ? zo_trainer_predict(&input, output) : trainer.Predict(&input, output);
}
#endif

// Computes the outputs of samples from `first` on, like the guide's Predict.
int device_infer(Samples* samples, uint32_t first, int8_t* outputs) {
  const tflm_zo::SampleSource source = SourceOf(samples);
  const tflm_zo::Feed feed = {&source, nullptr, first, samples->count - 1};
  const zo_status status = trainer.network().Run(&feed, false, 0, false);
  if (status != ZO_OK) return status;
  const tflm_zo::ModelInfo& info = trainer.network().info();
  memcpy(outputs, trainer.network().output(), info.batch * info.output.bytes);
  return ZO_OK;
}

}  // extern "C"
