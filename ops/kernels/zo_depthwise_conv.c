/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/zo_conv.h"

/* Runs of a call at least, if there are so many: several samples of small images. */
enum { kRuns = 16 };

struct zo_depthwise_conv {
  zo_depthwise depthwise;
  zo_depthwise_function* run;
  zo_image image;
  zo_channels channels;
  bool constant, is_packed;
  int32_t out_channels, lanes;
  int32_t runs;     /* of a sample */
  int32_t* run_at;  /* [held * runs] */
  int32_t* tap_at;  /* [taps] */
  int32_t* channel; /* of each place, or -1: [period * lanes] */
  int16_t* filters; /* packed */
  int8_t* source;   /* original of the packed filters */
};

static int32_t real_taps(const zo_window* w) { return w->filter_height * w->filter_width; }

static void set_distances(zo_depthwise_conv* self, bool by_rows) {
  const zo_window* w = &self->image.window;
  const int32_t sample = (int32_t)(self->image.sample_bytes / self->image.value_bytes);
  const int32_t across = by_rows ? 1 : w->out_width;
  int32_t *at = self->run_at, *tap = self->tap_at;
  for (int32_t s = 0; s < self->image.held; ++s) {
    for (int32_t y = 0; y < w->out_height; ++y) {
      for (int32_t x = 0; x < across; ++x) *at++ = s * sample + zo_image_at(&self->image, y, x);
    }
  }
  for (int32_t y = 0; y < w->filter_height; ++y) {
    for (int32_t x = 0; x < w->filter_width; ++x) {
      const int32_t pixel = y * w->dilation_height * self->image.width + x * w->dilation_width;
      *tap++ = pixel * self->image.channels;
    }
  }
  if (real_taps(w) % 2 != 0) *tap = 0; /* with filters of 0 */
}

/* Which channel each place has. */
static void set_channels(zo_depthwise_conv* self, bool by_rows) {
  const int32_t lanes = self->lanes, channels = self->out_channels;
  for (int32_t block = 0; block < self->depthwise.period; ++block) {
    for (int32_t i = 0; i < lanes; ++i) {
      const int32_t output = block * lanes + i;
      const int32_t own = by_rows ? output % channels : output < channels ? output : -1;
      self->channel[block * lanes + zo_depthwise_place(i, lanes)] = own;
    }
  }
}

static int32_t common_divisor(int32_t a, int32_t b) {
  while (b != 0) {
    const int32_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

zo_depthwise_conv* zo_depthwise_conv_create(const zo_kernel_set* kernels, const zo_layer* layer) {
  const zo_window* w = &layer->window;
  const int32_t lanes = kernels->depthwise_lanes;
  /* Columns follow one another without gaps: a row is one run, whose channels repeat. */
  const bool by_rows = w->stride_width == 1;
  const int64_t length = (by_rows ? (int64_t)w->out_width : 1) * layer->channels;
  const int64_t runs = (int64_t)w->out_height * (by_rows ? 1 : w->out_width);
  const int64_t taps = ((int64_t)w->filter_height * w->filter_width + 1) / 2 * 2;
  const int64_t period =
      by_rows ? layer->channels / common_divisor(layer->channels, lanes) : (layer->channels + lanes - 1) / lanes;
  if (length > INT32_MAX / 8 || runs > INT32_MAX / 8 || taps > INT32_MAX / 8 || period * lanes > INT32_MAX / 8 / taps) {
    return NULL;
  }
  zo_depthwise_conv* self = calloc(1, sizeof *self);
  if (self == NULL) return NULL;
  self->run = kernels->depthwise;
  self->constant = layer->constant;
  self->out_channels = layer->channels;
  self->lanes = lanes;
  self->runs = (int32_t)runs;
  self->depthwise.length = (int32_t)length;
  self->depthwise.taps = (int32_t)taps;
  self->depthwise.period = (int32_t)period;
  const int64_t some = (kRuns + runs - 1) / runs;
  const int32_t held = (int32_t)(some < w->samples ? some : w->samples);
  const zo_image_format format = {true, 0, layer->input_zero_point, layer->channels / w->channels};
  const size_t places = (size_t)(period * lanes);
  self->run_at = malloc((size_t)held * (size_t)runs * sizeof *self->run_at);
  self->tap_at = malloc((size_t)taps * sizeof *self->tap_at);
  self->channel = malloc(places * sizeof *self->channel);
  self->filters = calloc(places, (size_t)taps * sizeof *self->filters);
  self->source = malloc((size_t)layer->channels * (size_t)real_taps(w));
  if (!zo_image_init(&self->image, w, &format, held, layer->threads) || self->run_at == NULL || self->tap_at == NULL ||
      self->channel == NULL || self->filters == NULL || self->source == NULL) {
    zo_depthwise_conv_free(self);
    return NULL;
  }
  set_distances(self, by_rows);
  set_channels(self, by_rows);
  if (!zo_channels_init(&self->channels, layer, self->channel, (int32_t)places)) {
    zo_depthwise_conv_free(self);
    return NULL;
  }
  self->depthwise.run_at = self->run_at;
  self->depthwise.tap_at = self->tap_at;
  self->depthwise.filters = self->filters;
  self->depthwise.output = &self->channels.output;
  return self;
}

static void pack(zo_depthwise_conv* self, const int8_t* filters) {
  const int32_t lanes = self->lanes, taps = real_taps(&self->image.window);
  for (int32_t block = 0; block < self->depthwise.period; ++block) {
    const int32_t* channel = self->channel + (ptrdiff_t)block * lanes;
    int16_t* of_block = self->filters + (ptrdiff_t)block * lanes * self->depthwise.taps;
    for (int32_t tap = 0; tap < taps; ++tap) {
      const int8_t* from = filters + (ptrdiff_t)tap * self->out_channels;
      int16_t* to = of_block + tap / 2 * 2 * lanes + tap % 2;
      for (int32_t lane = 0; lane < lanes; ++lane) {
        if (channel[lane] >= 0) to[2 * lane] = from[channel[lane]];
      }
    }
  }
  memcpy(self->source, filters, (size_t)self->out_channels * (size_t)taps);
  self->is_packed = true;
}

void zo_depthwise_conv_begin(zo_depthwise_conv* self, const int8_t* filters, const int32_t* bias) {
  const size_t bytes = (size_t)self->out_channels * (size_t)real_taps(&self->image.window);
  if (!self->is_packed || (!self->constant && memcmp(self->source, filters, bytes) != 0)) {
    pack(self, filters);
  }
  for (int32_t place = 0; place < self->depthwise.period * self->lanes; ++place) {
    const int32_t channel = self->channel[place];
    self->channels.start[place] = bias == NULL || channel < 0 ? 0 : bias[channel];
  }
}

void zo_depthwise_conv_run(const zo_depthwise_conv* self, const int8_t* x, zo_share share, int8_t* y) {
  const zo_window* w = &self->image.window;
  const size_t in_bytes = (size_t)w->height * (size_t)w->width * (size_t)w->channels;
  const size_t out_bytes = (size_t)self->runs * (size_t)self->depthwise.length;
  zo_depthwise depthwise = self->depthwise;
  for (int32_t done = 0; done < share.count; done += self->image.held) {
    const int32_t left = share.count - done;
    const int32_t count = left < self->image.held ? left : self->image.held;
    const size_t s = (size_t)(share.first + done);
    const uint8_t* image = zo_image_load(&self->image, x + s * in_bytes, count, share.thread);
    depthwise.x = (const int16_t*)(const void*)image;
    depthwise.run_count = count * self->runs;
    depthwise.y = y + s * out_bytes;
    self->run(&depthwise);
  }
}

void zo_depthwise_conv_free(zo_depthwise_conv* self) {
  if (self == NULL) return;
  zo_image_free(&self->image);
  zo_channels_free(&self->channels);
  free(self->run_at);
  free(self->tap_at);
  free(self->channel);
  free(self->filters);
  free(self->source);
  free(self);
}
