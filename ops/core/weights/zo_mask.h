/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Which weights of a tensor are trained (zo_tensor.mask): bit i % 8 of byte i / 8 is weight i. */
#ifndef TFLM_ZO_OPS_CORE_WEIGHTS_ZO_MASK_H_
#define TFLM_ZO_OPS_CORE_WEIGHTS_ZO_MASK_H_

#include "ops/core/zo_types.h"

static inline uint32_t zo_mask_bytes(uint32_t size) { return size / 8u + (size % 8u != 0u); }

/* Whether weight `index` is trained; without a mask all are. */
static inline int zo_mask_has(const uint8_t* mask, uint32_t index) {
  return mask == NULL || ((uint32_t)mask[index / 8u] >> (index % 8u) & 1u) != 0u;
}

/* The bits of the weights [index, index + count), index a multiple of 8, count 1..32. */
static inline uint32_t zo_mask_word(const uint8_t* mask, uint32_t index, uint32_t count) {
  uint32_t word = 0;
  for (uint32_t i = 0; i < count; i += 8u) word |= (uint32_t)mask[(index + i) / 8u] << i;
  return count < 32u ? word & ((UINT32_C(1) << count) - 1u) : word;
}

/* Number of the lowest bit that is set; word is not 0. */
static inline uint32_t zo_lowest_bit(uint32_t word) {
  /* A de Bruijn sequence: each shift by 0..31 has five highest bits of its own. The compiler's own
   * count would be a library call on cores without the instruction. */
  static const uint8_t number[32] = {0,  1,  28, 2,  29, 14, 24, 3, 30, 22, 20, 15, 25, 17, 4,  8,
                                     31, 27, 13, 23, 21, 19, 16, 7, 26, 12, 18, 6,  11, 5,  10, 9};
  return number[(word & (0u - word)) * UINT32_C(0x077CB531) >> 27];
}

#endif /* TFLM_ZO_OPS_CORE_WEIGHTS_ZO_MASK_H_ */
