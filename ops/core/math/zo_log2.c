/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/math/zo_log2.h"

/* Both functions interpolate linearly between 65 points. The points are computed, exactly as
 * zo_log2.h says: tables of them would take half a kilobyte. */

/* 2^32 2^(-a / 8) and 2^32 2^(-b / 64), changed by a few units at most, so that each of the 64
 * products is that of a point, rounded. */
static const uint32_t eighths[8] = {4294967295u, 3938502376u, 3611622603u, 3311872530u,
                                    3037000500u, 2784941737u, 2553802833u, 2341847524u};
static const uint32_t sixty_fourths[8] = {4294967295u, 4248701966u, 4202935003u, 4157661043u,
                                          4112874773u, 4068570940u, 4024744348u, 3981389855u};

/* round(2^30 * 2^(-i / 64)), i <= 64 */
static uint32_t exp2_point(uint32_t i) {
  const uint64_t product = (uint64_t)eighths[i / 8u % 8u] * sixty_fourths[i % 8u];
  return (((uint32_t)(product >> 33) + 1u) >> 1) >> (i / 64u);
}

/* round(2^26 * log2(1 + i / 64)), i <= 64: each squaring of a number from 1 to 2 doubles its
 * logarithm, whose next bit is whether it has come to 2. */
static uint32_t log2_point(uint32_t i) {
  uint64_t x = (uint64_t)(64u + i) << 25; /* unit 2^-31 */
  uint32_t bits = 0;
  for (uint32_t n = 0; n < 28u; ++n) { /* one before the point, one to round by */
    const uint32_t bit = (uint32_t)(x >> 32);
    const uint32_t one_to_two = (uint32_t)(x >> bit);
    bits = 2u * bits + bit;
    x = ((uint64_t)one_to_two * one_to_two) >> 31;
  }
  return (bits + 1u) >> 1;
}

uint32_t zo_exp2_negative(uint32_t x) {
  const uint32_t index = (x >> 18) & 63u;
  const uint32_t rest = (x & UINT32_C(0x3FFFF)) >> 2; /* 16 bits */
  const uint32_t point = exp2_point(index);
  const uint32_t slope = (point - exp2_point(index + 1u)) >> 8; /* 16 bits */
  return (point - ((slope * rest) >> 8)) >> (x >> 24);
}

uint32_t zo_log2(uint64_t x) {
  uint32_t whole = 0;
  while (x >= (UINT64_C(1) << 31)) {
    x >>= 1;
    ++whole;
  }
  const uint32_t fraction = (uint32_t)x & UINT32_C(0x3FFFFFFF); /* 30 bits */
  const uint32_t index = fraction >> 24;
  const uint32_t rest = (fraction & UINT32_C(0xFFFFFF)) >> 8; /* 16 bits */
  const uint32_t point = log2_point(index);
  const uint32_t slope = (log2_point(index + 1u) - point) >> 5; /* 16 bits */
  return (whole << 26) + point + ((slope * rest) >> 11);
}
