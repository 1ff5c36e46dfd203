/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_PRODUCTS_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_PRODUCTS_H_

#include <stdint.h>

/* The sum of `count` products weights[i] * (x[i] - zero_point), modulo 2^32; zero_point within int8. */
uint32_t zo_products(const int8_t* weights, const int8_t* x, int32_t zero_point, int32_t count);

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_PRODUCTS_H_ */
