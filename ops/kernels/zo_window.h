/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A window that moves over images, [samples, height, width, channels], and the copy of an image
 * that kernels read: with a border of zero points, so that no position is a special case.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_WINDOW_H_
#define TFLM_ZO_OPS_KERNELS_ZO_WINDOW_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All 1 at least, but for the paddings, which are 0 at least. */
typedef struct zo_window {
  int32_t samples, height, width, channels; /* of the input */
  int32_t out_height, out_width;
  int32_t filter_height, filter_width;
  int32_t stride_height, stride_width;
  int32_t dilation_height, dilation_width;
  int32_t pad_top, pad_left; /* rows and columns before the image's first */
} zo_window;

/* How values are written into the copy. */
typedef struct zo_image_format {
  bool wide; /* int16, x - zero point; else bytes, x ^ flip */
  uint8_t flip;
  int32_t zero_point;
  int32_t repeat; /* copies of each channel, side by side */
} zo_image_format;

/* The samples of a run that one thread computes. */
typedef struct zo_share {
  int32_t first, count;
  int32_t thread; /* whose memory it takes, from 0 on */
} zo_share;

typedef struct zo_image {
  zo_window window;
  zo_image_format format;
  int32_t height, width; /* with the border: the area that windows read */
  int32_t channels;      /* window.channels * format.repeat */
  int32_t held;          /* samples that a thread has room for */
  size_t value_bytes, sample_bytes, thread_bytes;
  uint8_t* memory; /* of each thread: [held, height, width, channels], and some bytes to read past
                      the end */
} zo_image;

/* Room for so many samples of each thread; false if it would be too large for 32-bit distances,
 * or there is no memory. */
bool zo_image_init(zo_image* image, const zo_window* window, const zo_image_format* format, int32_t held,
                   int32_t threads);

void zo_image_free(zo_image* image);

static inline uint8_t* zo_image_memory(const zo_image* image, int32_t thread) {
  return image->memory + (size_t)thread * image->thread_bytes;
}

/* Copies so many samples, from x on, into a thread's memory, which it returns. */
const uint8_t* zo_image_load(const zo_image* image, const int8_t* x, int32_t samples, int32_t thread);

/* Values from a sample's beginning to the window of an output. */
static inline int32_t zo_image_at(const zo_image* image, int32_t out_y, int32_t out_x) {
  const zo_window* w = &image->window;
  return (out_y * w->stride_height * image->width + out_x * w->stride_width) * image->channels;
}

#endif /* TFLM_ZO_OPS_KERNELS_ZO_WINDOW_H_ */
