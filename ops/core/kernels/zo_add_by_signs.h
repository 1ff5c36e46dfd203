/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Sums along Rademacher directions: of the steps of weights, and of the errors of nodes. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_BY_SIGNS_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_BY_SIGNS_H_

#include "ops/core/zo_target.h"
#include "ops/core/zo_types.h"

/* Signs of a word of a stream. */
#define ZO_SIGNS 32u

/* Whether the compiler may have vectors of 32-bit lanes to compute with. */
#if defined(__ARM_ARCH) && !defined(__ARM_NEON) && !ZO_MVE
#define ZO_HAS_VECTORS 0
#elif defined(__riscv) && !defined(__riscv_vector)
#define ZO_HAS_VECTORS 0
#else
#define ZO_HAS_VECTORS 1
#endif

/* Whether bit j of a word is set. With vectors by a table, so that loops have no shift by their
 * counter: vector units without such shifts (SSE2, MVE has none either) can run them. */
#if ZO_HAS_VECTORS
static const uint32_t zo_own_bit[ZO_SIGNS] = {
    UINT32_C(1) << 0,  UINT32_C(1) << 1,  UINT32_C(1) << 2,  UINT32_C(1) << 3,  UINT32_C(1) << 4,  UINT32_C(1) << 5,
    UINT32_C(1) << 6,  UINT32_C(1) << 7,  UINT32_C(1) << 8,  UINT32_C(1) << 9,  UINT32_C(1) << 10, UINT32_C(1) << 11,
    UINT32_C(1) << 12, UINT32_C(1) << 13, UINT32_C(1) << 14, UINT32_C(1) << 15, UINT32_C(1) << 16, UINT32_C(1) << 17,
    UINT32_C(1) << 18, UINT32_C(1) << 19, UINT32_C(1) << 20, UINT32_C(1) << 21, UINT32_C(1) << 22, UINT32_C(1) << 23,
    UINT32_C(1) << 24, UINT32_C(1) << 25, UINT32_C(1) << 26, UINT32_C(1) << 27, UINT32_C(1) << 28, UINT32_C(1) << 29,
    UINT32_C(1) << 30, UINT32_C(1) << 31};
#define ZO_HAS_SIGN(word, j) (((word) & zo_own_bit[j]) != 0u)
#else
#define ZO_HAS_SIGN(word, j) (((word) >> (j) & 1u) != 0u)
#endif

/* sums[j] += coefficient, or -coefficient if bit j of the word is set; count is ZO_SIGNS at
 * most. */
static inline void zo_add_by_signs(int32_t* sums, uint32_t count, uint32_t word, int32_t coefficient) {
  const int32_t opposite = -coefficient;
#if ZO_HAS_VECTORS
  if (count == ZO_SIGNS) { /* constant bound: unrolled and vectorized */
    for (uint32_t j = 0; j < ZO_SIGNS; ++j) {
      sums[j] += ZO_HAS_SIGN(word, j) ? opposite : coefficient;
    }
    return;
  }
#elif !defined(__OPTIMIZE_SIZE__)
  for (; count >= 4u; count -= 4u, word >>= 4, sums += 4) { /* two loads and stores, no branches */
    const uint32_t c = (uint32_t)coefficient, twice = 2u * (uint32_t)opposite;
    const uint32_t s0 = (uint32_t)sums[0] + c, s1 = (uint32_t)sums[1] + c;
    const uint32_t s2 = (uint32_t)sums[2] + c, s3 = (uint32_t)sums[3] + c;
    sums[0] = (int32_t)(s0 + (word & 1u) * twice);
    sums[1] = (int32_t)(s1 + (word >> 1 & 1u) * twice);
    sums[2] = (int32_t)(s2 + (word >> 2 & 1u) * twice);
    sums[3] = (int32_t)(s3 + (word >> 3 & 1u) * twice);
  }
#endif
  for (uint32_t j = 0; j < count; ++j, word >>= 1) {
    sums[j] += (word & 1u) != 0u ? opposite : coefficient;
  }
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_BY_SIGNS_H_ */
