/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* zo_dense_sums with vectors of MVE (Cortex-M55, M85): lanes are samples, eight of which vmladav
 * multiplies by their errors and adds up. The errors of three channels stay in registers, and the
 * inputs of a column are gathered once for all of them. zo_dense_sums.c includes this file. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_SUMS_MVE_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_SUMS_MVE_H_

#include <arm_mve.h>

/* Samples of a vector. */
#define ZO_DENSE_LANES 8u

/* clang-format off */

/* A column of sixteen samples times the errors of three channels. */
#define ZO_DENSE_COLUMN(first, s0, s1)          \
  "vldrb.s16 q6, [%[row], q7]\n\t"              \
  "adds %[row], #1\n\t"                         \
  "vsub.i16 q6, q6, %[zero_point]\n\t"          \
  first " %[" s0 "], q6, q0\n\t"                \
  first " %[" s1 "], q6, q2\n\t"                \
  first " %[s2], q6, q4\n\t"                    \
  "vldrb.s16 q6, [%[more], q7]\n\t"             \
  "adds %[more], #1\n\t"                        \
  "vsub.i16 q6, q6, %[zero_point]\n\t"          \
  "vmladava.s16 %[" s0 "], q6, q1\n\t"          \
  "vmladava.s16 %[" s1 "], q6, q3\n\t"          \
  "vmladava.s16 %[s2], q6, q5\n\t"              \
  "str %[s2], [%[to2]], #4\n\t"

/* Two columns at a time. The sums share registers with the arguments: there are few registers, and
 * one less with a frame pointer. So the third channel's sums share one. */
#define ZO_DENSE_LOOP(load, load_third, first)                                                  \
  __asm__ volatile(                                                                             \
      "vldrh.16 q0, [%[s1]], #16\n\t"                                                           \
      "vldrh.16 q1, [%[s1]], #16\n\t"                                                           \
      "vldrh.16 q2, [%[s1]], #16\n\t"                                                           \
      "vldrh.16 q3, [%[s1]], #16\n\t"                                                           \
      "vldrh.16 q4, [%[s1]], #16\n\t"                                                           \
      "vldrh.16 q5, [%[s1]]\n\t"                                                                \
      "vldrh.16 q7, [%[s2]]\n\t"                                                                \
      "dls lr, %[s0]\n"                                                                         \
      "1:\n\t"                                                                                  \
      load load_third ZO_DENSE_COLUMN(first, "s0", "s1")                                        \
      load_third ZO_DENSE_COLUMN(first, "t0", "t1")                                             \
      "strd %[s0], %[t0], [%[to]], #8\n\t"                                                      \
      "strd %[s1], %[t1], [%[to1]], #8\n\t"                                                     \
      "le lr, 1b"                                                                               \
      : [s0] "+Te"(s0), [s1] "+Te"(s1), [s2] "+Te"(s2), [t0] "=&Te"(t0), [t1] "=&Te"(t1),       \
        [row] "+r"(row), [more] "+r"(more), [to] "+r"(to), [to1] "+r"(to1), [to2] "+r"(to2)     \
      : [zero_point] "r"(zero_point)                                                            \
      : "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "lr", "cc", "memory")

/* clang-format on */

/* The sums of an even number of columns.
 *
 *   row, more  of the first sample and of the first one of the second vector
 *   offsets    [ZO_DENSE_LANES] bytes from there to each lane's sample
 *
 * Not inlined: the loops take nearly all registers. */
static __attribute__((noinline)) void sum_two_columns(int32_t* to, uint32_t apart, uint32_t pairs,
                                                      const zo_dense_block* block, const int8_t* row,
                                                      const int8_t* more, const uint16_t* offsets, int32_t zero_point,
                                                      int adds) {
  int32_t *to1 = to + apart, *to2 = to1 + apart;
  uint32_t s0 = pairs, s1 = (uint32_t)(uintptr_t)block->errors, s2 = (uint32_t)(uintptr_t)offsets;
  uint32_t t0, t1;
  if (adds) {
    ZO_DENSE_LOOP(
        "ldrd %[s0], %[t0], [%[to]]\n\t"
        "ldrd %[s1], %[t1], [%[to1]]\n\t",
        "ldr %[s2], [%[to2]]\n\t", "vmladava.s16");
  } else {
    ZO_DENSE_LOOP("", "", "vmladav.s16");
  }
}

void zo_dense_sums(int32_t* sums, uint32_t apart, uint32_t count, uint32_t channels, zo_dense_block* block,
                   const zo_dense_inputs* inputs, int adds) {
  (void)channels;
  const uint32_t samples = inputs->samples, pairs = count / 2u;
  const int8_t *row = inputs->first, *more = row;
  if (samples > ZO_DENSE_LANES) more += (samples - ZO_DENSE_LANES) * inputs->apart;
  /* Without a sample, the error is 0, and anything that is there will do. */
  const uint16x8_t numbers = vminq_u16(vidupq_n_u16(0, 1), vdupq_n_u16((uint16_t)(samples - 1u)));
  const uint16x8_t places = vmulq_n_u16(numbers, (uint16_t)inputs->apart);
  uint16_t offsets[ZO_DENSE_LANES];
  vstrhq_u16(offsets, places);
  if (pairs > 0u) {
    sum_two_columns(sums, apart, pairs, block, row, more, offsets, inputs->zero_point, adds);
  }
  if (count % 2u == 0u) return;
  const int16_t zero_point = (int16_t)inputs->zero_point;
  const int16x8_t a = vsubq_n_s16(vldrbq_gather_offset_s16(row + 2u * pairs, places), zero_point);
  const int16x8_t b = vsubq_n_s16(vldrbq_gather_offset_s16(more + 2u * pairs, places), zero_point);
  for (uint32_t c = 0; c < ZO_DENSE_CHANNELS; ++c) {
    int32_t* const to = sums + c * apart + 2u * pairs;
    const int32_t sum = vmladavaq_s16(adds ? *to : 0, a, vldrhq_s16(block->errors[c]));
    *to = vmladavaq_s16(sum, b, vldrhq_s16(block->errors[c] + ZO_DENSE_LANES));
  }
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_SUMS_MVE_H_ */
