/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/loss/zo_loss.h"

void zo_join_losses(uint32_t over, uint32_t samples, const int32_t* labels, const int32_t* losses, int32_t* joined) {
  for (uint32_t i = 0; i < samples; ++i) {
    const int32_t loss = losses[i];
    if (over == ZO_OVER_SUM) {
      const int32_t sum = joined[i] > 0 ? joined[i] : 0;
      joined[i] = loss > INT32_MAX - sum ? INT32_MAX : sum + loss;
    } else if (labels[i] >= 0 && (joined[i] < 0 || (labels[i] == 1) == (loss < joined[i]))) {
      joined[i] = loss;
    }
  }
}
