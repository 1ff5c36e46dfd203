/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The loops of zo_row_steps.c with vectors of MVE (Cortex-M55, M85). */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_ROW_STEPS_MVE_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_ROW_STEPS_MVE_H_

#define ZO_BOUNDED_STEPS 1u
#define ZO_ROW_SQUARES

uint64_t zo_row_squares(const int32_t* gradient, uint32_t count) {
  uint64_t sum = 0;
  __asm__ volatile(
      "vdup.32 q2, %[high]\n\t"
      "vneg.s32 q1, q2\n\t"
      "wlstp.32 lr, %[count], 2f\n"
      "1:\n\t"
      "vldrw.32 q0, [%[gradient]], #16\n\t"
      "vshr.s32 q0, q0, %[shift]\n\t"
      "vmax.s32 q0, q0, q1\n\t"
      "vmin.s32 q0, q0, q2\n\t"
      "vmlaldava.s32 %Q[sum], %R[sum], q0, q0\n\t"
      "letp lr, 1b\n"
      "2:"
      : [sum] "+r"(sum), [gradient] "+r"(gradient)
      : [count] "r"(count), [high] "r"(ZO_SQUARE_MAX), [shift] "i"(ZO_SQUARE_SHIFT)
      : "q0", "q1", "q2", "lr", "cc", "memory");
  return sum;
}

/* The upper half of a value times the mantissa's distance to 2^32, less the value, rounded and
 * clipped. */
#define ZO_SCALE_FOUR                          \
  "vldrw.32 q0, [%[values]]\n\t"               \
  "vshr.s32 q1, q0, %[shift]\n\t"              \
  "vmlaldava.s32 %Q[sum], %R[sum], q1, q1\n\t" \
  "vmulh.s32 q1, q0, q4\n\t"                   \
  "vsub.i32 q0, q1, q0\n\t"                    \
  "vrshl.s32 q0, %[right]\n\t"                 \
  "vmin.s32 q0, q0, q3\n\t"                    \
  "vmax.s32 q0, q0, q2\n\t"                    \
  "vstrw.32 q0, [%[values]], #16\n\t"

static inline uint64_t scale_bounded(int32_t* values, uint32_t count, const zo_row_scale* s) {
  uint64_t sum = 0;
  __asm__ volatile(
      "vdup.32 q4, %[lacking]\n\t"
      "vdup.32 q3, %[clip]\n\t"
      "vneg.s32 q2, q3\n\t"
      /* Eight at a time; then the rest. */
      "wls lr, %[eights], 2f\n"
      "1:\n\t" ZO_SCALE_FOUR ZO_SCALE_FOUR
      "le lr, 1b\n"
      "2:\n\t"
      "wlstp.32 lr, %[rest], 4f\n"
      "3:\n\t" ZO_SCALE_FOUR
      "letp lr, 3b\n"
      "4:"
      : [sum] "+r"(sum), [values] "+r"(values)
      : [eights] "r"(count / 8u), [rest] "r"(count % 8u), [lacking] "r"(s->lacking), [clip] "r"(s->clip),
        [right] "r"(-(int32_t)s->right), [shift] "i"(ZO_SQUARE_SHIFT)
      : "q0", "q1", "q2", "q3", "q4", "lr", "cc", "memory");
  return sum;
}

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_ROW_STEPS_MVE_H_ */
