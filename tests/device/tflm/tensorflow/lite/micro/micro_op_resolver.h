/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * See micro_interpreter.h. The host has all operators.
 */
#ifndef TFLM_ZO_TESTS_DEVICE_MICRO_OP_RESOLVER_H_
#define TFLM_ZO_TESTS_DEVICE_MICRO_OP_RESOLVER_H_

namespace tflite {

class MicroOpResolver {};

}  // namespace tflite

#endif  // TFLM_ZO_TESTS_DEVICE_MICRO_OP_RESOLVER_H_
