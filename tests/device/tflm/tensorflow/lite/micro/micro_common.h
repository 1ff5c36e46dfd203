/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * See micro_interpreter.h. No operator is registered: the host runs the segments.
 */
#ifndef TFLM_ZO_TESTS_DEVICE_MICRO_COMMON_H_
#define TFLM_ZO_TESTS_DEVICE_MICRO_COMMON_H_

enum TfLiteStatus { kTfLiteOk = 0, kTfLiteError = 1 };

struct TFLMRegistration {};

#endif  // TFLM_ZO_TESTS_DEVICE_MICRO_COMMON_H_
