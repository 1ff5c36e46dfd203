/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Runs all tests of errors on their way back. */
#include "backward_test.h"

unsigned long checks;

enum { kRounds = 1500 };

int main(void) {
  test_program();
  for (int round = 0; round < kRounds; ++round) {
    test_conv();
    test_pool();
    test_elementwise();
    test_products();
  }
  test_conv_refusals();
  test_largest_layer();
  test_largest_product();
  test_exponents();
  printf("backward_test: %lu checks passed\n", checks);
  return 0;
}
