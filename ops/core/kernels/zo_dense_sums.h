/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The sums of zo_add_products for several output channels of a dense layer at once, which have the
 * same rows: a minibatch's inputs. Each row is loaded and unpacked once for all channels. Cores
 * without such a loop form one channel after the other. */
#ifndef TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_SUMS_H_
#define TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_SUMS_H_

#include <stddef.h>

#include "ops/core/zo_features.h"
#include "ops/core/zo_target.h"
#include "ops/core/zo_types.h"

/* Channels of a call; 0: there is no loop. Loops take more registers than code that is not
 * optimized leaves. */
#if !ZO_WITH_FAST_STEPS || !defined(__OPTIMIZE__) || !ZO_DSP
#define ZO_DENSE_CHANNELS 0u
#elif ZO_MVE
#define ZO_DENSE_CHANNELS 3u
#else
#define ZO_DENSE_CHANNELS 8u
#endif

#if ZO_DENSE_CHANNELS > 0u

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

/* Errors by which the inputs are multiplied; 0 if there are fewer samples. */
typedef struct zo_dense_block {
  int16_t errors[ZO_DENSE_CHANNELS][ZO_DENSE_SAMPLES];
} zo_dense_block;

#else

/* Errors of four channels, the factors of the inputs, 0 for missing samples, and other arguments of
 * the loop. Two samples are a word. */
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

#endif

/* sums[channel * apart + j] = sum over samples of error * (input j - zero_point), j < count; with
 * `adds` added to the old value. Values behind `count`, up to the next multiple of
 * ZO_DENSE_COLUMNS, and behind the rows of `channels` channels, up to ZO_DENSE_CHANNELS, are
 * undefined afterwards. Sums, before and after, are within 31 bits. */
void zo_dense_sums(int32_t* sums, uint32_t apart, uint32_t count, uint32_t channels, zo_dense_block* block,
                   const zo_dense_inputs* inputs, int adds);

#endif

#endif /* TFLM_ZO_OPS_CORE_KERNELS_ZO_DENSE_SUMS_H_ */
