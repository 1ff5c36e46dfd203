/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Rows of memory into columns of vectors, in steps of four bytes: filters and samples as products
 * take them.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_COLUMNS_AVX512_H_
#define TFLM_ZO_OPS_KERNELS_ZO_COLUMNS_AVX512_H_

#include "ops/kernels/zo_avx512.h"
#include "ops/kernels/zo_gemm.h"

/* v[i] of 16 vectors has row i; afterwards it has column i. */
static inline __attribute__((always_inline)) void zo_avx512_transpose(__m512i v[kZoColumns]) {
  __m512i t[kZoColumns];
#pragma GCC unroll 8
  for (int i = 0; i < kZoColumns; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
  /* v[4 i + c]: column c of each quarter, of rows 4 i to 4 i + 3. */
#pragma GCC unroll 4
  for (int i = 0; i < kZoColumns; i += 4) {
    v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512i first = _mm512_shuffle_i32x4(v[c], v[4 + c], 0x44);
    const __m512i second = _mm512_shuffle_i32x4(v[c], v[4 + c], 0xEE);
    const __m512i third = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0x44);
    const __m512i fourth = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0xEE);
    t[c] = _mm512_shuffle_i32x4(first, third, 0x88);
    t[4 + c] = _mm512_shuffle_i32x4(first, third, 0xDD);
    t[8 + c] = _mm512_shuffle_i32x4(second, fourth, 0x88);
    t[12 + c] = _mm512_shuffle_i32x4(second, fourth, 0xDD);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kZoColumns; ++i) v[i] = t[i];
}

/* [steps, kZoColumns, 4] of `columns` times `values` neighbouring values, `next` apart, each ^
 * flip; missing values of 16 columns or of the last step are 0 ^ flip. */
static inline __attribute__((always_inline)) void zo_avx512_columns(const int8_t* from, ptrdiff_t next, int32_t columns,
                                                                    int32_t values, const uint8_t flip, uint8_t* to) {
  const __m512i flips = _mm512_set1_epi8((char)flip);
  for (int32_t at = 0; at < values; at += 64) {
    const int32_t left = values - at < 64 ? values - at : 64;
    const __mmask64 mask = left == 64 ? ~UINT64_C(0) : (UINT64_C(1) << left) - 1u;
    __m512i v[kZoColumns];
#pragma GCC unroll 16
    for (int32_t c = 0; c < kZoColumns; ++c) {
      const __m512i own = c < columns ? _mm512_maskz_loadu_epi8(mask, from + c * next + at) : _mm512_setzero_si512();
      v[c] = _mm512_xor_si512(own, flips);
    }
    zo_avx512_transpose(v);
    for (int32_t i = 0; i < (left + 3) / 4; ++i, to += 64) _mm512_storeu_si512(to, v[i]);
  }
}

#endif /* TFLM_ZO_OPS_KERNELS_ZO_COLUMNS_AVX512_H_ */
