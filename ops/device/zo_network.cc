/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/device/zo_network.h"

#include <string.h>

#include <new>

#include "ops/core/graph/zo_command.h"
#include "ops/core/log/zo_crc32.h"
#include "tensorflow/lite/micro/micro_allocator.h"
#include "tensorflow/lite/schema/schema_generated.h"

namespace tflm_zo {
namespace {

// Whether the loss is one of classes, in a build that has others.
bool IsOfClasses(const ModelInfo& info) {
  return !ZO_WITH_OTHER_LOSSES || info.loss.kind == ZO_LOSS_CROSS_ENTROPY || info.loss.kind == ZO_LOSS_FLOOR_LOG2;
}

}  // namespace

uint32_t Feed::number(uint32_t i) const {
  const uint32_t sample = last == kInOrder ? zo_sample_at(order, first + i) : first + i < last ? first + i : last;
#ifdef ZO_SEQUENCE
  return sample * steps + step;
#else
  return sample;
#endif
}

tflite::MicroInterpreter* Network::interpreter(uint32_t segment) const {
  return reinterpret_cast<tflite::MicroInterpreter*>(interpreters_ + segment * sizeof(tflite::MicroInterpreter));
}

// The arena begins with the directory, in which weight ops publish the addresses of their tensors.
size_t Network::DirectoryBytes() const {
  return (info().trainable_count * sizeof(zo_directory_entry) + 15u) / 16u * 16u;
}

zo_status Network::Init(const tflite::MicroOpResolver& resolver, uint8_t* arena, size_t arena_bytes,
                        unsigned char* interpreters, zo_directory* directories, int8_t* boundaries) {
  is_ready_ = false;
  if (arena == nullptr) return ZO_ERROR_MEMORY;
  if (reinterpret_cast<uintptr_t>(arena) % 16u != 0) return ZO_ERROR_ARGUMENT;
  resolver_ = &resolver;
  arena_ = arena;
  arena_bytes_ = arena_bytes;
  const size_t before = DirectoryBytes();
  if (arena_bytes < before) return ZO_ERROR_MEMORY;
  auto* entries = reinterpret_cast<zo_directory_entry*>(arena);
  interpreters_ = interpreters;
  entries_ = entries;
  directories_ = directories;
  boundaries_ = boundaries;
  base_ = {};
  base_mark_ = 0;
  part_ = 0;
  is_restoring_ = false;
  arena += before;
  arena_bytes -= before;
  // TFLM itself does not check that its own objects fit, and if there is next to nothing left
  // for its planner, the size of that wraps around.
  constexpr size_t kAlignment = 16;
  if (arena_bytes < info().least_arena ||
      arena_bytes < tflite::MicroAllocator::GetDefaultTailUsage(false) + kAlignment) {
    return ZO_ERROR_MEMORY;
  }
  tflite::MicroAllocator* allocator = tflite::MicroAllocator::Create(arena, arena_bytes);
  for (uint32_t k = 0; k <= LastSegment(); ++k) {
    const Segment& segment = info().segments[k];
    const tflite::Model* model = tflite::GetModel(segment.model);
    if (model->version() != TFLITE_SCHEMA_VERSION) return ZO_ERROR_RUNTIME;
    tflite::MicroInterpreter* made = new (interpreter(k)) tflite::MicroInterpreter(model, resolver, allocator);
    directories[k] = {ZO_DIRECTORY_MAGIC, segment.tensors, 0, entries + segment.first_tensor, nullptr};
    if (made->SetMicroExternalContext(&directories[k]) != kTfLiteOk) return ZO_ERROR_RUNTIME;
    if (made->AllocateTensors() != kTfLiteOk) return ZO_ERROR_MEMORY;
    if (info().shared_arena == 0 || (segment.activations == 0 && k < LastSegment())) continue;
    // TFLM's own memory grows from the arena's end, so that this is the lowest piece of it.
    const auto* lowest = static_cast<const uint8_t*>(allocator->AllocatePersistentBuffer(1));
    if (lowest == nullptr) return ZO_ERROR_MEMORY;
    const size_t head = allocator->used_bytes() - static_cast<size_t>(arena + arena_bytes - lowest);
    if (segment.activations > 0 && head > segment.activations) return ZO_ERROR_MEMORY;
    if (k < LastSegment()) continue;
    const size_t scratch = head > info().shared_activations ? head - info().shared_activations : 0;
    boundaries_ = reinterpret_cast<int8_t*>(arena + (scratch + 15u) / 16u * 16u);
    if (lowest < reinterpret_cast<uint8_t*>(boundaries_) + info().shared_arena) return ZO_ERROR_MEMORY;
  }
  is_ready_ = true;
  const zo_status status = Run(nullptr, false, 0, false);  // copies the initial weights in
  is_ready_ = status == ZO_OK;
  return status;
}

int8_t* Network::entering(uint32_t segment) {
  if (!ZO_WITH_SEGMENTS) return nullptr;
  const int8_t index = info().segments[segment].boundary_input;
  return index == kNone ? nullptr : interpreter(segment)->input(static_cast<size_t>(index))->data.int8;
}

int8_t* Network::kept(uint32_t segment) const {
  if (!ZO_WITH_SEGMENTS) return nullptr;
  const Segment& own = info().segments[segment];
  const uint32_t before = own.of_parts != 0 ? part_ * ZO_BATCH * own.boundary_bytes : 0;
  return own.kept_at < 0 ? nullptr : place(own.kept_at) + before;
}

int8_t* Network::place(int32_t at) const { return boundaries_ + at; }

// The place of a segment's input, for itself and for later segments; null: nobody reads it.
int8_t* Network::passing(uint32_t segment, Keep keep) const {
  const Segment& own = info().segments[segment];
  const bool keeps = keep == Keep::kAll || (keep == Keep::kOnce && own.recomputed == 0);
  int8_t* kept_place = keeps ? kept(segment) : nullptr;
  return !ZO_WITH_SKIPS || kept_place != nullptr || own.passing_at < 0 ? kept_place : place(own.passing_at);
}

// Gives a segment the inputs of earlier ones, and keeps its input: behind a Rerun perhaps in the arena.
void Network::Pass(uint32_t segment, uint32_t start, Keep keep) {
  const Segment& own = info().segments[segment];
  for (uint32_t i = 0; ZO_WITH_SKIPS && i < own.skips; ++i) {
    const Skip& skip = info().skips[own.first_skip + i];
    const int8_t* from = skip.segment < start ? kept(skip.segment) : passing(skip.segment, keep);
    memcpy(interpreter(segment)->input(skip.input)->data.int8, from,
           ZO_BATCH * info().segments[skip.segment].boundary_bytes);
  }
  int8_t* const to = segment > 0 ? passing(segment, keep) : nullptr;
  if (to != nullptr) {
    memmove(to, entering(segment), ZO_BATCH * own.boundary_bytes);
  }
}

// Gives a segment the output of the one before, unless it is the first that runs, and its other inputs.
void Network::Enter(uint32_t segment, uint32_t start, Keep keep) {
  if (ZO_WITH_SEGMENTS && segment > start) {
    // The activations of both segments share their memory.
    const auto output = static_cast<size_t>(info().segments[segment - 1].boundary_output);
    memmove(entering(segment), interpreter(segment - 1)->output(output)->data.int8,
            ZO_BATCH * info().segments[segment].boundary_bytes);
  }
  Pass(segment, start, keep);
}

// The trainers move weights themselves, so a command has no instructions.
void Network::SetCommand(uint32_t segment, uint32_t flags) {
  const int8_t index = info().segments[segment].command;
  if (index == kNone) return;
  int32_t* words = interpreter(segment)->input(static_cast<size_t>(index))->data.i32;
  words[0] = flags != 0u ? static_cast<int32_t>(ZO_COMMAND_MAGIC | flags) : 0;
  words[1] = 0;
}

zo_status Network::CheckLabels(const uint8_t* labels) {
  const bool of_classes = IsOfClasses(info());
  if (!of_classes && info().loss.kind == ZO_LOSS_MEAN_SQUARED_ERROR) {
    for (bool& labelled : labelled_) labelled = true;
    return ZO_OK;
  }
  int32_t end = of_classes ? static_cast<int32_t>(info().classes) : 2;
  if (ZO_WITH_LOSS_SUM && info().loss.kind == ZO_LOSS_SUM) end = 256;  // the loss knows each part's own
  for (uint32_t at = 0; at < ZO_BATCH * info().label_bytes; at += sizeof(int32_t)) {
    int32_t label;
    memcpy(&label, labels + at, sizeof label);
    if (label < -1 || label >= end) return ZO_ERROR_LABEL;
    labelled_[at / info().label_bytes] = labelled_[at / info().label_bytes] || label >= 0;
  }
  return ZO_OK;
}

zo_status Network::ReadLabels(const Feed& feed, uint8_t* labels) {
  int8_t* const none[kMaxInputs] = {};
  for (uint32_t b = 0; b < ZO_BATCH; ++b) {
    if (!feed.source->read(feed.source->context, feed.number(b), none, labels + b * info().label_bytes)) {
      return ZO_ERROR_SAMPLE;
    }
  }
  return CheckLabels(labels);
}

zo_status Network::ReadInputs(const Feed& feed, int8_t* inputs) const {
  for (uint32_t b = 0; b < ZO_BATCH; ++b) {
    int8_t* const wanted[kMaxInputs] = {inputs + b * info().inputs[0].bytes};
    if (!feed.source->read(feed.source->context, feed.number(b), wanted, nullptr)) {
      return ZO_ERROR_SAMPLE;
    }
  }
  return ZO_OK;
}

zo_status Network::FeedLabels(const Feed& feed) {
  const uint32_t last = LastSegment();
  const int8_t index = info().segments[last].label;
  if (index == kNone) return ZO_OK;
  return ReadLabels(feed, interpreter(last)->input(static_cast<size_t>(index))->data.uint8);
}

zo_status Network::FeedInputs(const Feed& feed, uint32_t segment) {
  bool any = false;
  for (uint32_t b = 0; b < ZO_BATCH; ++b) {
    int8_t* wanted[kMaxInputs] = {};
    for (uint32_t i = 0; i < kReaders; ++i) {
      const Port& port = info().inputs[i];
      if (port.segment != segment) continue;
      wanted[port.number] = interpreter(segment)->input(port.index)->data.int8 + b * port.bytes;
      any = true;
    }
    if (!any) return ZO_OK;
    if (!feed.source->read(feed.source->context, feed.number(b), wanted, nullptr)) {
      return ZO_ERROR_SAMPLE;
    }
  }
  return ZO_OK;
}

zo_status Network::Run(const Feed* feed, bool losses, uint32_t start, bool keep) {
  if (!is_ready_) return ZO_ERROR_ORDER;
  for (bool& labelled : labelled_) labelled = false;
  const uint32_t flags = losses ? ZO_FLAG_LOSS : 0u;
#ifdef ZO_SEQUENCE
  streams_ = false;
  if (feed != nullptr) {
    for (int32_t& loss : joined_) loss = -1;
    Feed own = *feed;
    for (; own.step < own.steps; ++own.step) {
      const zo_status status = RunStep(&own, flags | (own.step > 0 ? ZO_FLAG_CONTINUE : 0u), start, keep);
      if (status != ZO_OK) return status;
      tflite::MicroInterpreter* last = interpreter(LastSegment());
      const Segment& segment = info().segments[LastSegment()];
      if (!losses) continue;
      zo_join_losses(ZO_SEQUENCE_OVER, ZO_BATCH, last->input(static_cast<size_t>(segment.label))->data.i32,
                     last->output(static_cast<size_t>(segment.loss))->data.i32, joined_);
    }
    for (int32_t& loss : joined_) loss = loss < 0 ? 0 : loss;
    return ZO_OK;
  }
#endif
  return RunStep(feed, flags, start, keep);
}

#ifdef ZO_SEQUENCE
zo_status Network::RunStream(const Feed& feed) {
  if (!is_ready_ || (feed.continues && !streams_)) return ZO_ERROR_ORDER;
  const zo_status status = RunStep(&feed, feed.continues ? ZO_FLAG_CONTINUE : 0u, 0, false);
  streams_ = status == ZO_OK;
  return status;
}
#endif

zo_status Network::RunStep(const Feed* feed, uint32_t flags, uint32_t start, bool keep) {
  const uint32_t last = LastSegment();
  // Labels first: a wrong one costs no forward pass. The activations of earlier segments write over them, so they are
  // read again below. A suffix is only run of samples whose labels have been seen.
  if (feed != nullptr && start == 0) {
    const zo_status status = FeedLabels(*feed);
    if (status != ZO_OK) return status;
  }
  for (uint32_t k = start; k <= last; ++k) {
    if (ZO_WITH_SEGMENTS) Enter(k, start, keep ? Keep::kOnce : Keep::kNothing);
#ifdef ZO_DRIFT_SEGMENT
    if (feed != nullptr && feed->drift != nullptr && k == ZO_DRIFT_SEGMENT) zo_drift_add(feed->drift, entering(k));
#endif
    if (feed != nullptr) {
      zo_status status = FeedInputs(*feed, k);
      if (status == ZO_OK && k == last && last > 0) status = FeedLabels(*feed);
      if (status != ZO_OK) return status;
    }
    SetCommand(k, flags);
    if (interpreter(k)->Invoke() != kTfLiteOk) return ZO_ERROR_RUNTIME;
  }
  return ZO_OK;
}

zo_status Network::Rerun(const Feed& feed, uint32_t first, uint32_t end) {
  if (!ZO_WITH_SEGMENTS) return ZO_OK;
  if (first > 0) memcpy(entering(first), kept(first), ZO_BATCH * info().segments[first].boundary_bytes);
  for (uint32_t k = first; k < end; ++k) {
    Enter(k, first, k > first ? Keep::kAll : Keep::kNothing);
    const zo_status status = FeedInputs(feed, k);
    if (status != ZO_OK) return status;
    SetCommand(k, 0);
    if (interpreter(k)->Invoke() != kTfLiteOk) return ZO_ERROR_RUNTIME;
  }
  // Not through the inputs of `end`, whose activations may have a larger part of the arena.
  const auto output = static_cast<size_t>(info().segments[end - 1].boundary_output);
  memmove(kept(end), interpreter(end - 1)->output(output)->data.int8, ZO_BATCH * info().segments[end].boundary_bytes);
  return ZO_OK;
}

const int32_t* Network::losses() {
#ifdef ZO_SEQUENCE
  return joined_;
#else
  const uint32_t last = LastSegment();
  const auto index = static_cast<size_t>(info().segments[last].loss);
  return interpreter(last)->output(index)->data.i32;
#endif
}

const int8_t* Network::output() {
  const uint32_t last = LastSegment();
  // If a cut lies at the output, it is the input of the last segment. There it lives to the end:
  // the loss, which comes last, reads it. The segment before has lost it to this one's activations.
  if (ZO_WITH_SEGMENTS && info().output.segment != last) return entering(last);
  return interpreter(info().output.segment)->output(info().output.index)->data.int8;
}

zo_status Network::Evaluate(const SampleSource& source, uint32_t first, uint32_t count, Evaluation* evaluation) {
  *evaluation = {};
#ifdef ZO_SEQUENCE
  const bool of_classes = false;  // right answers of samples alone are counted
#else
  const bool of_classes = IsOfClasses(info()) && info().loss.places == 1u;
#endif
  for (uint32_t done = 0; done < count; done += ZO_BATCH) {
    const Feed feed = {&source, nullptr, first + done, first + count - 1};
    const zo_status status = Run(&feed, true, 0, false);
    if (status != ZO_OK) return status;
    for (uint32_t b = 0; b < ZO_BATCH && done + b < count; ++b) {
      if (!labelled_[b]) continue;
      if (of_classes) {
        int32_t label = 0;
        int8_t* const none[kMaxInputs] = {};
        if (!source.read(source.context, feed.number(b), none, &label)) return ZO_ERROR_SAMPLE;
        const auto* scores = reinterpret_cast<const OutputType*>(output() + b * info().output.bytes);
        uint32_t largest = 0;
        for (uint32_t j = 1; j < info().classes; ++j) {
          if (scores[j] > scores[largest]) largest = j;
        }
        evaluation->correct += static_cast<uint32_t>(largest == static_cast<uint32_t>(label));
      }
      evaluation->samples += 1;
      evaluation->loss += losses()[b];
    }
  }
  return ZO_OK;
}

zo_status Network::DataChecksum(const SampleSource& source, uint32_t samples, uint32_t* checksum) {
  uint32_t crc = 0;
#ifdef ZO_SEQUENCE
  samples *= ZO_SEQUENCE;
#endif
  for (uint32_t i = 0; i < kMaxInputs; ++i) {
    const Port& port = info().inputs[i];
    int8_t* wanted[kMaxInputs] = {};
    wanted[i] = interpreter(port.segment)->input(port.index)->data.int8;
    for (uint32_t sample = 0; sample < samples; ++sample) {
      if (!source.read(source.context, sample, wanted, nullptr)) return ZO_ERROR_SAMPLE;
      crc = zo_crc32(crc, wanted[i], port.bytes);
    }
  }
  const uint32_t last = LastSegment();
  const auto label = static_cast<size_t>(info().segments[last].label);
  uint8_t* bytes = interpreter(last)->input(label)->data.uint8;
  int8_t* const none[kMaxInputs] = {};
  for (uint32_t sample = 0; sample < samples; ++sample) {
    if (!source.read(source.context, sample, none, bytes)) return ZO_ERROR_SAMPLE;
    crc = zo_crc32(crc, bytes, info().label_bytes);
  }
  *checksum = crc;
  return ZO_OK;
}

}  // namespace tflm_zo
