/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Replaces that of a generated folder: the host has all operators.
 */
#ifndef TFLM_ZO_TESTS_DEVICE_ZO_OP_RESOLVER_H_
#define TFLM_ZO_TESTS_DEVICE_ZO_OP_RESOLVER_H_

#include "tensorflow/lite/micro/micro_op_resolver.h"

namespace tflm_zo {

constexpr int kNumberOperators = 0;

}  // namespace tflm_zo

namespace tflite {

template <unsigned int>
class MicroMutableOpResolver : public MicroOpResolver {};

}  // namespace tflite

namespace tflm_zo {

inline tflite::MicroMutableOpResolver<kNumberOperators> get_resolver() { return {}; }

}  // namespace tflm_zo

#endif  // TFLM_ZO_TESTS_DEVICE_ZO_OP_RESOLVER_H_
