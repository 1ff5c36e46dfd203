/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Checks of the C tests: the first that fails ends the program, and says where.
 */
#ifndef TFLM_ZO_TESTS_OPS_CHECK_H_
#define TFLM_ZO_TESTS_OPS_CHECK_H_

#include <stdio.h>
#include <stdlib.h>

/* Number of passed checks; each program has it once. */
extern unsigned long checks;

#define CHECK(condition)                                                      \
  do {                                                                        \
    ++checks;                                                                 \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

#endif /* TFLM_ZO_TESTS_OPS_CHECK_H_ */
