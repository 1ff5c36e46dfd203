/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_conv.h"

#include <stdlib.h>
#include <string.h>

/* Rows of a call at least, if there are so many: several samples of small images. */
enum { kRows = 96 };

struct zo_conv {
  zo_gemm_layout layout;
  zo_gemm gemm;
  zo_gemm_function* run;
  zo_pack_function* pack;
  zo_dots_function* dots;   /* null but for filters as they lie, one sample */
  zo_dense_function* dense; /* null but for filters as they lie, many samples */
  zo_image image;
  zo_channels channels;
  bool constant, is_packed;
  int32_t correction;     /* of a sum, for each unit of the sum of its filter */
  int32_t run_length;     /* neighbouring values of a row */
  int32_t run_steps;      /* steps that they take */
  int32_t depth;          /* values of a filter */
  int32_t rows;           /* of a sample */
  int32_t* row_at;        /* [held * rows] */
  int32_t* step_at;       /* [steps] */
  int8_t* filters;        /* packed */
  int8_t* source;         /* original of the packed filters */
  int32_t* filter_sum;    /* [out channels] */
  const int8_t* unpacked; /* filters as they lie */
};

static int32_t blocks_of(int32_t columns) { return (columns + kZoBlock - 1) / kZoBlock; }

/* Where rows and their steps are. */
static void set_distances(zo_conv* self) {
  const zo_window* w = &self->image.window;
  const int32_t value_bytes = (int32_t)self->image.value_bytes;
  int32_t *at = self->row_at, *step = self->step_at;
  for (int32_t s = 0; s < self->image.held; ++s) {
    for (int32_t y = 0; y < w->out_height; ++y) {
      for (int32_t x = 0; x < w->out_width; ++x) {
        *at++ = s * (int32_t)self->image.sample_bytes + zo_image_at(&self->image, y, x) * value_bytes;
      }
    }
  }
  const int32_t across = self->run_length == self->image.channels ? w->filter_width : 1;
  for (int32_t y = 0; y < w->filter_height; ++y) {
    for (int32_t x = 0; x < across; ++x) {
      const int32_t pixel = y * w->dilation_height * self->image.width + x * w->dilation_width;
      for (int32_t s = 0; s < self->run_steps; ++s) {
        *step++ = (pixel * self->image.channels + s * self->layout.step) * value_bytes;
      }
    }
  }
}

/* Filters that may change between invokes are taken as they lie where each is used a few times
 * only: packing them, or only looking whether they have changed, would take as long. */
static void choose_kernel(zo_conv* self, const zo_kernel_set* kernels, const zo_layer* layer) {
  const zo_window* w = &layer->window;
  const bool is_dense = self->rows == 1 && self->depth == w->channels;
  self->run = kernels->gemm;
  self->pack = kernels->pack;
  if (!is_dense || layer->constant) return;
  if (w->samples == 1) {
    self->dots = kernels->dots;
  } else if (w->samples >= kZoSamples / 2 && self->depth % self->layout.step == 0) {
    self->dense = kernels->dense;
  }
}

static bool takes_as_they_lie(const zo_conv* self) { return self->dots != NULL || self->dense != NULL; }

static bool allocate(zo_conv* self, const zo_layer* layer) {
  const size_t columns = (size_t)blocks_of(layer->channels) * kZoBlock;
  const size_t steps = (size_t)self->gemm.steps;
  int32_t* source = malloc(columns * sizeof *source);
  if (source == NULL) return false;
  for (int32_t c = 0; c < (int32_t)columns; ++c) source[c] = c < layer->channels ? c : -1;
  const bool has_channels = zo_channels_init(&self->channels, layer, source, (int32_t)columns);
  free(source);
  if (takes_as_they_lie(self)) return has_channels;
  self->row_at = malloc((size_t)self->image.held * (size_t)self->rows * sizeof *self->row_at);
  self->step_at = malloc(steps * sizeof *self->step_at);
  self->filters = calloc(columns, steps * (size_t)self->layout.step);
  self->source = malloc((size_t)layer->channels * (size_t)self->depth);
  self->filter_sum = malloc((size_t)layer->channels * sizeof *self->filter_sum);
  return has_channels && self->row_at != NULL && self->step_at != NULL && self->filters != NULL &&
         self->source != NULL && self->filter_sum != NULL;
}

zo_conv* zo_conv_create(const zo_kernel_set* kernels, const zo_layer* layer) {
  const zo_window* w = &layer->window;
  const int64_t depth = (int64_t)w->filter_height * w->filter_width * w->channels;
  const int64_t rows = (int64_t)w->out_height * w->out_width;
  if (depth > INT32_MAX / 8 || rows > INT32_MAX / 8 || depth * layer->channels > INT32_MAX / 8) {
    return NULL;
  }
  zo_conv* self = calloc(1, sizeof *self);
  if (self == NULL) return NULL;
  self->layout = kernels->layout;
  self->constant = layer->constant;
  self->correction = self->layout.wide ? 0 : -layer->input_zero_point - self->layout.flip;
  self->run_length = w->channels * (w->dilation_width == 1 ? w->filter_width : 1);
  self->run_steps = (self->run_length + self->layout.step - 1) / self->layout.step;
  self->depth = (int32_t)depth;
  self->rows = (int32_t)rows;
  choose_kernel(self, kernels, layer);
  self->gemm.steps = (int32_t)depth / self->run_length * self->run_steps;
  self->gemm.columns = layer->channels;
  const int64_t some = (kRows + rows - 1) / rows;
  const zo_image_format format = {self->layout.wide, self->layout.flip, layer->input_zero_point, 1};
  const int32_t held = self->dense != NULL ? kZoSamplesAtOnce : (int32_t)(some < w->samples ? some : w->samples);
  if (!zo_image_init(&self->image, w, &format, held, layer->threads) || !allocate(self, layer)) {
    zo_conv_free(self);
    return NULL;
  }
  if (!takes_as_they_lie(self)) set_distances(self);
  self->gemm.row_at = self->row_at;
  self->gemm.step_at = self->step_at;
  self->gemm.filters = self->filters;
  self->gemm.output = &self->channels.output;
  return self;
}

/* In parts that 16 bits hold. */
static int32_t sum_of(const int8_t* values, int32_t count) {
  int32_t sum = 0;
  for (int32_t i = 0; i < count; i += 128) {
    const int32_t part = count - i < 128 ? count - i : 128;
    int16_t of_part = 0;
    for (int32_t j = 0; j < part; ++j) of_part = (int16_t)(of_part + values[i + j]);
    sum += of_part;
  }
  return sum;
}

static void pack(zo_conv* self, const int8_t* filters) {
  const int32_t channels = self->gemm.columns, step = self->layout.step;
  const size_t block = (size_t)self->gemm.steps * kZoColumns * (size_t)step;
  for (int32_t first = 0; first < channels; first += kZoColumns) {
    const int32_t left = channels - first;
    int8_t* to = self->filters + (size_t)(first / kZoColumns) * block;
    for (int32_t at = 0; at < self->depth; at += self->run_length) {
      self->pack(filters + (ptrdiff_t)first * self->depth + at, self->depth, left < kZoColumns ? left : kZoColumns,
                 self->run_length, to);
      to += self->run_steps * kZoColumns * step;
    }
  }
  for (int32_t c = 0; self->correction != 0 && c < channels; ++c) {
    self->filter_sum[c] = sum_of(filters + (ptrdiff_t)c * self->depth, self->depth);
  }
  memcpy(self->source, filters, (size_t)channels * (size_t)self->depth);
  self->is_packed = true;
}

/* Sums begin with the bias and the constant term of the sums of packed filters. */
static void start(const zo_conv* self, const int32_t* bias, int32_t correction) {
  for (int32_t c = 0; c < self->gemm.columns; ++c) {
    const uint32_t from = bias == NULL ? 0u : (uint32_t)bias[c];
    const uint32_t filter = correction == 0 ? 0u : (uint32_t)self->filter_sum[c];
    self->channels.start[c] = (int32_t)(from + (uint32_t)correction * filter);
  }
}

void zo_conv_begin(zo_conv* self, const int8_t* filters, const int32_t* bias) {
  if (takes_as_they_lie(self)) {
    self->unpacked = filters;
    start(self, bias, 0);
    return;
  }
  const size_t bytes = (size_t)self->gemm.columns * (size_t)self->depth;
  if (!self->is_packed || (!self->constant && memcmp(self->source, filters, bytes) != 0)) {
    pack(self, filters);
  }
  start(self, bias, self->correction);
}

static void run_dots(const zo_conv* self, const int8_t* x, int32_t thread, int8_t* y) {
  const zo_dots dots = {zo_image_load(&self->image, x, 1, thread),
                        self->depth,
                        self->unpacked,
                        self->gemm.columns,
                        self->correction,
                        &self->channels.output,
                        y};
  self->dots(&dots);
}

static void run_dense(const zo_conv* self, const int8_t* x, int32_t samples, int32_t thread, int8_t* y) {
  const zo_dense dense = {x,
                          samples,
                          self->depth,
                          self->unpacked,
                          self->gemm.columns,
                          self->correction,
                          &self->channels.output,
                          zo_image_memory(&self->image, thread),
                          y};
  self->dense(&dense);
}

static void run_gemm(const zo_conv* self, const int8_t* x, int32_t samples, int32_t thread, int8_t* y) {
  zo_gemm gemm = self->gemm;
  gemm.rows = zo_image_load(&self->image, x, samples, thread);
  gemm.row_count = samples * self->rows;
  gemm.y = y;
  self->run(&gemm);
}

void zo_conv_run(const zo_conv* self, const int8_t* x, zo_share share, int8_t* y) {
  const zo_window* w = &self->image.window;
  const size_t in_bytes = (size_t)w->height * (size_t)w->width * (size_t)w->channels;
  const size_t out_bytes = (size_t)self->rows * (size_t)self->gemm.columns;
  for (int32_t done = 0; done < share.count; done += self->image.held) {
    const int32_t left = share.count - done;
    const int32_t count = left < self->image.held ? left : self->image.held;
    const size_t s = (size_t)(share.first + done);
    const int8_t* from = x + s * in_bytes;
    int8_t* to = y + s * out_bytes;
    if (self->dots != NULL) {
      run_dots(self, from, share.thread, to);
    } else if (self->dense != NULL) {
      run_dense(self, from, count, share.thread, to);
    } else {
      run_gemm(self, from, count, share.thread, to);
    }
  }
}

void zo_conv_free(zo_conv* self) {
  if (self == NULL) return;
  zo_image_free(&self->image);
  zo_channels_free(&self->channels);
  free(self->row_at);
  free(self->step_at);
  free(self->filters);
  free(self->source);
  free(self->filter_sum);
  free(self);
}
