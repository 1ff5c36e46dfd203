/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Integer arithmetic that C99 leaves open or has no function for: shifts of signed values as the
 * specifications mean them, toward minus infinity; clamps; square roots. */
#ifndef TFLM_ZO_OPS_CORE_MATH_ZO_FIXED_POINT_H_
#define TFLM_ZO_OPS_CORE_MATH_ZO_FIXED_POINT_H_

#include <stdint.h>

#include "ops/core/zo_target.h"

/* Functions of which a build for size has one copy a file, instead of one a call. */
#if defined(__OPTIMIZE_SIZE__) && ZO_GNU_C
#define ZO_SHARED static __attribute__((noinline, unused))
#else
#define ZO_SHARED static inline
#endif

/* floor(value / 2^bits). C99 leaves >> of a negative value to the implementation; if it is
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

/* value / 2^bits, half up; bits <= 31, and 2^(bits - 1) can be added to the value. */
static inline int32_t zo_half_up(int32_t value, uint32_t bits) {
  return zo_floor_shift(value + (int32_t)(UINT32_C(1) << bits >> 1), bits);
}

/* The largest |value|; 0 of none. */
static inline int32_t zo_largest_magnitude(const int16_t* values, uint32_t count) {
  int16_t lowest = 0, highest = 0; /* with 16 bits it vectorizes */
  for (uint32_t i = 0; i < count; ++i) {
    lowest = values[i] < lowest ? values[i] : lowest;
    highest = values[i] > highest ? values[i] : highest;
  }
  return -lowest > highest ? -lowest : highest;
}

static inline int32_t zo_clamp(int32_t value, int32_t low, int32_t high) {
  return value < low ? low : (value > high ? high : value);
}

/* Within +-limit. */
ZO_SHARED int64_t zo_clamp64(int64_t value, int64_t limit) {
  return value < -limit ? -limit : (value > limit ? limit : value);
}

/* numerator / denominator, half away from zero; denominator > 0. */
ZO_SHARED int64_t zo_divide(int64_t numerator, int64_t denominator) {
  const int64_t half = denominator / 2;
  return numerator >= 0 ? (numerator + half) / denominator : -((-numerator + half) / denominator);
}

/* floor(sqrt(value)). */
ZO_SHARED uint32_t zo_square_root(uint64_t value) {
  uint64_t root = 0;
  for (uint64_t bit = UINT64_C(1) << 62; bit != 0u; bit >>= 2) {
    if (value >= root + bit) {
      value -= root + bit;
      root = (root >> 1) + bit;
    } else {
      root >>= 1;
    }
  }
  return (uint32_t)root;
}

#endif /* TFLM_ZO_OPS_CORE_MATH_ZO_FIXED_POINT_H_ */
