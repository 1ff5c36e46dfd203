/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_arm.h"
#include "ops/kernels/zo_neon.h"

/* With so few lanes, places are outputs in their order. */
enum { kLanes = 8 };

void zo_neon_depthwise(const zo_depthwise* depthwise) {
  const zo_depthwise* d = depthwise;
  for (int32_t run = 0; run < d->run_count; ++run) {
    const int16_t* x = d->x + d->run_at[run];
    int8_t* y = d->y + (ptrdiff_t)run * d->length;
    for (int32_t at = 0, block = 0; at < d->length; at += kLanes) {
      const int32_t first = block * kLanes;
      const int16_t* filters = d->filters + (size_t)first * (size_t)d->taps;
      int32x4_t low = vld1q_s32(d->output->start + first);
      int32x4_t high = vld1q_s32(d->output->start + first + 4);
      for (int32_t tap = 0; tap < d->taps; tap += 2, filters += 2 * kLanes) {
        const int16x8x2_t w = vld2q_s16(filters);
        const int16x8_t a = vld1q_s16(x + at + d->tap_at[tap]);
        const int16x8_t b = vld1q_s16(x + at + d->tap_at[tap + 1]);
        low = vmlal_s16(low, vget_low_s16(a), vget_low_s16(w.val[0]));
        high = vmlal_high_s16(high, a, w.val[0]);
        low = vmlal_s16(low, vget_low_s16(b), vget_low_s16(w.val[1]));
        high = vmlal_high_s16(high, b, w.val[1]);
      }
      zo_neon_finish(d->output, first, low, high, y + at, d->length - at);
      block = block + 1 < d->period ? block + 1 : 0;
    }
  }
}
