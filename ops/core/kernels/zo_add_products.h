/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Sums of products of 8-bit rows and 16-bit factors, for gradients and transposed layers. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_PRODUCTS_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_PRODUCTS_H_

#include <stddef.h>

#include "ops/core/zo_target.h"
#include "ops/core/zo_types.h"

/* Whether there is zo_form_products: if it is faster than to add to zeros. */
#define ZO_FORM_PRODUCTS ZO_MVE

/* A row and its factor, of 16 bits. */
typedef struct zo_product {
  const int8_t* row;
  int32_t factor;
} zo_product;

/* sums[j] += sum over products of factor * (row[offset + j] - zero_point), j < count. Sums, before
 * and after, and those of any of the products alone, are within 31 bits. */
void zo_add_products(int32_t* sums, uint32_t count, const zo_product* products, uint32_t number, size_t offset,
                     int32_t zero_point);

#if ZO_FORM_PRODUCTS
/* products[j] = factor * (row[j] - zero_point), j < count. */
void zo_form_products(int32_t* products, uint32_t count, const int8_t* row, int32_t factor, int32_t zero_point);
#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_ADD_PRODUCTS_H_ */
