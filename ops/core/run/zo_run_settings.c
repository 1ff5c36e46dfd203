/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/run/zo_run_settings.h"

#include "ops/core/graph/zo_command.h"
#include "ops/core/random/zo_stream.h"
#include "ops/core/zo_features.h"

/* 1 as a number with 16 fraction bits. */
#define RATE_ONE (UINT32_C(1) << 16)

/* round(2^16 * (1 + cos(pi * i / 32)) / 2), i <= 16: the other half is the same upside down. */
static const uint32_t half_cosine[17] = {65536, 65378, 64906, 64125, 63042, 61667, 60014, 58098, 55938,
                                         53556, 50973, 48215, 45308, 42280, 39161, 35980, 32768};

static uint32_t cosine_point(uint32_t i) { return i <= 16u ? half_cosine[i] : RATE_ONE - half_cosine[32u - i]; }

/* (1 + cos(pi * done / whole)) / 2, unit 2^-16; within 2^-10. */
static uint32_t cosine_decay(uint32_t done, uint32_t whole) {
  const uint64_t at = ((uint64_t)done << 21) / whole; /* 32 intervals of 2^16 */
  const uint32_t index = (uint32_t)(at >> 16);
  if (index >= 32u) return 0;
  const uint32_t slope = cosine_point(index) - cosine_point(index + 1u);
  return cosine_point(index) - (uint32_t)((slope * (uint64_t)(at & 0xFFFFu)) >> 16);
}

/* --- Checks ----------------------------------------------------------------- */

/* Largest schedule that the build has. */
#define LAST_SCHEDULE (ZO_WITH_SCHEDULES ? ZO_SCHEDULE_STEP : ZO_SCHEDULE_LINEAR)

zo_status zo_control_settings_check(const zo_control_settings* s) {
  if (s == NULL) return ZO_ERROR_ARGUMENT;
  const zo_status status = zo_distribution_check(s->distribution);
  if (status != ZO_OK) return status;
  if (s->queries < 1u || s->queries > ZO_MAX_QUERIES) return ZO_ERROR_QUERIES;
  const int valid = s->steps >= 1u && s->samples >= 1u && s->batch >= 1u && s->parts >= 1u &&
                    (uint64_t)s->batch * s->parts <= UINT32_MAX / s->steps &&
                    s->estimator <= (ZO_WITH_ONE_SIDED ? ZO_ONE_SIDED : ZO_ANTITHETIC) &&
                    (ZO_WITH_STEP_RULES ? s->rule <= ZO_STEP_SIGN : s->rule == ZO_STEP_NORMALIZED) &&
                    s->schedule <= LAST_SCHEDULE && s->rate >= 1u && s->rate < (UINT32_C(1) << 31) &&
                    s->final_rate <= s->rate &&
                    (s->schedule != ZO_SCHEDULE_STEP || (s->decay_steps >= 1u && s->decay <= RATE_ONE)) &&
                    (s->stage_p_zero[0] | s->stage_p_zero[1]) / 256u + s->blocks / (ZO_BLOCKS_MAX + 1u) == 0u &&
                    (ZO_WITH_BLOCKS || s->blocks == 0u) && (ZO_WITH_SCHEDULES || s->gradient_norm == 0u) &&
                    (s->stage_steps[1] == 0u || (s->stage_steps[0] > 0u && s->stage_steps[1] > s->stage_steps[0]));
  return valid ? ZO_OK : ZO_ERROR_ARGUMENT;
}

static uint32_t decayed_rate(const zo_control_settings* s, uint32_t step, zo_decays* before) {
  if (s->decay == RATE_ONE) return s->rate; /* which never gets to final_rate */
  const uint32_t wanted = step / s->decay_steps;
  zo_decays now = {0, s->rate};
  if (before != NULL && before->count > 0u && before->count <= wanted) now = *before;
  while (now.count < wanted && now.rate > s->final_rate) {
    now.rate = (uint32_t)(((uint64_t)now.rate * s->decay) >> 16);
    now.count += 1u;
  }
  if (before != NULL) *before = now;
  return now.rate > s->final_rate ? now.rate : s->final_rate;
}

static uint32_t scheduled_rate(const zo_control_settings* s, uint32_t step, zo_decays* decays) {
  const uint32_t last = s->steps > 1u ? s->steps - 1u : 1u;
  const uint32_t done = step < last ? step : last;
  const uint64_t range = s->rate - s->final_rate;
  if (s->schedule == ZO_SCHEDULE_LINEAR) {
    return s->final_rate + (uint32_t)(range * (last - done) / last);
  }
  (void)decays;
  if (!ZO_WITH_SCHEDULES) return s->rate;
  switch (s->schedule) {
    case ZO_SCHEDULE_COSINE:
      return s->final_rate + (uint32_t)((range * cosine_decay(done, last)) >> 16);
    case ZO_SCHEDULE_STEP:
      return decayed_rate(s, step, decays);
    default:
      return s->rate;
  }
}

uint32_t zo_control_rate(const zo_control_settings* given, uint32_t step, zo_decays* decays) {
  const zo_control_settings* s = zo_settings_of(given);
  uint64_t rate = scheduled_rate(s, step, decays);
  if (step < s->warmup_steps) rate = rate * (step + 1u) / s->warmup_steps;
  if (ZO_WITH_SCHEDULES && s->gradient_norm > 0u) {
    const uint64_t evaluations = (uint64_t)s->batch * s->parts * s->queries;
    /* Both factors below 2^32: the product fits if the rate is below 2^31. */
    const uint64_t shifted = evaluations < UINT32_MAX ? evaluations : UINT32_MAX;
    rate = rate * shifted / (shifted + s->gradient_norm - 1u);
  }
  return (uint32_t)rate;
}

zo_distribution zo_control_distribution(const zo_control_settings* s, uint32_t step) {
  return zo_distribution_of_step(s, step);
}
