/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Random cases of the tests, and the tolerance of errors against real numbers. */
#include "backward_test.h"

static uint32_t state = 20260101u;

uint32_t below(uint32_t bound) {
  state = state * UINT32_C(1664525) + UINT32_C(1013904223);
  return (uint32_t)((uint64_t)state * bound >> 32);
}

void* allocate(size_t bytes) {
  void* memory = calloc(bytes, 1);
  if (memory == NULL) abort();
  return memory;
}

/* Of any size; now and then all of them at the ends. */
int16_t* make_errors(uint32_t count) {
  int16_t* errors = (int16_t*)allocate(count * sizeof(int16_t));
  const uint32_t bits = below(4) == 0u ? below(16) : 15u;
  const int ends = below(4) == 0u;
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t e = ends ? 32767 : (int32_t)below(1u << bits);
    errors[i] = (int16_t)(below(2) == 0u ? e : -e);
  }
  return errors;
}

int8_t* make_bytes(uint32_t count) {
  int8_t* bytes = (int8_t*)allocate(count);
  const int ends = below(4) == 0u;
  for (uint32_t i = 0; i < count; ++i) {
    bytes[i] = (int8_t)(ends ? (below(2) == 0u ? -128 : 127) : (int32_t)below(256) - 128);
  }
  return bytes;
}

/* Whether errors are, within `slack` of their own unit, the real numbers. */
void check_close(const int16_t* errors, int8_t exponent, const double* exact, uint32_t count, double slack) {
  for (uint32_t i = 0; i < count; ++i) {
    CHECK(errors[i] >= -32767 && errors[i] <= 32767);
    CHECK(fabs(ldexp((double)errors[i], exponent) - exact[i]) <= ldexp(slack, exponent));
  }
}
