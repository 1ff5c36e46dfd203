/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Shifts of signed values as the specifications mean them: toward minus infinity. */
#ifndef TFLM_ZO_OPS_CORE_ZO_FIXED_POINT_H_
#define TFLM_ZO_OPS_CORE_ZO_FIXED_POINT_H_

#include <stdint.h>

/* floor(value / 2^bits). C99 leaves >> of a negative value to the implementation; where it is
 * arithmetic, as with every compiler TFLite supports, loops over it vectorize. */
#if (-1 >> 1) == -1

static inline int32_t zo_floor_shift(int32_t value, uint32_t bits) { return value >> bits; }

static inline int64_t zo_floor_shift64(int64_t value, uint32_t bits) { return value >> bits; }

#else

static inline int32_t zo_floor_shift(int32_t value, uint32_t bits) {
  return value >= 0 ? value >> bits : ~(~value >> bits);
}

static inline int64_t zo_floor_shift64(int64_t value, uint32_t bits) {
  return value >= 0 ? value >> bits : ~(~value >> bits);
}

#endif

static inline int32_t zo_clamp(int32_t value, int32_t low, int32_t high) {
  return value < low ? low : (value > high ? high : value);
}

#endif /* TFLM_ZO_OPS_CORE_ZO_FIXED_POINT_H_ */
