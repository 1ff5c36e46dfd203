/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_avx2.h"

void zo_avx2_finish(const zo_output* output, int32_t channel, __m256i low, __m256i high, int8_t* y, int32_t valid) {
  if (!output->shifts_right) {
    int32_t sums[16];
    zo_avx2_store(sums, low);
    zo_avx2_store(sums + 8, high);
    for (int32_t i = 0; i < valid && i < 16; ++i) y[i] = zo_output_of(output, channel + i, sums[i]);
    return;
  }
  const __m256i packed =
      _mm256_packs_epi32(zo_avx2_scaled(low, output, channel), zo_avx2_scaled(high, output, channel + 8));
  /* Packing leaves the quarters in the order 0, 2, 1, 3. */
  const __m256i ordered = _mm256_permute4x64_epi64(packed, 0xD8);
  zo_avx2_store_bytes(y, zo_avx2_bytes(ordered, output->min, output->max), valid);
}
