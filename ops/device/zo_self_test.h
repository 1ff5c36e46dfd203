/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The self-test of a network (Network::SelfTest). It finds kernels whose bytes differ from TFLM's,
 * and inputs that nothing feeds, before a run of days begins.
 */
#ifndef TFLM_ZO_OPS_DEVICE_ZO_SELF_TEST_H_
#define TFLM_ZO_OPS_DEVICE_ZO_SELF_TEST_H_

#include <stdint.h>

namespace tflm_zo {

// A kind of operator, as resolvers know it.
struct OperatorKind {
  int32_t builtin;     // number of the operator in TFLite's schema
  const char* custom;  // name of a custom operator, else null
};

// An operator's output for the sample.
struct OperatorInfo {
  const char* layer;  // that it belongs to, and its kind; null: its outputs are not compared
  uint32_t checksum;  // CRC-32 of its outputs, one behind the other
  uint16_t segment;
  uint16_t kind;
};

// The operators of all segments, in the order in which they run. No operators: the desktop that
// generated them had no runtime for the model.
struct SelfTestInfo {
  const OperatorInfo* operators;
  uint32_t count;
  const OperatorKind* kinds;  // ZO_OPERATORS
};

extern const SelfTestInfo kSelfTest;

}  // namespace tflm_zo

#endif  // TFLM_ZO_OPS_DEVICE_ZO_SELF_TEST_H_
