/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_window.h"

#include <stdlib.h>
#include <string.h>

/* Kernels read whole vectors, of which the last may begin at the last value. */
#define PAST_THE_END 256u

/* Memory that threads write lies in lines of its own. */
#define LINE 64u

/* Rows or columns that windows look at. */
static int64_t extent(int32_t outputs, int32_t stride, int32_t taps, int32_t dilation) {
  return (int64_t)(outputs - 1) * stride + (int64_t)(taps - 1) * dilation + 1;
}

static void fill(zo_image* image, size_t bytes) {
  const zo_image_format* f = &image->format;
  const int value = f->wide ? 0 : (int)((uint8_t)f->zero_point ^ f->flip);
  memset(image->memory, value, bytes);
}

bool zo_image_init(zo_image* image, const zo_window* window, const zo_image_format* format, int32_t held,
                   int32_t threads) {
  const int64_t height =
      extent(window->out_height, window->stride_height, window->filter_height, window->dilation_height);
  const int64_t width = extent(window->out_width, window->stride_width, window->filter_width, window->dilation_width);
  const int64_t limit = INT32_MAX / 4;
  memset(image, 0, sizeof *image);
  const int64_t channels = (int64_t)window->channels * format->repeat;
  if (height > limit || width > limit || channels > limit || height * width > limit ||
      height * width * channels > limit / held) {
    return false;
  }
  image->window = *window;
  image->format = *format;
  image->height = (int32_t)height;
  image->width = (int32_t)width;
  image->channels = (int32_t)channels;
  image->held = held;
  image->value_bytes = format->wide ? sizeof(int16_t) : 1u;
  image->sample_bytes = (size_t)(height * width * channels) * image->value_bytes;
  image->thread_bytes = ((size_t)held * image->sample_bytes + PAST_THE_END + LINE - 1u) / LINE * LINE;
  const size_t bytes = (size_t)threads * image->thread_bytes;
  image->memory = malloc(bytes);
  if (image->memory == NULL) return false;
  fill(image, bytes);
  return true;
}

void zo_image_free(zo_image* image) {
  free(image->memory);
  image->memory = NULL;
}

static void copy_bytes(uint8_t* to, const int8_t* from, size_t count, uint8_t flip) {
  for (size_t i = 0; i < count; ++i) to[i] = (uint8_t)((uint8_t)from[i] ^ flip);
}

static void copy_wide(int16_t* to, const int8_t* from, size_t count, int32_t zero_point) {
  const int16_t offset = (int16_t)zero_point;
  for (size_t i = 0; i < count; ++i) to[i] = (int16_t)(from[i] - offset);
}

static void copy_repeated(int16_t* to, const int8_t* from, size_t count, int32_t zero_point, int32_t repeat) {
  for (size_t i = 0; i < count; ++i) {
    for (int32_t r = 0; r < repeat; ++r) *to++ = (int16_t)(from[i] - zero_point);
  }
}

/* So many neighbouring values of the input. */
static void copy(const zo_image* image, uint8_t* to, const int8_t* from, size_t count) {
  const zo_image_format* f = &image->format;
  if (!f->wide) {
    copy_bytes(to, from, count, f->flip);
  } else if (f->repeat == 1) {
    copy_wide((int16_t*)(void*)to, from, count, f->zero_point);
  } else {
    copy_repeated((int16_t*)(void*)to, from, count, f->zero_point, f->repeat);
  }
}

static int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

const uint8_t* zo_image_load(const zo_image* image, const int8_t* x, int32_t samples, int32_t thread) {
  uint8_t* memory = zo_image_memory(image, thread);
  const zo_window* w = &image->window;
  const int32_t rows = smaller(w->height, image->height - w->pad_top);
  const int32_t columns = smaller(w->width, image->width - w->pad_left);
  const size_t in_row = (size_t)w->width * (size_t)w->channels;
  const size_t pixel = (size_t)image->channels * image->value_bytes;
  const size_t row = (size_t)image->width * pixel;
  const size_t first = (size_t)w->pad_top * row + (size_t)w->pad_left * pixel;
  if (rows <= 0 || columns <= 0) return memory;
  for (int32_t s = 0; s < samples; ++s, x += (size_t)w->height * in_row) {
    uint8_t* to = memory + (size_t)s * image->sample_bytes + first;
    if (columns == image->width && columns == w->width) {
      copy(image, to, x, (size_t)rows * in_row);
      continue;
    }
    for (int32_t r = 0; r < rows; ++r) {
      copy(image, to + (size_t)r * row, x + (size_t)r * in_row, (size_t)columns * (size_t)w->channels);
    }
  }
  return memory;
}
