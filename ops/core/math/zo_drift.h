/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The drift of a layer's output from the old data, from exact sums, by the formula of tflm_zo.drift. */
#ifndef TFLM_ZO_OPS_CORE_MATH_ZO_DRIFT_H_
#define TFLM_ZO_OPS_CORE_MATH_ZO_DRIFT_H_

#include "ops/core/math/zo_log2.h"
#include "ops/core/math/zo_moments.h"

/* A layer with the number of old samples, and of a channel's values in a sample. Of each channel of the old data: mean
 * of the int8 values and deviation, 2^-24; spread from sample to sample of the mean, in deviations, and of the
 * deviation's logarithm, 2^-20. */
typedef struct zo_drift_layer {
  const int32_t (*old)[4];
  uint32_t channels, samples, positions;
} zo_drift_layer;

typedef struct zo_drift {
  const zo_drift_layer* layer;
  int64_t* sums;    /* [2, channels]: of the new int8 values and of their squares; 0 to begin with */
  uint32_t samples; /* likewise; samples * positions stays below 2^30 */
} zo_drift;

/* Adds the output for a sample, [positions, channels]. */
static inline void zo_drift_add(zo_drift* drift, const int8_t* values) {
  const uint32_t channels = drift->layer->channels, count = drift->layer->positions * channels;
  for (uint32_t at = 0, c = 0; at < count; ++at, c = c + 1u < channels ? c + 1u : 0u) {
    drift->sums[c] += values[at];
    drift->sums[channels + c] += values[at] * values[at];
  }
  drift->samples += 1u;
}

/* The drift in 1/256 of an old deviation. Differs from the desktop's by 1/256 at most. 0 without samples. */
static inline uint32_t zo_drift_score(const zo_drift* drift) {
  const zo_drift_layer* layer = drift->layer;
  const uint64_t now = drift->samples, before = layer->samples, count = now * layer->positions;
  zo_scale found = {0, 0};
  uint32_t alive = 0;                 /* counted twice */
  for (uint32_t i = 0; i < 2u; ++i) { /* shifts of means, of logarithms of deviations */
    zo_scale squares = {0, 0}, ratios = {0, 0};
    uint64_t known = 0;
    for (uint32_t c = 0; c < layer->channels; ++c) {
      const int32_t* old = layer->old[c];
      const zo_moments moments = {(uint32_t)count, 0, drift->sums[c], (uint64_t)drift->sums[layer->channels + c], 0};
      const zo_scale variance = zo_moments_spread(&moments), unit = zo_scale_of(count * (uint32_t)old[1], -24);
      if (variance.mantissa == 0u || unit.mantissa == 0u) continue;
      ++alive;
      zo_scale power = zo_scale_ratio(variance, zo_scale_product(unit, unit));
      for (uint32_t n = 0; n < 8u; ++n) power = zo_scale_product(power, power); /* for a more exact logarithm */
      const int64_t log2 = zo_log2(power.mantissa) + (power.exponent + 30) * (INT64_C(1) << 26);
      const int64_t moved = moments.sum * (INT64_C(1) << 24) - (int64_t)count * old[0];
      const int64_t shift = i == 0u ? moved : log2 * 5814540; /* 2^24 * ln(2) / 2 */
      zo_scale square = zo_scale_of((uint64_t)(shift < 0 ? -shift : shift), i == 0u ? -24 : -58);
      if (i == 0u) square = zo_scale_ratio(square, unit);
      square = zo_scale_product(square, square);
      squares = zo_scale_sum(squares, square);
      const uint64_t spread = (uint32_t)old[2u + i];
      if (spread == 0u) continue;
      ++known;
      ratios = zo_scale_sum(ratios, zo_scale_ratio(square, zo_scale_of(spread * spread, -40)));
    }
    ratios = zo_scale_product(ratios, zo_scale_of(now * before, 0));
    if (ratios.mantissa == 0u) continue;
    const zo_scale chance = zo_scale_ratio(zo_scale_of(known * (now + before), 32), ratios);
    found = zo_scale_sum(found, zo_scale_product(squares, zo_scale_of(~zo_scale_round(chance, UINT32_MAX), -32)));
  }
  return alive == 0u ? 0u : zo_scale_round(zo_scale_root(zo_scale_ratio(found, zo_scale_of(alive, -17))), UINT32_MAX);
}

#endif /* TFLM_ZO_OPS_CORE_MATH_ZO_DRIFT_H_ */
