/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Writes of runs into a log store, one run behind the other in the same memory, and their cost to
 * the memory. See log_stores.py.
 *
 *   log_stores KIND SECTORS SECTOR_BYTES PAGE_BYTES UNIT FILE_BYTES STEPS RUN_STEPS SLOT_BYTES
 * EVERY SLEEPS
 *
 * SLOT_BYTES: of a snapshot, which is written every EVERY steps; 0: weight perturbation, of one
 * query. SLEEPS: 1: the store is mounted before each step, and the step's writes are made safe.
 * Prints bytes that were programmed, erases, the least and the most of a sector, and bytes of a
 * run's log.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ops/core/log/zo_log.h"
#include "ops/core/log/zo_snapshot_log.h"
#include "ops/device/zo_store_writer.h"
#include "stores.h"

namespace {

using tflm_zo::LogStore;

uint8_t piece[1 << 20];

void Check(bool done) {
  if (done) return;
  fprintf(stderr, "the store refuses: it has no room for such a log\n");
  exit(1);
}

void Write(uint32_t at, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) piece[i] = static_cast<uint8_t>(flash_draw());
  Check(tflm_zo::StoreWriter(stores::Log(), at).WriteAll(piece, count));
}

void Sync() { Check(tflm_zo::MakeSafe(stores::Log())); }

}  // namespace

int main(int count, char** words) {
  uint32_t given[11] = {};
  if (count != 12) return 2;
  for (int i = 0; i < 11; ++i) given[i] = static_cast<uint32_t>(strtoul(words[i + 1], nullptr, 10));
  Check(stores::Begin(given[0], given[1], given[2], given[3], given[4], given[5]) && stores::Mount());
  const uint32_t steps = given[6], run_steps = given[7], slot = given[8], every = given[9];
  const bool sleeps = given[10] != 0;
  const uint32_t unit = stores::Log().unit, slots = slot > 0 ? 2 : 0;
  const uint32_t header = slot > 0 ? zo_snapshot_header_bytes(1) : ZO_LOG_HEADER_BYTES;
  const uint32_t record = slot > 0 ? ZO_SNAPSHOT_RECORD_BYTES : zo_log_record_bytes(1);
  const uint32_t slots_at = zo_padded(header, unit), slot_bytes = zo_padded(slot, unit);
  const uint32_t records_at = slots_at + slots * slot_bytes;
  for (uint32_t step = 0; step < steps; ++step) {
    const uint32_t of_run = step % run_steps;
    if (sleeps) Check(stores::Mount());
    if (of_run == 0) {
      if (step > 0) Check(stores::Clear());
      for (uint32_t i = 0; i < slots; ++i) Write(slots_at + i * slot_bytes, 8);
      Write(0, header);
      Sync();
    }
    Write(static_cast<uint32_t>(zo_step_record_at(records_at, record, 0, unit, of_run)), record);
    if (slot == 0 || sleeps) Sync();
    if (slot == 0 || (of_run + 1) % every != 0) continue;
    Sync();
    Write(slots_at + of_run / every % 2 * slot_bytes, slot);
    Sync();
  }
  const flash_part& part = stores::Part();
  uint64_t erases = 0;
  for (uint32_t i = 0; i < part.flash.sectors; ++i) erases += part.erases[i];
  printf("%llu %llu %lu %lu %lu\n", static_cast<unsigned long long>(part.program_bytes),
         static_cast<unsigned long long>(erases), static_cast<unsigned long>(flash_part_least_erases(&part)),
         static_cast<unsigned long>(flash_part_most_erases(&part)),
         static_cast<unsigned long>(zo_step_record_at(records_at, record, 0, unit, run_steps)));
  return part.faults == 0 ? 0 : 3;
}
