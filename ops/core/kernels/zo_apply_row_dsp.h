/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Rows of weights moved by instructions of the DSP extension (Cortex-M4, M7, M33), four weights at
 * a time. zo_apply_row.c includes this file and does the rest. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_DSP_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_DSP_H_

#include "ops/core/kernels/zo_dsp_lanes.h"
#include "ops/core/random/zo_stream.h"

/* Weights that are moved together, and the most that are in one call. */
#define ZO_ROW_TOGETHER 4u
#define ZO_ROW_MOST UINT32_C(0xFFFFFFFC)

static inline int zo_row_fits(int32_t limit, int32_t largest) { return bytes_suffice(limit, largest); }

/* Moves the first weights of a row, `count` of them, a multiple of ZO_ROW_TOGETHER that is not 0.
 * Returns how many were clipped. */
static inline uint32_t zo_move_vectors_8(int8_t* weights, const int32_t* steps, uint32_t count, int32_t limit,
                                         uint32_t* stream) {
  const byte_limits limits = byte_limits_of(limit);
  const int8_t* const end = weights + count;
  uint32_t clipped = 0, state = *stream, a, b, c, d;
  __asm__ volatile(
      "1:\n\t"
      "eor %[state], %[state], %[state], lsl #13\n\t"
      "eor %[state], %[state], %[state], lsr #17\n\t"
      "eor %[state], %[state], %[state], lsl #5\n\t"
      "ldrd %[a], %[b], [%[steps]], #8\n\t"
      "ldrd %[c], %[d], [%[steps]], #8\n\t"
      /* Rounding terms are overlapping halves of a word. */
      "uxtah %[a], %[a], %[state]\n\t"
      "uxtah %[b], %[b], %[state], ror #8\n\t"
      "add %[c], %[c], %[state], lsr #16\n\t"
      "uxtah %[d], %[d], %[state], ror #24\n\t"
      /* The whole parts of the sums, a byte each. */
      "pkhtb %[a], %[c], %[a], asr #16\n\t"
      "pkhtb %[b], %[d], %[b], asr #16\n\t"
      "uxtb16 %[a], %[a]\n\t"
      "uxtb16 %[b], %[b]\n\t"
      "orr %[a], %[a], %[b], lsl #8\n\t"
      "ldr %[b], [%[weights]]\n\t"
      "qadd8 %[c], %[b], %[a]\n\t"
      "qadd8 %[c], %[c], %[up]\n\t"
      "qsub8 %[c], %[c], %[down]\n\t"
      "qadd8 %[c], %[c], %[back]\n\t"
      "str %[c], [%[weights]], #4\n\t"
      /* The sum modulo 2^8 is another one if it was clipped or saturated. */
      "uadd8 %[b], %[b], %[a]\n\t"
      "eors %[b], %[b], %[c]\n\t"
      "beq 2f\n\t"
      /* Counts bytes that are not 0: each is reduced to at most 1 before they are added up. */
      "mov %[a], #0x01010101\n\t"
      "uqsub8 %[a], %[b], %[a]\n\t"
      "usub8 %[b], %[b], %[a]\n\t"
      "mov %[a], #0\n\t"
      "usada8 %[clipped], %[b], %[a], %[clipped]\n"
      "2:\n\t"
      "cmp %[weights], %[end]\n\t"
      "bne 1b"
      : [weights] "+r"(weights), [steps] "+r"(steps), [state] "+r"(state), [clipped] "+r"(clipped), [a] "=&r"(a),
        [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d)
      : [end] "r"(end), [up] "r"(limits.up), [down] "r"(limits.down), [back] "r"(limits.back)
      : "cc", "memory");
  *stream = state;
  return clipped;
}

#if !defined(__OPTIMIZE_SIZE__)
#define ZO_ROW_FRACTIONS 1

/* The same with fractions. */
static inline uint32_t zo_move_vectors_16(int8_t* weights, int8_t* fraction, const int32_t* steps, uint32_t count,
                                          int32_t limit) {
  uint32_t clipped = 0;
  for (const int8_t* const end = weights + count; weights != end; weights += 4, fraction += 4, steps += 4) {
    const four_steps f = in_fractions(load_four((const uint32_t*)steps));
    clipped += move_within_16(weights, fraction, f, limit);
  }
  return clipped;
}
#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_DSP_H_ */
