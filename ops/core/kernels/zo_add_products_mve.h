/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Sixteen sums of zo_add_products with vectors of MVE (Cortex-M55, M85), and the rest by fours.
 * zo_add_products.c includes this file. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_PRODUCTS_MVE_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_PRODUCTS_MVE_H_

#include <arm_mve.h>

#define ZO_SUMS_TOGETHER 16u

static void zo_add_together(int32_t* to, const zo_product* products, const zo_product* end, size_t offset,
                            uint32_t bias) {
  int32x4_t s0 = vdupq_n_s32((int32_t)bias), s1 = s0, s2 = s0, s3 = s0;
  for (; products != end; ++products) {
    const int8_t* row = products->row + offset;
    const int32_t factor = products->factor;
    s0 = vmlaq_n_s32(s0, vldrbq_s32(row), factor);
    s1 = vmlaq_n_s32(s1, vldrbq_s32(row + 4), factor);
    s2 = vmlaq_n_s32(s2, vldrbq_s32(row + 8), factor);
    s3 = vmlaq_n_s32(s3, vldrbq_s32(row + 12), factor);
  }
  vstrwq_s32(to, vaddq_s32(vldrwq_s32(to), s0));
  vstrwq_s32(to + 4, vaddq_s32(vldrwq_s32(to + 4), s1));
  vstrwq_s32(to + 8, vaddq_s32(vldrwq_s32(to + 8), s2));
  vstrwq_s32(to + 12, vaddq_s32(vldrwq_s32(to + 12), s3));
}

static void zo_add_rest(int32_t* to, uint32_t count, const zo_product* products, const zo_product* end, size_t offset,
                        uint32_t bias) {
  for (uint32_t j = 0; j < count; j += 4u) {
    const mve_pred16_t there = vctp32q(count - j);
    int32x4_t sums = vaddq_n_s32(vldrwq_z_s32(to + j, there), (int32_t)bias);
    for (const zo_product* c = products; c != end; ++c) {
      const int32x4_t row = vldrbq_z_s32(c->row + (offset + j), there);
      sums = vmlaq_n_s32(sums, row, c->factor);
    }
    vstrwq_p_s32(to + j, sums, there);
  }
}

void zo_form_products(int32_t* products, uint32_t count, const int8_t* row, int32_t factor, int32_t zero_point) {
  __asm__ volatile(
      "vdup.32 q1, %[factor]\n\t"
      "wlstp.32 lr, %[count], 2f\n"
      "1:\n\t"
      "vldrb.s32 q0, [%[row]], #4\n\t"
      "vmlas.s32 q0, q1, %[bias]\n\t"
      "vstrw.32 q0, [%[products]], #16\n\t"
      "letp lr, 1b\n"
      "2:"
      : [products] "+r"(products), [row] "+r"(row)
      : [count] "r"(count), [factor] "r"(factor), [bias] "r"(-factor * zero_point)
      : "q0", "q1", "lr", "cc", "memory");
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_PRODUCTS_MVE_H_ */
