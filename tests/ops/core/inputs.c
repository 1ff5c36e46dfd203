/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Random numbers and buffers. */
#include "core_test.h"

uint32_t digest;

unsigned long checks;

static uint64_t random_state = UINT64_C(0x9E3779B97F4A7C15);

uint32_t random_u32(void) { /* splitmix64 */
  uint64_t z = (random_state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return (uint32_t)(z >> 32);
}

uint32_t random_below(uint32_t bound) { return random_u32() % bound; }

/* Of every magnitude: shifted right by least..most bits. Here and below one call follows the other
 * in an order that the language fixes, so that every compiler sees the same numbers. */
uint32_t random_shifted(uint32_t least, uint32_t most) {
  const uint32_t shift = least + random_below(most - least + 1u);
  return random_u32() >> shift;
}

void flip_a_bit(void* bytes, uint32_t count) {
  const uint32_t at = random_below(count);
  ((uint8_t*)bytes)[at] ^= (uint8_t)(1u << random_below(8));
}

int32_t random_between(int32_t low, int32_t high) {
  return (int32_t)((uint32_t)low + random_below((uint32_t)high - (uint32_t)low + 1u));
}

void* allocate(size_t bytes) {
  void* memory = malloc(bytes);
  if (memory == NULL) abort();
  return memory;
}

array make_array(uint32_t size, uint32_t shift, int32_t limit) {
  array b;
  b.memory = (char*)allocate(size + shift);
  b.at = (int8_t*)(b.memory + shift);
  b.size = size;
  for (uint32_t i = 0; i < size; ++i) b.at[i] = (int8_t)random_between(-limit, limit);
  return b;
}

array copy_array(const array* from, uint32_t shift) {
  array b = make_array(from->size, shift, 0);
  memcpy(b.at, from->at, from->size);
  return b;
}

/* A part of an array, which keeps the memory. */
array part_of(const array* whole, uint32_t offset, uint32_t size) {
  array b;
  b.memory = NULL;
  b.at = whole->at + offset;
  b.size = size;
  return b;
}

int same(const array* a, const array* b) { return memcmp(a->at, b->at, a->size) == 0; }

zo_tensor tensor_of(const array* weights, const array* fraction, uint32_t stream) {
  zo_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.weights = weights->at;
  tensor.fraction = fraction != NULL ? fraction->at : NULL;
  tensor.size = weights->size;
  tensor.channels = 1;
  tensor.inner = 1;
  tensor.stream = stream;
  tensor.limit = 120;
  return tensor;
}

const uint32_t sizes[SIZES] = {1, 2, 3, 4, 31, 32, 33, 63, 64, 65, 127, 999, 1023, 1024, 1025, 1056, 2047, 2048, 3000};

const zo_distribution distributions[DISTRIBUTIONS] = {
    {ZO_RADEMACHER, 0, 1},       {ZO_RADEMACHER, 0, 127},       {ZO_SPARSE_UNIFORM, 0, 1},
    {ZO_SPARSE_UNIFORM, 255, 7}, {ZO_SPARSE_UNIFORM, 100, 127}, {ZO_GAUSSIAN, 0, 1},
    {ZO_GAUSSIAN, 0, 300},       {ZO_GAUSSIAN, 0, 65535},       {ZO_COORDINATE, 0, 5},
};

const zo_distribution bad_distributions[BAD_DISTRIBUTIONS] = {
    {ZO_RADEMACHER, 0, 0},
    {ZO_RADEMACHER, 0, 128},
    {ZO_RADEMACHER, 1, 1},
    {ZO_SPARSE_UNIFORM, 0, 0},
    {ZO_SPARSE_UNIFORM, 0, 128},
    {ZO_GAUSSIAN, 0, 0},
    {ZO_GAUSSIAN, 1, 1},
    {ZO_COORDINATE, 0, 0},
    {ZO_COORDINATE, 0, 128},
    {ZO_COORDINATE, 1, 1},
    {4, 0, 1},
    {255, 255, 65535},
};
