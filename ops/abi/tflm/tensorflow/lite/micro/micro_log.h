/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Stand-in for TensorFlow Lite Micro's header of the same path; see micro_common.h beside it.
 */
#ifndef TFLM_ZO_OPS_ABI_TFLM_MICRO_LOG_H_
#define TFLM_ZO_OPS_ABI_TFLM_MICRO_LOG_H_

#include <cstdio>

#define MicroPrintf(...) \
  (static_cast<void>(std::fprintf(stderr, __VA_ARGS__)), static_cast<void>(std::fputc('\n', stderr)))

#endif  // TFLM_ZO_OPS_ABI_TFLM_MICRO_LOG_H_
