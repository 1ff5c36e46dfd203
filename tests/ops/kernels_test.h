/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Shared code of the files of kernels_test. */
#ifndef TFLM_ZO_TESTS_OPS_KERNELS_TEST_H_
#define TFLM_ZO_TESTS_OPS_KERNELS_TEST_H_

#include "check.h"
#include "ops/kernels/zo_kernel_set.h"

uint32_t draw(void);
int32_t between(int32_t low, int32_t high);
void* allocate(size_t bytes);

/* Random bytes, or one extreme for all, or both extremes. */
int8_t* bytes_of(size_t count);

void test_layers(const zo_kernel_set* set);
void test_recurrent(void);
void test_softmax(void);
void test_weights(const zo_kernel_set* set);

#endif /* TFLM_ZO_TESTS_OPS_KERNELS_TEST_H_ */
