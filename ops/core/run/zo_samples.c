/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/run/zo_samples.h"

#include "ops/core/random/zo_stream.h"

/* One pass of a keyed permutation of 0..2^(2 half_bits) - 1. */
static uint32_t feistel_pass(uint32_t value, uint32_t half_bits, uint32_t key) {
  const uint32_t mask = (UINT32_C(1) << half_bits) - 1u;
  uint32_t left = value >> half_bits;
  uint32_t right = value & mask;
  for (uint32_t round = 0; round < 4u; ++round) {
    const uint32_t mixed = zo_fmix(key + UINT32_C(0x9E3779B9) * round + right) & mask;
    const uint32_t next = left ^ mixed;
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

uint32_t zo_sample_at(const zo_control_settings* settings, uint32_t position) {
  const uint32_t samples = zo_settings_of(settings)->samples;
  const uint32_t epoch = position / samples;
  const uint32_t key = zo_fmix(zo_settings_of(settings)->run_seed ^ zo_fmix(UINT32_C(0x3C6EF372) + epoch));
  uint32_t half_bits = 1;
  while (half_bits < 16u && (UINT32_C(1) << (2u * half_bits)) < samples) ++half_bits;
  /* Walks the cycle until it is back inside: the permutation restricted to 0..samples - 1. */
  uint32_t value = position % samples;
  do {
    value = feistel_pass(value, half_bits, key);
  } while (value >= samples);
  return value;
}

void zo_samples_at(const zo_control_settings* settings, uint32_t first, uint32_t count, uint32_t* samples) {
  for (uint32_t i = 0; i < count; ++i) samples[i] = zo_sample_at(settings, first + i);
}
