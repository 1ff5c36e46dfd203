/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * In the place of a generated folder's: whoever runs the segments has all operators.
 */
#ifndef TFLM_ZO_TESTS_DEVICE_GEN_MICRO_MUTABLE_OP_RESOLVER_H_
#define TFLM_ZO_TESTS_DEVICE_GEN_MICRO_MUTABLE_OP_RESOLVER_H_

#include "tensorflow/lite/micro/micro_op_resolver.h"

constexpr int kNumberOperators = 0;

namespace tflite {

template <unsigned int>
class MicroMutableOpResolver : public MicroOpResolver {};

}  // namespace tflite

inline tflite::MicroMutableOpResolver<kNumberOperators> get_resolver() { return {}; }

#endif  // TFLM_ZO_TESTS_DEVICE_GEN_MICRO_MUTABLE_OP_RESOLVER_H_
