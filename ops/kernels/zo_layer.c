/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_layer.h"

#include <stdlib.h>
#include <string.h>

bool zo_channels_init(zo_channels* channels, const zo_layer* layer, const int32_t* source, int32_t count) {
  memset(channels, 0, sizeof *channels);
  int32_t* memory = calloc((size_t)count, 3 * sizeof *memory);
  if (memory == NULL) return false;
  int32_t *multiplier = memory + count, *right = memory + 2 * (ptrdiff_t)count;
  bool shifts_right = true;
  for (int32_t i = 0; i < count; ++i) {
    const zo_multiplier none = {0, -1};
    zo_multiplier m = source[i] < 0 ? none : layer->multipliers[source[i]];
    if (m.value == 0) m = none; /* 0 however it is shifted */
    multiplier[i] = m.value;
    right[i] = -m.shift;
    shifts_right = shifts_right && m.shift < 0;
  }
  channels->memory = channels->start = memory;
  const zo_output output = {memory, multiplier, right, shifts_right, layer->zero_point, layer->min, layer->max};
  channels->output = output;
  return true;
}

void zo_channels_free(zo_channels* channels) {
  free(channels->memory);
  channels->memory = NULL;
}
