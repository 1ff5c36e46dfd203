/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Errors on their way back through operators: any geometry in buffers of the exact size, with
 * values at the ends of their ranges, against sums that are scattered from the outputs instead of
 * gathered at the inputs; and refusals. Bits are checked by tests/core/test_backward.py.
 */
#ifndef TFLM_ZO_TESTS_OPS_BACKWARD_BACKWARD_TEST_H_
#define TFLM_ZO_TESTS_OPS_BACKWARD_BACKWARD_TEST_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "tests/ops/check.h"

uint32_t below(uint32_t bound);
void* allocate(size_t bytes);
int16_t* make_errors(uint32_t count);
int8_t* make_bytes(uint32_t count);
void check_close(const int16_t* errors, int8_t exponent, const double* exact, uint32_t count, double slack);

void test_conv(void);
void test_conv_refusals(void);
void test_largest_layer(void);
void test_pool(void);
void test_elementwise(void);
void test_products(void);
void test_largest_product(void);
void test_exponents(void);
void test_program(void);

#endif /* TFLM_ZO_TESTS_OPS_BACKWARD_BACKWARD_TEST_H_ */
