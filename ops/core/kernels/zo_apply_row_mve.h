/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Rows of weights moved with vectors of MVE (Cortex-M55, M85), 16 weights at a time. Loops are
 * written out because they need all eight vector registers, which GCC 12 spills. zo_apply_row.c
 * includes this file and does the rest. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_MVE_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_MVE_H_

#include "ops/core/random/zo_stream.h"

/* Weights that are moved together. */
#define ZO_ROW_TOGETHER 16u

/* Weights that a loop moves at most, and columns of four rows: it counts the clipped ones in lanes
 * of a byte. */
#define ZO_ROW_MOST (255u * ZO_ROW_TOGETHER)
#define ZO_ROWS_MOST (255u * 4u)

/* Whether steps of at most `largest` move a weight by at most a byte's range. Either loop requires
 * no more: a fraction is added to a sum that is saturated far beyond the limit. */
static inline int zo_row_fits(int32_t limit, int32_t largest) {
  (void)limit;
  return largest <= INT32_C(127) << ZO_COEFFICIENT_BITS;
}

/* Moves the first weights of a row, `count` of them, a multiple of ZO_ROW_TOGETHER. Returns how
 * many were clipped. */
static inline uint32_t zo_move_vectors_8(int8_t* weights, const int32_t* steps, uint32_t count, int32_t limit,
                                         uint32_t* stream) {
  /* The words of the loop share registers with its arguments: there are few registers, and one less
   * with a frame pointer. */
  uint32_t w0 = count / ZO_ROW_TOGETHER, w1 = (uint32_t)-limit, w2;
  uint32_t clipped = 0, state = *stream;
  __asm__ volatile(
      "vdup.8 q7, %[clipped]\n\t"
      "mov %[clipped], #1\n\t"
      "vdup.8 q6, %[w1]\n\t"
      "dls lr, %[w0]\n"
      "1:\n\t"
      /* Four words of the stream, the first weights' in the lowest lane. */
      "eor %[w0], %[state], %[state], lsl #13\n\t"
      "eor %[w0], %[w0], %[w0], lsr #17\n\t"
      "eor %[w0], %[w0], %[w0], lsl #5\n\t"
      "eor %[w1], %[w0], %[w0], lsl #13\n\t"
      "eor %[w1], %[w1], %[w1], lsr #17\n\t"
      "eor %[w1], %[w1], %[w1], lsl #5\n\t"
      "eor %[w2], %[w1], %[w1], lsl #13\n\t"
      "eor %[w2], %[w2], %[w2], lsr #17\n\t"
      "eor %[w2], %[w2], %[w2], lsl #5\n\t"
      "eor %[state], %[w2], %[w2], lsl #13\n\t"
      "eor %[state], %[state], %[state], lsr #17\n\t"
      "eor %[state], %[state], %[state], lsl #5\n\t"
      "vmov q4[2], q4[0], %[w0], %[w2]\n\t"
      "vmov q4[3], q4[1], %[w1], %[state]\n\t"
      /* Lane i of vector k is the step of weight 4 i + k, which takes that half of word i which
       * begins at byte k. */
      "vld40.32 {q0, q1, q2, q3}, [%[steps]]\n\t"
      "vld41.32 {q0, q1, q2, q3}, [%[steps]]\n\t"
      "vld42.32 {q0, q1, q2, q3}, [%[steps]]\n\t"
      "vld43.32 {q0, q1, q2, q3}, [%[steps]]!\n\t"
      "vmovlb.u16 q5, q4\n\t"
      "vadd.i32 q0, q0, q5\n\t"
      "vmovlt.u16 q5, q4\n\t"
      "vadd.i32 q2, q2, q5\n\t"
      "vshr.u32 q5, q4, #8\n\t"
      "vsli.32 q5, q4, #24\n\t"
      "vmovlb.u16 q4, q5\n\t"
      "vadd.i32 q1, q1, q4\n\t"
      "vmovlt.u16 q4, q5\n\t"
      "vadd.i32 q3, q3, q4\n\t"
      /* Their high halves, of which the lower bytes count, in order. */
      "vsri.32 q2, q0, #16\n\t"
      "vsri.32 q3, q1, #16\n\t"
      "vsli.16 q2, q3, #8\n\t"
      "vldrb.8 q0, [%[weights]]\n\t"
      "vqadd.s8 q1, q0, q2\n\t"
      "vadd.i8 q0, q0, q2\n\t"
      /* Within the limit: saturated with 127 - limit added. */
      "vqadd.s8 q1, q1, %[up]\n\t"
      "vqsub.s8 q1, q1, %[up]\n\t"
      "vmax.s8 q1, q1, q6\n\t"
      "vstrb.8 q1, [%[weights]], #16\n\t"
      /* The sum modulo 2^8 is another one if it was clipped or saturated. */
      "vpt.i8 ne, q1, q0\n\t"
      "vaddt.i8 q7, q7, %[clipped]\n\t"
      "le lr, 1b\n\t"
      "vaddv.u8 %[clipped], q7"
      : [clipped] "+Te"(clipped), [w0] "+r"(w0), [w1] "+r"(w1), [w2] "=&r"(w2), [state] "+r"(state),
        [weights] "+r"(weights), [steps] "+r"(steps)
      : [up] "r"(127 - limit)
      : "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "lr", "cc", "memory");
  *stream = state;
  return clipped;
}

/* Moves four rows by the same steps, lane i of a vector of words being of row i, which has a stream
 * of its own: four columns at a time, `count` of them, a multiple of four. Returns how many weights
 * were clipped.
 *
 *   weights  of the first row
 *   apart    [4] bytes from the first row to each
 *   streams  [4] states, moved on
 *
 * Not inlined: the loop takes nearly all registers. */
static __attribute__((noinline)) uint32_t zo_move_four_rows(int8_t* weights, const uint32_t* apart,
                                                            const int32_t* steps, uint32_t count, int32_t limit,
                                                            uint32_t* streams) {
  /* The four steps of the loop share registers with its arguments: there are few registers, and one
   * less with a frame pointer. */
  uint32_t s0 = count / 4u, s1 = (uint32_t)limit, s2 = (uint32_t)(uintptr_t)apart, s3;
  uint32_t clipped = 0;
  __asm__ volatile(
      "vdup.8 q7, %[clipped]\n\t"
      "mov %[clipped], #1\n\t"
      "vdup.8 q4, %[s1]\n\t"
      "vneg.s8 q6, q4\n\t"
      /* Where the rows' words before these are: a load goes on to the next ones. */
      "vldrw.32 q5, [%[s2]]\n\t"
      "vadd.i32 q5, q5, %[before]\n\t"
      "vldrw.32 q0, [%[streams]]\n\t"
      "dls lr, %[s0]\n"
      "1:\n\t"
      "vshl.i32 q1, q0, #13\n\t"
      "veor q0, q0, q1\n\t"
      "vshr.u32 q1, q0, #17\n\t"
      "veor q0, q0, q1\n\t"
      "vshl.i32 q1, q0, #5\n\t"
      "veor q0, q0, q1\n\t"
      "ldrd %[s0], %[s1], [%[steps]], #8\n\t"
      "ldrd %[s2], %[s3], [%[steps]], #8\n\t"
      /* Rounding terms are the halves of words that begin at bytes 0 to 3. */
      "vmovlb.u16 q2, q0\n\t"
      "vadd.i32 q2, q2, %[s0]\n\t"
      "vmovlt.u16 q3, q0\n\t"
      "vadd.i32 q3, q3, %[s2]\n\t"
      "vsri.32 q3, q2, #16\n\t"
      "vshr.u32 q1, q0, #8\n\t"
      "vsli.32 q1, q0, #24\n\t"
      "vmovlb.u16 q2, q1\n\t"
      "vadd.i32 q2, q2, %[s1]\n\t"
      "vmovlt.u16 q1, q1\n\t"
      "vadd.i32 q1, q1, %[s3]\n\t"
      "vsri.32 q1, q2, #16\n\t"
      "vsli.16 q3, q1, #8\n\t"
      "vldrw.32 q1, [q5, #4]!\n\t"
      "vqadd.s8 q2, q1, q3\n\t"
      "vadd.i8 q1, q1, q3\n\t"
      "vmin.s8 q2, q2, q4\n\t"
      "vmax.s8 q2, q2, q6\n\t"
      "vstrw.32 q2, [q5]\n\t"
      "vpt.i8 ne, q2, q1\n\t"
      "vaddt.i8 q7, q7, %[clipped]\n\t"
      "le lr, 1b\n\t"
      "vstrw.32 q0, [%[streams]]\n\t"
      "vaddv.u8 %[clipped], q7"
      : [clipped] "+Te"(clipped), [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "=&r"(s3), [steps] "+r"(steps)
      : [before] "r"((uintptr_t)weights - 4u), [streams] "r"(streams)
      : "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "lr", "cc", "memory");
  return clipped;
}

#define ZO_ROW_FRACTIONS 1

/* The same with fractions. */
static inline uint32_t zo_move_vectors_16(int8_t* weights, int8_t* fraction, const int32_t* steps, uint32_t count,
                                          int32_t limit) {
  uint32_t clipped = 0;
  __asm__ volatile(
      "vdup.16 q7, %[clipped]\n\t"
      "vdup.16 q6, %[low]\n\t"
      "vdup.16 q5, %[high]\n\t"
      "dls lr, %[vectors]\n"
      "1:\n\t"
      /* Rounded steps, of even weights and of odd ones. */
      "vld40.32 {q0, q1, q2, q3}, [%[steps]]\n\t"
      "vld41.32 {q0, q1, q2, q3}, [%[steps]]\n\t"
      "vld42.32 {q0, q1, q2, q3}, [%[steps]]\n\t"
      "vld43.32 {q0, q1, q2, q3}, [%[steps]]!\n\t"
      "vrshrnb.i32 q0, q0, #8\n\t"
      "vrshrnt.i32 q0, q2, #8\n\t"
      "vrshrnb.i32 q1, q1, #8\n\t"
      "vrshrnt.i32 q1, q3, #8\n\t"
      /* Weights: sums that saturate stay beyond the limit with any fraction. */
      "vldrb.8 q2, [%[weights]]\n\t"
      "vshl.i16 q3, q2, #8\n\t"
      "vbic.i16 q2, #255\n\t"
      "vqadd.s16 q0, q0, q3\n\t"
      "vqadd.s16 q1, q1, q2\n\t"
      "vldrb.8 q3, [%[fraction]]\n\t"
      "vmovlb.s8 q2, q3\n\t"
      "vmovlt.s8 q3, q3\n\t"
      "vqadd.s16 q0, q0, q2\n\t"
      "vqadd.s16 q1, q1, q3\n\t"
      /* Within the limit. */
      "vmin.s16 q2, q0, q5\n\t"
      "vmin.s16 q3, q1, q5\n\t"
      "vmax.s16 q2, q2, q6\n\t"
      "vmax.s16 q3, q3, q6\n\t"
      "vpt.i16 ne, q2, q0\n\t"
      "vaddt.i16 q7, q7, %[one]\n\t"
      "vpt.i16 ne, q3, q1\n\t"
      "vaddt.i16 q7, q7, %[one]\n\t"
      /* Apart again. */
      "vrshrnb.i16 q0, q2, #8\n\t"
      "vrshrnt.i16 q0, q3, #8\n\t"
      "vsli.16 q2, q3, #8\n\t"
      "vstrb.8 q0, [%[weights]], #16\n\t"
      "vstrb.8 q2, [%[fraction]], #16\n\t"
      "le lr, 1b\n\t"
      "vaddv.u16 %[clipped], q7"
      : [clipped] "+Te"(clipped), [weights] "+r"(weights), [fraction] "+r"(fraction), [steps] "+r"(steps)
      : [vectors] "r"(count / ZO_ROW_TOGETHER), [low] "r"(-256 * limit), [high] "r"(256 * limit), [one] "r"(1)
      : "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "lr", "cc", "memory");
  return clipped;
}

#if ZO_ROWS_FRACTIONS
/* Sixteen weights of a row, by steps of even ones in q0 and of odd ones in q1. If a sum is
 * clipped, the limit is added to a total in the place of one. */
#define ZO_MOVE_SIXTEEN(weights, fraction) \
  "vldrb.8 q2, [" weights                  \
  "]\n\t"                                  \
  "vshl.i16 q3, q2, #8\n\t"                \
  "vbic.i16 q2, #255\n\t"                  \
  "vqadd.s16 q3, q3, q0\n\t"               \
  "vqadd.s16 q2, q2, q1\n\t"               \
  "vldrb.8 q4, [" fraction                 \
  "]\n\t"                                  \
  "vmovlb.s8 q5, q4\n\t"                   \
  "vmovlt.s8 q4, q4\n\t"                   \
  "vqadd.s16 q3, q3, q5\n\t"               \
  "vqadd.s16 q2, q2, q4\n\t"               \
  "vmin.s16 q5, q3, q7\n\t"                \
  "vmin.s16 q4, q2, q7\n\t"                \
  "vmax.s16 q5, q5, q6\n\t"                \
  "vmax.s16 q4, q4, q6\n\t"                \
  "vpt.i16 ne, q5, q3\n\t"                 \
  "vaddvat.u16 %[total], q7\n\t"           \
  "vpt.i16 ne, q4, q2\n\t"                 \
  "vaddvat.u16 %[total], q7\n\t"           \
  "vrshrnb.i16 q3, q5, #8\n\t"             \
  "vrshrnt.i16 q3, q4, #8\n\t"             \
  "vsli.16 q5, q4, #8\n\t"                 \
  "vstrb.8 q3, [" weights                  \
  "], #16\n\t"                             \
  "vstrb.8 q5, [" fraction "], #16\n\t"

/* Moves the first weights of four rows by the same steps, which are rounded once, `count` of each
 * row, a multiple of ZO_ROW_TOGETHER. Returns how many were clipped.
 *
 *   weights, fraction  of the first row
 *   apart              [4] bytes from the first row to each
 *
 * Not inlined: the loop takes nearly all registers. */
static __attribute__((noinline)) uint32_t zo_move_four_rows_16(int8_t* weights, int8_t* fraction, const uint32_t* apart,
                                                               const int32_t* steps, uint32_t count, int32_t limit) {
  int8_t *w0 = weights + apart[0], *w1 = weights + apart[1], *w2 = weights + apart[2];
  int8_t *w3 = weights + apart[3], *f0 = fraction + apart[0], *f1 = fraction + apart[1];
  int8_t *f2 = fraction + apart[2], *f3 = fraction + apart[3];
  uint32_t total = 256u * (uint32_t)limit;
  const uint32_t each = total;
  __asm__ volatile(
      "dls lr, %[vectors]\n\t"
      "vdup.16 q7, %[total]\n\t"
      "vneg.s16 q6, q7\n\t"
      "mov %[total], #0\n"
      "1:\n\t"
      "vld40.32 {q0, q1, q2, q3}, [%[steps]]\n\t"
      "vld41.32 {q0, q1, q2, q3}, [%[steps]]\n\t"
      "vld42.32 {q0, q1, q2, q3}, [%[steps]]\n\t"
      "vld43.32 {q0, q1, q2, q3}, [%[steps]]!\n\t"
      "vrshrnb.i32 q0, q0, #8\n\t"
      "vrshrnt.i32 q0, q2, #8\n\t"
      "vrshrnb.i32 q1, q1, #8\n\t"
      "vrshrnt.i32 q1, q3, #8\n\t"
      /* clang-format off */
      ZO_MOVE_SIXTEEN("%[w0]", "%[f0]")
      ZO_MOVE_SIXTEEN("%[w1]", "%[f1]")
      ZO_MOVE_SIXTEEN("%[w2]", "%[f2]")
      ZO_MOVE_SIXTEEN("%[w3]", "%[f3]")
      /* clang-format on */
      "le lr, 1b"
      : [total] "+Te"(total), [w0] "+r"(w0), [w1] "+r"(w1), [w2] "+r"(w2), [w3] "+r"(w3), [f0] "+r"(f0), [f1] "+r"(f1),
        [f2] "+r"(f2), [f3] "+r"(f3), [steps] "+r"(steps)
      : [vectors] "r"(count / ZO_ROW_TOGETHER)
      : "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "lr", "cc", "memory");
  return total / each;
}
#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_APPLY_ROW_MVE_H_ */
