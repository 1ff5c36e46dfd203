/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/kernels/zo_gemm.h"

/* A step of `columns` filters. With sizes that compilers know it is moves. */
static inline void pack_step(int8_t* to, const int8_t* from, int32_t columns, ptrdiff_t next, int32_t step,
                             size_t count) {
  for (int32_t c = 0; c < columns; ++c) memcpy(to + c * step, from + c * next, count);
}

static inline void pack(const int8_t* from, ptrdiff_t next, int32_t columns, int32_t values, int8_t* to,
                        const int32_t step) {
  for (int32_t at = 0; at < values; at += step, to += kZoColumns * step, from += step) {
    const int32_t left = values - at;
    if (columns < kZoColumns || left < step) {
      pack_step(to, from, columns, next, step, (size_t)(left < step ? left : step));
    } else {
      pack_step(to, from, kZoColumns, next, step, (size_t)step);
    }
  }
}

void zo_pack_twos(const int8_t* from, ptrdiff_t next, int32_t columns, int32_t values, int8_t* to) {
  pack(from, next, columns, values, to, 2);
}

void zo_pack_fours(const int8_t* from, ptrdiff_t next, int32_t columns, int32_t values, int8_t* to) {
  pack(from, next, columns, values, to, 4);
}
