/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Shared code of all targets: numbers out of the fuzzer's bytes, buffers that end where their
 * memory ends, and a check that a broken invariant does not pass. */
#ifndef TFLM_ZO_TESTS_FUZZ_CORE_FUZZ_INPUT_H_
#define TFLM_ZO_TESTS_FUZZ_CORE_FUZZ_INPUT_H_

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

/* Short call stacks of allocations and little memory that is kept from being used again: a target
 * allocates dozens of small buffers in each execution, and runs several times as fast. */
const char* __asan_default_options(void);
const char* __asan_default_options(void) {
  return "malloc_context_size=1:quarantine_size_mb=1:thread_local_quarantine_size_kb=64";
}

#define HOLDS(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                       \
    }                                                                                \
  } while (0)

/* The bytes that are left; zeros follow the last one. */
typedef struct fuzz_input {
  const uint8_t* at;
  size_t left;
} fuzz_input;

static inline uint32_t take_u8(fuzz_input* in) {
  if (in->left == 0) return 0;
  --in->left;
  return *in->at++;
}

static inline uint32_t take_u16(fuzz_input* in) {
  const uint32_t low = take_u8(in);
  return low | take_u8(in) << 8;
}

static inline uint32_t take_u32(fuzz_input* in) {
  const uint32_t low = take_u16(in);
  return low | take_u16(in) << 16;
}

/* low..high, from one byte if that reaches. */
static inline uint32_t take_between(fuzz_input* in, uint32_t low, uint32_t high) {
  const uint32_t range = high - low;
  const uint32_t drawn = range < 256u ? take_u8(in) : take_u32(in);
  return range == UINT32_MAX ? drawn : low + drawn % (range + 1u);
}

static inline int take_flag(fuzz_input* in) { return (int)(take_u8(in) & 1u); }

/* Any number, small ones and the ends of ranges more often than others. */
static inline uint32_t take_any(fuzz_input* in) {
  static const uint32_t ends[8] = {0,          1,     UINT32_C(0x7FFFFFFF), UINT32_C(0x80000000),
                                   UINT32_MAX, 65535, UINT32_C(0x40000000), 4096};
  const uint32_t kind = take_u8(in);
  if (kind < 128u) return kind;
  if (kind < 160u) return ends[kind % 8u] + take_u8(in) - 1u;
  return take_u32(in);
}

static inline void* fuzz_allocate(size_t bytes) {
  void* memory = malloc(bytes);
  if (memory == NULL) abort();
  return memory;
}

/* Fills memory from a seed: short inputs describe large tensors. */
static inline void fill_bytes(fuzz_input* in, void* memory, size_t bytes) {
  uint32_t state = take_u16(in) * UINT32_C(0x9E3779B9) + 1u;
  uint8_t* to = (uint8_t*)memory;
  for (size_t i = 0; i < bytes; ++i) {
    state = state * UINT32_C(1664525) + UINT32_C(1013904223);
    to[i] = (uint8_t)(state >> 24);
  }
}

/* The same within +-limit. */
static inline void fill_int8(fuzz_input* in, int8_t* values, size_t count, int32_t limit) {
  fill_bytes(in, values, count);
  for (size_t i = 0; i < count; ++i) values[i] = (int8_t)(values[i] % (limit + 1));
}

static inline int8_t* make_int8(fuzz_input* in, size_t count, int32_t limit) {
  int8_t* values = (int8_t*)fuzz_allocate(count);
  fill_int8(in, values, count, limit);
  return values;
}

static inline int is_within(const int8_t* values, size_t count, int32_t limit) {
  for (size_t i = 0; i < count; ++i) {
    if (values[i] < -limit || values[i] > limit) return 0;
  }
  return 1;
}

static inline void* copy_of(const void* memory, size_t bytes) {
  void* copy = fuzz_allocate(bytes);
  memcpy(copy, memory, bytes);
  return copy;
}

#endif /* TFLM_ZO_TESTS_FUZZ_CORE_FUZZ_INPUT_H_ */
