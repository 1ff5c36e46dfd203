/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The sums of zo_add_products for several output channels of a dense layer at once, which have the
 * same rows: a minibatch's inputs. What is loaded and unpacked of them serves all of the channels.
 * Cores that have no such loop form one channel after the other. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_SUMS_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_SUMS_H_

#include <stddef.h>

#include "ops/core/zo_features.h"
#include "ops/core/zo_types.h"

/* Channels of a call; 0: there is no loop. Loops take more registers than code that is not
 * optimized leaves. Define ZO_PORTABLE to do without. */
#if !ZO_WITH_FAST_STEPS || !defined(__OPTIMIZE__) || !defined(__ARM_FEATURE_SIMD32) ||  \
    !defined(__ARM_FEATURE_UNALIGNED) || !defined(__ARMEL__) || !defined(__thumb2__) || \
    defined(ZO_PORTABLE)
#define ZO_DENSE_CHANNELS 0u
#elif defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1)
#define ZO_DENSE_CHANNELS 3u
#else
#define ZO_DENSE_CHANNELS 8u
#endif

#if ZO_DENSE_CHANNELS == 3u
#include <arm_mve.h>
#elif ZO_DENSE_CHANNELS > 0u
#include <arm_acle.h>
#include <string.h>
#endif

#if ZO_DENSE_CHANNELS > 0u

#ifdef __cplusplus
extern "C" {
#endif

/* Samples of a call, at most. */
#define ZO_DENSE_SAMPLES 16u

/* Sums that are formed together: rows of sums lie a multiple of these apart. */
#define ZO_DENSE_COLUMNS 4u

/* Bytes from a sample to the next, at most. */
#define ZO_DENSE_APART_MAX 8192u

/* A minibatch's inputs: those of a dense layer, from the column at hand on. */
typedef struct zo_dense_inputs {
  const int8_t* first; /* sample */
  size_t apart;        /* bytes from a sample to the next */
  uint32_t samples;    /* 1..ZO_DENSE_SAMPLES */
  int32_t zero_point;
} zo_dense_inputs;

#if ZO_DENSE_CHANNELS == 3u

/* Errors by which the inputs are multiplied; 0 where there are fewer samples. */
typedef struct zo_dense_block {
  int16_t errors[ZO_DENSE_CHANNELS][ZO_DENSE_SAMPLES];
} zo_dense_block;

/* Sets a channel's errors, of as many samples as a call has. */
static inline void zo_dense_set_errors(zo_dense_block* block, uint32_t channel,
                                       const int16_t* errors, uint32_t samples) {
  int16_t* const to = block->errors[channel];
  int16x8_t last = vdupq_n_s16(0);
  vstrhq_s16(to, vldrhq_z_s16(errors, vctp16q(samples)));
  if (samples > 8u) { /* the last eight samples, but for those of the first vector */
    const mve_pred16_t others = vctp16q(ZO_DENSE_SAMPLES - samples);
    last = vldrhq_z_s16(errors + samples - 8u, vpnot(others));
  }
  vstrhq_s16(to + 8, last);
}

/* Sums of errors and of their magnitudes, which are returned. */
static inline int32_t zo_dense_sum_errors(const int16_t* errors, uint32_t samples, int32_t* sum) {
  uint32_t magnitudes = 0;
  *sum = 0;
  for (uint32_t i = 0; i < samples; i += 8u) {
    const int16x8_t e = vldrhq_z_s16(errors + i, vctp16q(samples - i));
    *sum = vaddvaq_s16(*sum, e);
    magnitudes = vaddvaq_u16(magnitudes, vreinterpretq_u16_s16(vabsq_s16(e)));
  }
  return (int32_t)magnitudes;
}

#else

/* Errors of four channels by which the inputs are multiplied, 0 where there are fewer samples, and
 * what a call needs besides. Two samples are a word. */
typedef struct zo_dense_half {
  uint32_t columns[ZO_DENSE_SAMPLES / 2u][ZO_DENSE_COLUMNS]; /* which a call unpacks */
  int16_t errors[ZO_DENSE_SAMPLES / 2u][4][2];
  uint32_t more;  /* whether there are samples beyond the first eight */
  int32_t* sums;  /* of the first channel */
  uint32_t apart; /* bytes to the next channel's */
} zo_dense_half;

typedef struct zo_dense_block {
  zo_dense_half halves[ZO_DENSE_CHANNELS / 4u];
} zo_dense_block;

/* Sets a channel's errors, of as many samples as a call has. */
static inline void zo_dense_set_errors(zo_dense_block* block, uint32_t channel,
                                       const int16_t* errors, uint32_t samples) {
  const uint32_t apart = sizeof block->halves[0].errors[0] / sizeof(int16_t);
  int16_t* to = block->halves[channel / 4u].errors[0][channel % 4u];
  int16_t* const end = to + ZO_DENSE_SAMPLES / 2u * apart;
  for (uint32_t pairs = samples / 2u; pairs > 0u; --pairs, errors += 2, to += apart) {
    memcpy(to, errors, 2u * sizeof *to);
  }
  if (samples % 2u != 0u) {
    to[0] = *errors;
    to[1] = 0;
    to += apart;
  }
  for (; to != end; to += apart) memset(to, 0, 2u * sizeof *to);
}

/* Sums of errors and of their magnitudes, which are returned. */
static inline int32_t zo_dense_sum_errors(const int16_t* errors, uint32_t samples, int32_t* sum) {
  int32_t whole = 0, magnitudes = 0;
  if (samples % 2u != 0u) {
    whole = *errors++;
    magnitudes = whole < 0 ? -whole : whole;
  }
  for (const int16_t* const end = errors + samples / 2u * 2u; errors != end; errors += 2) {
    int16x2_t both;
    memcpy(&both, errors, sizeof both);
    const int16x2_t opposite = __ssub16(0, both); /* says which halves __sel takes of it */
    whole = __smlad(both, 0x00010001, whole);
    magnitudes =
        __smlad((int16x2_t)__sel((uint8x4_t)opposite, (uint8x4_t)both), 0x00010001, magnitudes);
  }
  *sum = whole;
  return magnitudes;
}

#endif

/* sums[channel * apart + j] = sum over samples of error * (input j - zero_point), j < count, or,
 * with `adds`, what was there and that. What is behind `count`, up to the next multiple of
 * ZO_DENSE_COLUMNS, and behind the rows of `channels` channels, up to ZO_DENSE_CHANNELS, may be
 * anything afterwards. Sums, before and after, are within 31 bits. */
void zo_dense_sums(int32_t* sums, uint32_t apart, uint32_t count, uint32_t channels,
                   zo_dense_block* block, const zo_dense_inputs* inputs, int adds);

#ifdef __cplusplus
}
#endif

#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_SUMS_H_ */
