/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/weights/zo_checksum.h"

#include "ops/core/random/zo_stream.h"

static uint32_t fnv1a(uint32_t hash, const int8_t* bytes, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    hash ^= (uint32_t)(uint8_t)bytes[i];
    hash *= UINT32_C(16777619);
  }
  return hash;
}

uint32_t zo_checksum(const zo_tensor* tensor) {
  uint32_t hash =
      fnv1a(zo_fmix(UINT32_C(2166136261) ^ tensor->stream), tensor->weights, tensor->size);
  if (tensor->fraction != NULL) hash = fnv1a(hash, tensor->fraction, tensor->size);
  return zo_fmix(hash);
}
