/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/kernels/zo_add_products.h"

#include "ops/core/kernels/zo_weight_loops.h"

#if (defined(__SSE2__) || defined(__ARM_NEON)) && !defined(ZO_PORTABLE)

/* Factors of 16 bits: it vectorizes. */
static void add_product(int32_t* restrict sums, const int8_t* restrict row, uint32_t count, int16_t zero_point,
                        int16_t factor) {
  for (uint32_t j = 0; j < count; ++j) sums[j] += factor * (int16_t)(row[j] - zero_point);
}

void zo_add_products(int32_t* sums, uint32_t count, const zo_product* products, uint32_t number, size_t offset,
                     int32_t zero_point) {
#if ZO_KERNEL_SETS
  const zo_weight_loops* loops = zo_weight_loops_of_machine();
  if (loops != NULL && number > 1u) { /* which keep sums in registers: of use to several products */
    const uint32_t done = zo_loops_add_products(loops, sums, count, products, number, offset, zero_point);
    sums += done;
    count -= done;
    offset += done;
  }
  if (count == 0u) return;
#endif
  for (uint32_t k = 0; k < number; ++k) {
    add_product(sums, products[k].row + offset, count, (int16_t)zero_point, (int16_t)products[k].factor);
  }
}

#else

/* Each of these provides zo_add_together, which adds the products to ZO_SUMS_TOGETHER sums that are
 * in registers; vectors add the rest, too. */
#if ZO_FORM_PRODUCTS
#include "ops/core/kernels/zo_add_products_mve.h"
#else

/* They take more registers than code that is not optimized leaves. */
#if ZO_DSP && defined(__OPTIMIZE__)
#include "ops/core/kernels/zo_add_products_dsp.h"
#else

#define ZO_SUMS_TOGETHER 8u

static void zo_add_together(int32_t* to, const zo_product* products, const zo_product* end, size_t offset,
                            uint32_t bias) {
  uint32_t s0 = bias, s1 = bias, s2 = bias, s3 = bias, s4 = bias, s5 = bias, s6 = bias, s7 = bias;
  for (const zo_product* c = products; c < end; ++c) {
    const int8_t* x = c->row + offset;
    const int32_t f = c->factor;
    s0 += (uint32_t)(f * x[0]);
    s1 += (uint32_t)(f * x[1]);
    s2 += (uint32_t)(f * x[2]);
    s3 += (uint32_t)(f * x[3]);
    s4 += (uint32_t)(f * x[4]);
    s5 += (uint32_t)(f * x[5]);
    s6 += (uint32_t)(f * x[6]);
    s7 += (uint32_t)(f * x[7]);
  }
  to[0] = (int32_t)((uint32_t)to[0] + s0);
  to[1] = (int32_t)((uint32_t)to[1] + s1);
  to[2] = (int32_t)((uint32_t)to[2] + s2);
  to[3] = (int32_t)((uint32_t)to[3] + s3);
  to[4] = (int32_t)((uint32_t)to[4] + s4);
  to[5] = (int32_t)((uint32_t)to[5] + s5);
  to[6] = (int32_t)((uint32_t)to[6] + s6);
  to[7] = (int32_t)((uint32_t)to[7] + s7);
}

#endif

static void zo_add_rest(int32_t* to, uint32_t count, const zo_product* products, const zo_product* end, size_t offset,
                        uint32_t bias) {
  for (uint32_t j = 0; j < count; ++j) {
    uint32_t sum = bias;
    for (const zo_product* c = products; c < end; ++c) {
      sum += (uint32_t)(c->factor * c->row[offset + j]);
    }
    to[j] = (int32_t)((uint32_t)to[j] + sum);
  }
}

#endif

/* Sums are those of exact integers within 31 bits; unsigned, because intermediate sums may
 * overflow. */
void zo_add_products(int32_t* sums, uint32_t count, const zo_product* products, uint32_t number, size_t offset,
                     int32_t zero_point) {
  const zo_product* const end = products + number;
  uint32_t bias = 0;
  if (zero_point != 0) {
    for (const zo_product* c = products; c < end; ++c) bias -= (uint32_t)(c->factor * zero_point);
  }
  uint32_t j = 0;
  for (; j + ZO_SUMS_TOGETHER <= count; j += ZO_SUMS_TOGETHER) {
    zo_add_together(sums + j, products, end, offset + j, bias);
  }
  zo_add_rest(sums + j, count - j, products, end, offset + j, bias);
}

#endif
