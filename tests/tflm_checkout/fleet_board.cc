/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A member of a fleet on an emulated board: it sleeps until its serial port has a byte, answers,
 * and evaluates a step when it is asked to. In the place of flash it has a file of the host's
 * (semihosting), which outlives a reset. Its samples are a part of the generated ones. UART_BASE is
 * the board's.
 */
#include <stdio.h>

#include "zo_trainer.h"

namespace {

alignas(16) uint8_t arena[ZO_ARENA_BYTES];
alignas(8) uint8_t workspace[ZO_WORKSPACE_BYTES];

// --- The serial port -----------------------------------------------------------------------------

struct Uart {
  volatile uint32_t data, state, control, interrupts, divider;
};
Uart* const uart = reinterpret_cast<Uart*>(UART_BASE);
enum : uint32_t { kSending = 1, kReceived = 2, kOnReceived = 8 };

// The core wakes up when a byte comes: an interrupt that is masked, and only pending.
volatile uint32_t* const interrupts_on = reinterpret_cast<uint32_t*>(0xE000E100u);
volatile uint32_t* const interrupts_done = reinterpret_cast<uint32_t*>(0xE000E280u);

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

constexpr tflm_zo::LogStore kStore = {WriteFile, ReadFile, nullptr, nullptr, 1, kStoreBytes};

bool Receive(uint8_t* byte) {
  if ((uart->state & kReceived) == 0) return false;
  *byte = static_cast<uint8_t>(uart->data);
  return true;
}

// Ends at once if a byte has come since the last time.
void Sleep() {
  __asm__ volatile("wfi");
  uart->interrupts = 3;
  *interrupts_done = 1;
}

// --- The fleet -----------------------------------------------------------------------------------

// Samples of its own: those from `first` on.
constexpr uint32_t kOwn = 6;
uint32_t first = 0;

bool ReadOwn(void*, uint32_t sample, int8_t* const* inputs, void* label) {
  return tflm_zo::kSamples.read(tflm_zo::kSamples.context, first + sample % kOwn, inputs, label);
}

constexpr tflm_zo::SampleSource kOwnSamples = {ReadOwn, nullptr};

// The program of docs/how-to/fleet-of-devices.md.
#include "fleet_program.h"

}  // namespace

int main() {
  const char name[] = "flash.bin";
  const uint32_t open[3] = {reinterpret_cast<uint32_t>(name), 3, sizeof name - 1};  // "r+b"
  file = Semihosting(kOpen, open);
  uint8_t number = 0;
  if (file < 0 || !ReadFile(nullptr, kStoreBytes - 1, &number, 1)) return 1;
  first = number * kOwn;
  uart->divider = 16;
  uart->control = 3 | kOnReceived;
  __asm__ volatile("cpsid i");
  *interrupts_on = 1;
  if (!Begin()) return 2;
  printf("begun at step %lu\n", static_cast<unsigned long>(trainer.step()));
  for (;;) Serve();
}
