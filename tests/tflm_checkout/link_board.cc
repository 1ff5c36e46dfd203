/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A program that trains and serves its serial port between two parts of a step, on an emulated
 * board: a CMSDK UART, and in the place of flash a file of the host's (semihosting), which outlives
 * a reset. UART_BASE is the board's.
 */
#include <stdio.h>

#include "zo_trainer.h"

namespace {

alignas(16) uint8_t arena[ZO_ARENA_BYTES];
alignas(8) uint8_t workspace[ZO_WORKSPACE_BYTES];
tflm_zo::Trainer trainer;

// --- The serial port -----------------------------------------------------------------------------

struct Uart {
  volatile uint32_t data, state, control, interrupts, divider;
};
Uart* const uart = reinterpret_cast<Uart*>(UART_BASE);
enum : uint32_t { kSending = 1, kReceived = 2 };

bool Send(void*, const uint8_t* bytes, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    while ((uart->state & kSending) != 0) {
    }
    uart->data = bytes[i];
  }
  return true;
}

// --- Kept without power --------------------------------------------------------------------------

int Semihosting(int operation, const void* argument) {
  register int r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

enum { kOpen = 0x01, kWrite = 0x05, kRead = 0x06, kSeek = 0x0A };
constexpr uint32_t kStoreBytes = 1 << 15;
int file;

int Transfer(int operation, uint32_t offset, const void* bytes, uint32_t count) {
  const uint32_t to[2] = {static_cast<uint32_t>(file), offset};
  if (Semihosting(kSeek, to) != 0) return -1;
  const uint32_t what[3] = {static_cast<uint32_t>(file), reinterpret_cast<uint32_t>(bytes), count};
  return Semihosting(operation, what);
}

bool WriteFile(void*, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  return Transfer(kWrite, offset, bytes, count) == 0;
}

int32_t ReadFile(void*, uint32_t offset, uint8_t* bytes, uint32_t count) {
  return Transfer(kRead, offset, bytes, count) == 0 ? static_cast<int32_t>(count) : -1;
}

constexpr tflm_zo::LogStore kFile = {WriteFile, ReadFile, nullptr, nullptr, 1, kStoreBytes};

// --- The link ------------------------------------------------------------------------------------

zo_places places;
uint8_t buffer[256];

zo_status Begin(void*) {
  const zo_status status = trainer.Init(arena, sizeof arena, workspace, sizeof workspace, tflm_zo::kSamples);
  return status == ZO_OK ? tflm_zo::ResumePlace(&trainer, places) : status;
}

}  // namespace

int main() {
  const char name[] = "flash.bin";
  const uint32_t open[3] = {reinterpret_cast<uint32_t>(name), 3, sizeof name - 1};  // "r+b"
  file = Semihosting(kOpen, open);
  uart->divider = 16;
  uart->control = 3;
  const uint8_t* fingerprint = tflm_zo::kInfo.fingerprint;
  if (file < 0 || zo_places_mount(&places, &kFile, ZO_TRAINABLE_BYTES, fingerprint) != ZO_OK ||
      Begin(nullptr) != ZO_OK) {
    return 1;
  }
  zo_link link = {};
  link.buffer = buffer;
  link.buffer_bytes = sizeof buffer;
  link.to = {Send, nullptr};
  link.fingerprint = fingerprint;
  if (zo_link_begin_with_places(&link, &places, Begin, nullptr) != ZO_OK) return 2;
  printf("begun at step %lu\n", static_cast<unsigned long>(trainer.step()));
  // So many parts of a step for a request: the run lasts as long as somebody looks.
  constexpr uint32_t kSlices = 20;
  for (uint32_t left = 0;;) {
    while ((uart->state & kReceived) != 0) {
      const uint8_t byte = static_cast<uint8_t>(uart->data);
      left += kSlices * zo_link_serve(&link, &byte, 1);
    }
    if (left == 0) continue;
    --left;
    zo_report report;
    if (!trainer.done() && trainer.TrainSlice(&report) != ZO_OK) return 3;
  }
}
