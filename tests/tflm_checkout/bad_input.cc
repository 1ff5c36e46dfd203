// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// Failures on a device, one after the other: in the place of a generated folder's main.cc. A line
// for each check, `ok NAME` or `FAILED NAME` with the values found; the program's result is the
// number of failures.
#include <stdio.h>
#include <string.h>

#include "zo_trainer.h"

namespace {

constexpr size_t kGuard = 64;
alignas(16) uint8_t guarded[ZO_ARENA_BYTES + 2 * kGuard];
uint8_t* const arena = guarded + kGuard;
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

// --- Samples that can fail -----------------------------------------------------------------------

uint32_t reads = 0;
uint32_t failing_read = 0;  // number of the read that fails, from 1; 0: none
int32_t bad_label = 0;      // every label; 0: the true ones

bool Read(void*, uint32_t sample, int8_t* const* inputs, void* label) {
  if (++reads == failing_read) return false;
  if (!tflm_zo::kSamples.read(tflm_zo::kSamples.context, sample, inputs, label)) return false;
  if (bad_label != 0 && label != nullptr) memcpy(label, &bad_label, sizeof bad_label);
  return true;
}

constexpr tflm_zo::SampleSource kSource = {Read, nullptr};

// --- A log in memory -----------------------------------------------------------------------------

constexpr uint32_t kLogBytes = 1u << 16;
uint8_t log_bytes[kLogBytes];
uint8_t whole_log[kLogBytes];
uint32_t log_end = 0;
uint32_t writes = 0;
uint32_t failing_write = 0;  // number of the write of which only the first half arrives, from 1; 0: none

bool WriteLog(void*, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  const bool fails = ++writes == failing_write;
  memcpy(log_bytes + offset, bytes, fails ? count / 2 : count);
  if (offset + count > log_end) log_end = offset + count;
  return !fails;
}

int32_t ReadLog(void*, uint32_t offset, uint8_t* bytes, uint32_t count) {
  memcpy(bytes, log_bytes + offset, count);
  return static_cast<int32_t>(count);
}

constexpr tflm_zo::LogStore kLog = {WriteLog, ReadLog, nullptr, nullptr, 1, kLogBytes};

void EraseLog() {
  memset(log_bytes, 0xFF, sizeof log_bytes);
  log_end = writes = failing_write = 0;
}

// --- Runs ----------------------------------------------------------------------------------------

uint32_t sums[ZO_STEPS + 1];  // of the weights after so many steps of a run that nothing disturbs
int32_t losses[ZO_STEPS];

zo_status Begin(size_t arena_bytes = ZO_ARENA_BYTES, size_t workspace_bytes = ZO_WORKSPACE_BYTES) {
  trainer = tflm_zo::Trainer();
  return trainer.Init(arena, arena_bytes, workspace, workspace_bytes, kSource);
}

// Sum of the weights of the last complete step: Evaluate makes memory have them.
uint32_t Sum() {
  tflm_zo::Evaluation found;
  return trainer.Evaluate(tflm_zo::kSamples, 0, 1, &found) == ZO_OK ? trainer.network().checksum() : 0;
}

// Trains to a step; false if a step fails, or its loss is not the undisturbed run's.
bool TrainTo(uint32_t step) {
  while (trainer.step() < step) {
    zo_report report;
    if (trainer.TrainStep(&report) != ZO_OK) return false;
    if (report.mean_loss != losses[report.step]) return false;
  }
  return Sum() == sums[step];
}

void Undisturbed() {
  EraseLog();
  bool works = Begin() == ZO_OK;
  sums[0] = Sum();
  trainer.SetLog(&kLog);
  for (uint32_t i = 0; works && i < ZO_STEPS; ++i) {
    zo_report report;
    works = trainer.TrainStep(&report) == ZO_OK;
    losses[i] = report.mean_loss;
    sums[i + 1] = Sum();
  }
  bool moves = works;
  // The rate falls to zero, which it is in the last step.
  for (uint32_t i = 0; i + 1 < ZO_STEPS; ++i) moves = moves && sums[i] != sums[i + 1];
  Check(works, "a run that nothing disturbs");
  Check(moves, "every step but the last moves weights");
  zo_report report;
  Check(trainer.done() && trainer.TrainStep(&report) == ZO_OK && report.step_done == 0 && Sum() == sums[ZO_STEPS],
        "a step after the last one does nothing");
  memcpy(whole_log, log_bytes, sizeof whole_log);
}

bool GuardsAreWhole(size_t arena_bytes) {
  for (size_t i = 0; i < kGuard; ++i) {
    if (guarded[i] != 0xA5 || arena[arena_bytes + i] != 0xA5) return false;
  }
  return true;
}

// From the size that suffices downwards: too small an arena is refused, at every size.
void SmallMemory() {
  Check(Begin(ZO_ARENA_BYTES, ZO_WORKSPACE_BYTES - 1) == ZO_ERROR_MEMORY, "a workspace that is a byte too small");
  Check(Begin() == ZO_OK, "after it one that is large enough");
  size_t least = trainer.network().arena_used_bytes();
  memset(guarded, 0xA5, sizeof guarded);
  // The used bytes count whole units of alignment, of which the last one may be in part unused.
  while (least > 0 && Begin(least - 1) == ZO_OK) --least;
  while (least < ZO_ARENA_BYTES && Begin(least) != ZO_OK) ++least;
  Check(TrainTo(1), "the smallest arena that is accepted", static_cast<long>(least));
  bool refused = true;
  bool untouched = true;
  for (size_t bytes = least; refused && untouched && bytes-- > 0;) {
    if (bytes + 100 < least && bytes % 97 != 0) continue;
    memset(guarded, 0xA5, sizeof guarded);
    refused = Begin(bytes) == ZO_ERROR_MEMORY;
    untouched = GuardsAreWhole(bytes);
  }
  Check(refused, "every arena that is smaller is refused");
  Check(untouched, "nothing is written beside an arena");
}

void BadLabels() {
  bool refused = Begin() == ZO_OK && TrainTo(1);
  const int32_t wrong[] = {-2, ZO_CLASSES, INT32_MIN, INT32_MAX};
  for (const int32_t label : wrong) {
    bad_label = label;
    zo_report report;
    refused = refused && trainer.TrainStep(&report) == ZO_ERROR_LABEL && report.step_done == 0;
    bad_label = 0;
    refused = refused && trainer.step() == 1 && Sum() == sums[1];
  }
  Check(refused, "labels out of range leave the weights of the last step");
  Check(TrainTo(ZO_STEPS), "after them the run goes on with the same bits");
}

// Each read of the second step fails once.
void MissingSamples() {
  bool refused = true;
  bool same = true;
  uint32_t failed = 0;
  for (uint32_t number = 1; refused && same; ++number) {
    same = Begin() == ZO_OK && TrainTo(1);
    reads = 0;
    failing_read = number;
    zo_report report;
    const zo_status status = trainer.TrainStep(&report);
    failing_read = 0;
    if (status == ZO_OK) break;  // the step has fewer reads
    ++failed;
    refused = status == ZO_ERROR_SAMPLE && trainer.step() == 1 && Sum() == sums[1];
    same = same && TrainTo(3);
  }
  Check(refused && failed > 0, "each sample that cannot be read leaves the weights of the last step", failed);
  Check(same, "and the step is repeated with the same bits");
}

// Follows a log: to weights of a step of the undisturbed run, and to its end from there.
bool LeadsTo(uint32_t step) { return trainer.step() == step && Sum() == sums[step] && TrainTo(ZO_STEPS); }

void Resets() {
  // Power fails in the middle of each step: at its third read of a sample.
  bool same = true;
  for (uint32_t step = 0; same && step < ZO_STEPS; ++step) {
    EraseLog();
    same = Begin() == ZO_OK;
    trainer.SetLog(&kLog);
    same = same && TrainTo(step);
    if (step > 0) {  // the first step's log begins with a pass over all samples
      reads = 0;
      failing_read = 3;
      zo_report report;
      same = same && trainer.TrainStep(&report) == ZO_ERROR_SAMPLE;
      failing_read = 0;
    }
    same = same && Begin() == ZO_OK;
    const zo_status status = trainer.ImportLog(kLog);
    // Before the first step there is no log at all.
    same = same && (step == 0 ? status == ZO_ERROR_LOG : status == ZO_OK);
    trainer.SetLog(&kLog);
    same = same && trainer.step() <= step && TrainTo(ZO_STEPS);
    if (step > 0) same = same && memcmp(log_bytes, whole_log, sizeof whole_log) == 0;
  }
  Check(same, "after a reset within a step the log leads to the same weights and the same log");
}

void TornWrites() {
  bool told = true;
  bool same = true;
  uint32_t number = 1;
  for (; told && same; ++number) {
    EraseLog();
    failing_write = number;
    same = Begin() == ZO_OK;
    trainer.SetLog(&kLog);
    zo_status status = ZO_OK;
    while (status == ZO_OK && !trainer.done()) {
      zo_report report;
      status = trainer.TrainStep(&report);
    }
    if (status == ZO_OK) break;  // there are fewer writes
    told = status == ZO_ERROR_STORE;
    const uint32_t reached = trainer.step();
    same = same && Sum() == sums[reached];
    // Power fails now. The half that arrived must not be taken for the whole.
    same = same && Begin() == ZO_OK;
    const zo_status read = trainer.ImportLog(kLog);
    same = same && (read == ZO_OK || read == ZO_ERROR_LOG) && trainer.step() <= reached;
    same = same && Sum() == sums[trainer.step()] && TrainTo(ZO_STEPS);
  }
  Check(told && number > 2, "a write that fails is told", static_cast<long>(number));
  Check(same, "half a write is not taken for a whole one");
}

void DamagedLogs() {
  const uint32_t end = log_end;
  bool safe = true;
  bool noticed = false;
  uint32_t at = 0;
  for (; safe && at < end; at += at < 200 ? 1 : 37) {
    memcpy(log_bytes, whole_log, sizeof log_bytes);
    log_bytes[at] ^= 0x10;
    safe = Begin() == ZO_OK && TrainTo(1);
    const zo_status status = trainer.ImportLog(kLog);
    noticed = noticed || status == ZO_ERROR_LOG;
    safe = safe && (status == ZO_OK || status == ZO_ERROR_LOG) && Sum() == sums[trainer.step()];
  }
  Check(safe, "a bit that is wrong leads to no other weights than those of whole steps", at);
  Check(noticed, "and is noticed");

  memcpy(log_bytes, whole_log, sizeof log_bytes);
  log_bytes[20] ^= 1;  // of the header
  Check(Begin() == ZO_OK && TrainTo(2) && trainer.ImportLog(kLog) == ZO_ERROR_LOG && LeadsTo(2),
        "the log of another run is refused, and nothing changes");
  memcpy(log_bytes, whole_log, sizeof log_bytes);
  Check(Begin() == ZO_OK && trainer.ImportLog(kLog) == ZO_OK && LeadsTo(ZO_STEPS),
        "a whole log leads to the end of its run");
}

// A run of other labels, on a store where the log of a whole run lies.
void StaleLogs() {
  memcpy(log_bytes, whole_log, sizeof log_bytes);
  failing_write = 0;
  bad_label = 1;
  bool same = Begin() == ZO_OK;
  trainer.SetLog(&kLog);
  zo_report report;
  for (int step = 0; same && step < 2; ++step) same = trainer.TrainStep(&report) == ZO_OK;
  const uint32_t sum = Sum();
  same = same && sum != sums[2] && Begin() == ZO_OK && trainer.ImportLog(kLog) == ZO_OK;
  Check(same && trainer.step() == 2 && Sum() == sum, "records of the log before this one are not taken for its own",
        trainer.step());
  bad_label = 0;
}

}  // namespace

int main() {
  Undisturbed();
  SmallMemory();
  BadLabels();
  MissingSamples();
  Resets();
  TornWrites();
  DamagedLogs();
  StaleLogs();
  return failures;
}
