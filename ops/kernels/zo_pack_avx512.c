/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_columns_avx512.h"
#include "ops/kernels/zo_x86.h"

void zo_avx512_pack(const int8_t* from, ptrdiff_t next, int32_t columns, int32_t values, int8_t* to) {
  zo_avx512_columns(from, next, columns, values, 0, (uint8_t*)to);
}
