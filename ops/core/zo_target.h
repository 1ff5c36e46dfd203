/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Properties of the compiler and of the processor, tested once for all loops that exist per
 * instruction set. Each macro is 0 or 1. Compilers define no macro for an absent feature, or define
 * it as 0. Only GNU C has the inline assembly of these loops. Define ZO_PORTABLE to use none of
 * them.
 */
#ifndef TFLM_ZO_OPS_CORE_ZO_TARGET_H_
#define TFLM_ZO_OPS_CORE_ZO_TARGET_H_

#if defined(__BYTE_ORDER__) && (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
#define ZO_LITTLE_ENDIAN 1
#else
#define ZO_LITTLE_ENDIAN 0
#endif

/* Attributes and inline assembly. */
#if defined(__GNUC__)
#define ZO_GNU_C 1
#else
#define ZO_GNU_C 0
#endif

/* Loops in Thumb-2's assembly: Cortex-M3 and larger cores. */
#if ZO_GNU_C && defined(__thumb2__) && ZO_LITTLE_ENDIAN && !defined(ZO_PORTABLE)
#define ZO_THUMB2 1
#else
#define ZO_THUMB2 0
#endif

/* Lanes of a word, by the DSP extension: Cortex-M4, M7, M33, M55. */
#if ZO_THUMB2 && defined(__ARM_FEATURE_SIMD32) && defined(__ARM_FEATURE_UNALIGNED)
#define ZO_DSP (__ARM_FEATURE_SIMD32 != 0)
#else
#define ZO_DSP 0
#endif

/* Vectors of 16 bytes, by MVE, which comes with the DSP extension: Cortex-M55, M85. */
#if ZO_DSP && defined(__ARM_FEATURE_MVE)
#define ZO_MVE (__ARM_FEATURE_MVE & 1)
#else
#define ZO_MVE 0
#endif

/* Cores of ARMv6-M, whose registers are few: Cortex-M0+. */
#if ZO_GNU_C && defined(__thumb__) && !defined(__thumb2__)
#define ZO_THUMB1 1
#else
#define ZO_THUMB1 0
#endif

#endif /* TFLM_ZO_OPS_CORE_ZO_TARGET_H_ */
