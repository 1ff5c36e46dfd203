/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * How a program on an emulated core prints its measurements: a word and a number in each line.
 */
#ifndef TFLM_ZO_BENCHMARKS_ALTERNATIVES_MEASURED_H_
#define TFLM_ZO_BENCHMARKS_ALTERNATIVES_MEASURED_H_

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The stack: as far down as a pattern has been written over. */
enum { kPainted = 16384, kOwn = 128 };

static inline volatile uint8_t* stack_below(void) { return (volatile uint8_t*)__builtin_frame_address(0) - kPainted; }

__attribute__((noinline)) static void paint_stack(void) {
  for (int32_t i = 0; i < kPainted - kOwn; ++i) stack_below()[i] = 0xA5;
}

__attribute__((noinline)) static uint32_t painted_stack(void) {
  uint32_t left = 0;
  while (left < kPainted && stack_below()[left] == 0xA5) ++left;
  return kPainted - left;
}

static inline void print_number(const char* word, uint32_t value) { printf("%s %lu\n", word, (unsigned long)value); }

/* A float by its bits. */
static inline void print_score(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  print_number("score", bits);
}

#endif /* TFLM_ZO_BENCHMARKS_ALTERNATIVES_MEASURED_H_ */
