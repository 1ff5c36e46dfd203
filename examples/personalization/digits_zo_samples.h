// Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
//
// Samples of the example, in flash; personalization.py writes their values to digits_zo_samples.cc.
// In a product the stream comes from a sensor, its labels from the user of the device, and the
// held-out samples stay on the desk of the developer.
#ifndef DIGITS_ZO_SAMPLES_H_
#define DIGITS_ZO_SAMPLES_H_

#include <stdint.h>

constexpr uint32_t kInputBytes = 64;
constexpr uint32_t kClasses = 10;
constexpr uint32_t kOldClasses = 8;  // the model knows those before it

struct Sample {
  int8_t input[kInputBytes];
  int32_t label;
};

// A few samples of each old class, rehearsed so that they are not forgotten.
constexpr uint32_t kRehearsalCount = 48;
extern const Sample kRehearsal[kRehearsalCount];

// The device's samples, in this order.
constexpr uint32_t kStreamCount = 300;
extern const Sample kStream[kStreamCount];

// Samples that it never learns from, by class, rising.
extern const Sample kHeldOut[];
extern const uint32_t kHeldOutCount;

#endif  // DIGITS_ZO_SAMPLES_H_
