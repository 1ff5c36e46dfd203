// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// Failures while a device chooses a block, and its resumption after a reset: in the place of a
// generated folder's main.cc. A line for each check, `ok NAME` or `FAILED NAME` with the values
// found; the program's result is the number of failures.
#include <stdio.h>
#include <string.h>

#include "zo_trainer.h"

namespace {

alignas(16) uint8_t arena[ZO_ARENA_BYTES];
alignas(8) uint8_t workspace[ZO_WORKSPACE_BYTES];
tflm_zo::Trainer trainer;
int failures = 0;

void Check(bool holds, const char* name, long found = 0) {
  if (holds) {
    printf("ok %s\n", name);
  } else {
    printf("FAILED %s (%ld)\n", name, found);
    ++failures;
  }
}

uint32_t reads = 0;
uint32_t failing_read = 0;  // number of the read that fails, from 1; 0: none

bool Read(void*, uint32_t sample, int8_t* const* inputs, void* label) {
  return ++reads != failing_read && tflm_zo::kSamples.read(tflm_zo::kSamples.context, sample, inputs, label);
}

constexpr tflm_zo::SampleSource kSource = {Read, nullptr};

constexpr uint32_t kLogBytes = 1u << 16;
uint8_t log_bytes[kLogBytes];
uint32_t writes = 0;

bool WriteLog(void*, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  ++writes;
  memcpy(log_bytes + offset, bytes, count);
  return true;
}

int32_t ReadLog(void*, uint32_t offset, uint8_t* bytes, uint32_t count) {
  memcpy(bytes, log_bytes + offset, count);
  return static_cast<int32_t>(count);
}

constexpr tflm_zo::LogStore kLog = {WriteLog, ReadLog, nullptr, nullptr, 1, kLogBytes};

// As after a reset: a new object.
zo_status Reset() {
  trainer = tflm_zo::Trainer();
  reads = failing_read = 0;
  return trainer.Init(arena, sizeof arena, workspace, sizeof workspace, kSource);
}

zo_status Train(uint32_t steps) {
  zo_status status = ZO_OK;
  for (uint32_t i = 0; status == ZO_OK && i < steps; ++i) {
    zo_report report;
    status = trainer.TrainStep(&report);
    if (status == ZO_OK && report.step_done == 0) return ZO_ERROR_ARGUMENT;
  }
  return status;
}

}  // namespace

int main() {
  constexpr uint32_t kMost = 8;
  int64_t scores[kMost] = {};
  uint32_t blocks = 0;
  zo_status status = Reset();
  Check(status == ZO_OK, "init", status);
  const uint32_t initial = trainer.network().checksum();

  // Before the choice.
  zo_report report;
  status = trainer.TrainStep(&report);
  Check(status == ZO_ERROR_ORDER && report.step_done == 0, "no step before the choice", status);
  status = trainer.ExportLog(kLog);
  Check(status == ZO_ERROR_ORDER, "no snapshot before the choice", status);
  status = trainer.ImportLog(kLog);
  Check(status == ZO_ERROR_ORDER, "no log is read before the choice", status);
  tflm_zo::Evaluation found;
  status = trainer.Evaluate(kSource, 0, tflm_zo::kSampleCount, &found);
  Check(status == ZO_OK && found.samples == tflm_zo::kSampleCount, "evaluation before the choice", status);

  // Undisturbed.
  trainer.SetLog(&kLog);
  tflm_zo::BlockProbe probe;
  bool in_order = true;
  zo_block_choice after_one = {};
  uint32_t reads_of_one = 0;
  for (status = ZO_OK; status == ZO_OK && !trainer.chosen() && blocks < kMost; ++blocks) {
    if (blocks == 0) reads = 0;
    status = trainer.Probe(&probe);
    in_order = in_order && probe.block == blocks;
    scores[blocks] = probe.score;
    if (blocks == 0) {
      after_one = trainer.choice();
      reads_of_one = reads;
      Check(trainer.network().checksum() != initial, "a probe trains");
    }
  }
  Check(status == ZO_OK && in_order && trainer.chosen(), "blocks in their order", status);
  Check(writes == 0, "probes have no log", static_cast<long>(writes));
  Check(trainer.network().checksum() == initial, "the run begins with the model's own weights");
  const zo_block_choice kept = trainer.choice();
  const uint32_t best = trainer.best();
  status = trainer.Probe(&probe);
  Check(status == ZO_ERROR_ORDER, "no probe after the last", status);
  status = Train(ZO_STEPS);
  Check(status == ZO_OK && trainer.done(), "the run of the best", status);
  const uint32_t trained = trainer.network().checksum();
  Check(trained != initial && writes > 0, "it trains, with a log");

  // A sample that cannot be had, in the first probe's training and among the held-out ones.
  for (const uint32_t read : {reads_of_one / 2, reads_of_one}) {
    status = Reset();
    reads = 0;
    failing_read = read;
    if (status == ZO_OK) status = trainer.Probe(&probe);
    Check(status == ZO_ERROR_SAMPLE && trainer.choice().block == 0, "a sample is missing", status);
    status = trainer.Probe(&probe);
    Check(status == ZO_OK && probe.block == 0 && probe.score == scores[0], "the probe anew", status);
  }

  // Power failures: after the first probe; after the last; in the run.
  status = Reset();
  zo_block_choice wrong = after_one;
  wrong.blocks += 1;
  Check(trainer.Resume(wrong) == ZO_ERROR_ARGUMENT, "a choice among other blocks");
  wrong = kept;
  wrong.best = wrong.blocks;
  Check(trainer.Resume(wrong) == ZO_ERROR_ARGUMENT, "a block that there is not");
  Check(trainer.choice().block == 0 && !trainer.chosen(), "nothing has changed");
  status = trainer.Resume(after_one);
  bool same = true;
  for (uint32_t i = 1; status == ZO_OK && i < blocks; ++i) {
    status = trainer.Probe(&probe);
    same = same && probe.block == i && probe.score == scores[i];
  }
  Check(status == ZO_OK && same && trainer.chosen() && trainer.best() == best, "the choice goes on after a reset",
        status);

  status = Reset();
  if (status == ZO_OK) status = trainer.Resume(kept);
  trainer.SetLog(&kLog);
  if (status == ZO_OK) status = Train(ZO_STEPS - 1);
  const uint32_t partly = trainer.network().checksum();
  status = Reset();
  if (status == ZO_OK) status = trainer.Resume(kept);
  if (status == ZO_OK) status = trainer.ImportLog(kLog);
  Check(status == ZO_OK && trainer.step() > 0, "the run's log after a reset", status);
  if (status == ZO_OK) status = Train(ZO_STEPS - 1 - trainer.step());
  Check(status == ZO_OK && trainer.network().checksum() == partly, "the same steps again", status);
  status = Train(1);
  Check(status == ZO_OK && trainer.done() && trainer.network().checksum() == trained,
        "the weights of a run without a reset", status);

  // The workspace is for the largest block.
  status = trainer.Init(arena, sizeof arena, workspace, sizeof workspace - 8, kSource);
  Check(status == ZO_ERROR_MEMORY, "a workspace that is too small", status);
  return failures;
}
