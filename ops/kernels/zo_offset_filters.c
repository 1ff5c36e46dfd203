/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "ops/kernels/zo_conv.h"

struct zo_offset_filters {
  zo_channels channels;
  const int8_t* filters;
  const int32_t* bias;
  int32_t depth, units, input_offset, filter_offset;
};

zo_offset_filters* zo_offset_filters_create(const zo_layer* layer, int32_t filter_zero_point) {
  zo_offset_filters* self = calloc(1, sizeof *self);
  int32_t* source = malloc((size_t)layer->channels * sizeof *source);
  if (self == NULL || source == NULL) {
    free(self);
    free(source);
    return NULL;
  }
  for (int32_t c = 0; c < layer->channels; ++c) source[c] = c;
  self->depth = layer->window.channels;
  self->units = layer->channels;
  self->input_offset = -layer->input_zero_point;
  self->filter_offset = -filter_zero_point;
  const bool made = zo_channels_init(&self->channels, layer, source, layer->channels);
  free(source);
  if (made) return self;
  zo_offset_filters_free(self);
  return NULL;
}

void zo_offset_filters_begin(zo_offset_filters* self, const int8_t* filters, const int32_t* bias) {
  self->filters = filters;
  self->bias = bias;
}

void zo_offset_filters_run(const zo_offset_filters* self, const int8_t* x, zo_share share, int8_t* y) {
  x += (ptrdiff_t)share.first * self->depth;
  y += (ptrdiff_t)share.first * self->units;
  for (int32_t sample = 0; sample < share.count; ++sample, x += self->depth) {
    const int8_t* w = self->filters;
    for (int32_t unit = 0; unit < self->units; ++unit, w += self->depth) {
      /* Modulo 2^32, as TFLM's in effect is. */
      uint32_t sum = self->bias != NULL ? (uint32_t)self->bias[unit] : 0u;
      for (int32_t i = 0; i < self->depth; ++i) {
        sum += (uint32_t)((x[i] + self->input_offset) * (w[i] + self->filter_offset));
      }
      *y++ = zo_output_of(&self->channels.output, unit, (int32_t)sum);
    }
  }
}

void zo_offset_filters_free(zo_offset_filters* self) {
  if (self == NULL) return;
  zo_channels_free(&self->channels);
  free(self);
}
