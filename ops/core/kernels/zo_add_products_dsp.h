/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Four sums of zo_add_products by instructions of the DSP extension (Cortex-M4, M7, M33), two
 * products at a time: as many as fit the registers. zo_add_products.c includes this file. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_PRODUCTS_DSP_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_PRODUCTS_DSP_H_

#include "ops/core/zo_types.h"

#define ZO_SUMS_TOGETHER 4u

/* Not an array: its parts are to be registers. */
typedef struct zo_four_sums {
  int32_t s0, s1, s2, s3;
} zo_four_sums;

/* Adds two products to four sums. All of it is one statement, since a compiler that moves loads
 * ahead of each other runs out of registers. A word of either row becomes the first two weights of
 * both (pkhbt) and the last two (pkhtb); of these, the bytes 0 and 2 or 1 and 3 are two weights of
 * one sum, which smlad multiplies by both factors. */
static inline zo_four_sums zo_add_two(zo_four_sums to, const zo_product* products, size_t offset) {
  uint32_t a, b, f, t;
  __asm__(
      "ldrd %[a], %[f], [%[p]]\n\t"
      "ldrd %[b], %[t], [%[p], #8]\n\t"
      "ldr %[a], [%[a], %[offset]]\n\t"
      "ldr %[b], [%[b], %[offset]]\n\t"
      "pkhbt %[f], %[f], %[t], lsl #16\n\t"
      "pkhbt %[t], %[a], %[b], lsl #16\n\t"
      "pkhtb %[b], %[b], %[a], asr #16\n\t"
      "sxtb16 %[a], %[t]\n\t"
      "smlad %[s0], %[a], %[f], %[s0]\n\t"
      "sxtb16 %[t], %[t], ror #8\n\t"
      "smlad %[s1], %[t], %[f], %[s1]\n\t"
      "sxtb16 %[a], %[b]\n\t"
      "smlad %[s2], %[a], %[f], %[s2]\n\t"
      "sxtb16 %[b], %[b], ror #8\n\t"
      "smlad %[s3], %[b], %[f], %[s3]"
      : [s0] "+r"(to.s0), [s1] "+r"(to.s1), [s2] "+r"(to.s2), [s3] "+r"(to.s3), [a] "=&r"(a), [b] "=&r"(b),
        [f] "=&r"(f), [t] "=&r"(t)
      : [p] "r"(products), [offset] "r"(offset)
      : "memory");
  return to;
}

static void zo_add_together(int32_t* to, const zo_product* products, const zo_product* end, size_t offset,
                            uint32_t bias) {
  const int32_t begin = (int32_t)bias;
  zo_four_sums sums = {begin, begin, begin, begin};
  if ((end - products) % 2 != 0) {
    const int8_t* row = products->row + offset;
    const int32_t factor = products->factor;
    sums.s0 += factor * row[0];
    sums.s1 += factor * row[1];
    sums.s2 += factor * row[2];
    sums.s3 += factor * row[3];
    ++products;
  }
  if ((end - products) % 4 != 0) {
    sums = zo_add_two(sums, products, offset);
    products += 2;
  }
  for (; products != end; products += 4) {
    sums = zo_add_two(sums, products, offset);
    sums = zo_add_two(sums, products + 2, offset);
  }
  to[0] += sums.s0;
  to[1] += sums.s1;
  to[2] += sums.s2;
  to[3] += sums.s3;
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_PRODUCTS_DSP_H_ */
