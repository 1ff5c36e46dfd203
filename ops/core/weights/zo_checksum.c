/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/weights/zo_checksum.h"

#include "ops/core/random/zo_stream.h"

uint32_t zo_fnv1a(uint32_t hash, const void* bytes, uint32_t count) {
  const uint8_t* at = (const uint8_t*)bytes;
  for (uint32_t i = 0; i < count; ++i) {
    hash ^= (uint32_t)at[i];
    hash *= UINT32_C(16777619);
  }
  return hash;
}

uint32_t zo_checksum(const zo_tensor* tensor) {
  uint32_t hash = zo_fnv1a(zo_fmix(ZO_FNV1A_BEGIN ^ tensor->stream), tensor->weights, tensor->size);
  if (tensor->fraction != NULL) hash = zo_fnv1a(hash, tensor->fraction, tensor->size);
  return zo_fmix(hash);
}
