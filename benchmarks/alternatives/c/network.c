/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "network.h"

#include <math.h>
#include <string.h>

/* --- loops over the weights of an output channel, for four channels at a time --------------------------- */

static void add_dots(const float* x, const float* filter, int32_t n, float* sums, int32_t channels) {
  int32_t c = 0;
  for (; c + 4 <= channels; c += 4) {
    const float *w0 = filter + c * n, *w1 = w0 + n, *w2 = w1 + n, *w3 = w2 + n;
    float s0 = sums[c], s1 = sums[c + 1], s2 = sums[c + 2], s3 = sums[c + 3];
    for (int32_t i = 0; i < n; ++i) {
      const float v = x[i];
      s0 += v * w0[i];
      s1 += v * w1[i];
      s2 += v * w2[i];
      s3 += v * w3[i];
    }
    sums[c] = s0, sums[c + 1] = s1, sums[c + 2] = s2, sums[c + 3] = s3;
  }
  for (; c < channels; ++c) {
    const float* w = filter + c * n;
    float s = sums[c];
    for (int32_t i = 0; i < n; ++i) s += x[i] * w[i];
    sums[c] = s;
  }
}

static void add_weighted(const float* error, const float* filter, int32_t n, float* sums, int32_t channels) {
  int32_t c = 0;
  for (; c + 4 <= channels; c += 4) {
    const float *w0 = filter + c * n, *w1 = w0 + n, *w2 = w1 + n, *w3 = w2 + n;
    const float e0 = error[c], e1 = error[c + 1], e2 = error[c + 2], e3 = error[c + 3];
    if (e0 == 0.0f && e1 == 0.0f && e2 == 0.0f && e3 == 0.0f) continue;
    for (int32_t i = 0; i < n; ++i) sums[i] += e0 * w0[i] + e1 * w1[i] + e2 * w2[i] + e3 * w3[i];
  }
  for (; c < channels; ++c) {
    const float* w = filter + c * n;
    for (int32_t i = 0; i < n; ++i) sums[i] += error[c] * w[i];
  }
}

static void move(const float* error, const float* x, int32_t n, float* filter, int32_t channels, float rate) {
  int32_t c = 0;
  for (; c + 4 <= channels; c += 4) {
    float *w0 = filter + c * n, *w1 = w0 + n, *w2 = w1 + n, *w3 = w2 + n;
    const float e0 = rate * error[c], e1 = rate * error[c + 1], e2 = rate * error[c + 2], e3 = rate * error[c + 3];
    if (e0 == 0.0f && e1 == 0.0f && e2 == 0.0f && e3 == 0.0f) continue;
    for (int32_t i = 0; i < n; ++i) {
      const float v = x[i];
      w0[i] -= e0 * v;
      w1[i] -= e1 * v;
      w2[i] -= e2 * v;
      w3[i] -= e3 * v;
    }
  }
  for (; c < channels; ++c) {
    float* w = filter + c * n;
    const float e = rate * error[c];
    for (int32_t i = 0; i < n; ++i) w[i] -= e * x[i];
  }
}

/* --- windows of an output pixel ------------------------------------------------------------------------- */

typedef struct {
  int32_t first, last; /* rows or columns of the kernel that lie on the input, the last one excluded */
  int32_t input;       /* where the kernel begins on the input */
} window;

static window window_of(int32_t output, int32_t stride, int32_t pad, int32_t kernel, int32_t size) {
  window w = {0, kernel, output * stride - pad};
  if (w.input < 0) w.first = -w.input;
  if (w.input + kernel > size) w.last = size - w.input;
  return w;
}

static bool is_whole(const layer* l) { return l->rows == 1 && l->columns == 1; }

/* Offset of a pixel's only input, for a kernel of one pixel. */
static int32_t pixel(const layer* l, int32_t row, int32_t column) {
  return (row * l->stride_rows * l->in_columns + column * l->stride_columns) * l->in_channels;
}

/* Copies between the input and the inputs of one output pixel: in, or, as sums, out. */
static void copy_patch(const layer* l, int32_t row, int32_t column, const float* x, float* patch) {
  const window r = window_of(row, l->stride_rows, l->pad_rows, l->rows, l->in_rows);
  const window c = window_of(column, l->stride_columns, l->pad_columns, l->columns, l->in_columns);
  const int32_t count = (c.last - c.first) * l->in_channels;
  memset(patch, 0, sizeof *patch * (size_t)(l->rows * l->columns * l->in_channels));
  for (int32_t i = r.first; i < r.last; ++i) {
    const float* from = x + ((r.input + i) * l->in_columns + c.input + c.first) * l->in_channels;
    memcpy(patch + (i * l->columns + c.first) * l->in_channels, from, sizeof *patch * (size_t)count);
  }
}

static void add_patch(const layer* l, int32_t row, int32_t column, const float* patch, float* sums) {
  const window r = window_of(row, l->stride_rows, l->pad_rows, l->rows, l->in_rows);
  const window c = window_of(column, l->stride_columns, l->pad_columns, l->columns, l->in_columns);
  const int32_t count = (c.last - c.first) * l->in_channels;
  for (int32_t i = r.first; i < r.last; ++i) {
    float* to = sums + ((r.input + i) * l->in_columns + c.input + c.first) * l->in_channels;
    const float* from = patch + (i * l->columns + c.first) * l->in_channels;
    for (int32_t k = 0; k < count; ++k) to[k] += from[k];
  }
}

static const float* patch_of(const layer* l, int32_t row, int32_t column, const float* x, float* patch) {
  if (is_whole(l)) return x + pixel(l, row, column);
  copy_patch(l, row, column, x, patch);
  return patch;
}

/* --- layers --------------------------------------------------------------------------------------------- */

static int32_t outputs(const layer* l) { return l->out_rows * l->out_columns * l->out_channels; }

static int32_t inputs(const layer* l) { return l->in_rows * l->in_columns * l->in_channels; }

static void conv_forward(const layer* l, const float* x, const float* weights, float* y, float* patch) {
  const int32_t n = l->rows * l->columns * l->in_channels, channels = l->out_channels;
  for (int32_t row = 0; row < l->out_rows; ++row) {
    for (int32_t column = 0; column < l->out_columns; ++column, y += channels) {
      memcpy(y, weights + l->bias, sizeof *y * (size_t)channels);
      add_dots(patch_of(l, row, column, x, patch), weights + l->filter, n, y, channels);
    }
  }
}

static void conv_backward(const layer* l, const float* error, const float* weights, float* sums, float* patch) {
  const int32_t n = l->rows * l->columns * l->in_channels, channels = l->out_channels;
  for (int32_t row = 0; row < l->out_rows; ++row) {
    for (int32_t column = 0; column < l->out_columns; ++column, error += channels) {
      if (is_whole(l)) {
        add_weighted(error, weights + l->filter, n, sums + pixel(l, row, column), channels);
      } else {
        memset(patch, 0, sizeof *patch * (size_t)n);
        add_weighted(error, weights + l->filter, n, patch, channels);
        add_patch(l, row, column, patch, sums);
      }
    }
  }
}

static void conv_update(const layer* l, const float* x, const float* error, float* weights, float* patch, float rate) {
  const int32_t n = l->rows * l->columns * l->in_channels, channels = l->out_channels;
  for (int32_t row = 0; row < l->out_rows; ++row) {
    for (int32_t column = 0; column < l->out_columns; ++column, error += channels) {
      move(error, patch_of(l, row, column, x, patch), n, weights + l->filter, channels, rate);
      for (int32_t c = 0; c < channels; ++c) weights[l->bias + c] -= rate * error[c];
    }
  }
}

/* Which of its passes a loop over the taps of a depthwise layer or of a pool computes. */
typedef enum { kForward, kBackward, kUpdate } pass;

/* y += x w, or e_x += e_y w, or w -= rate e_y x, channel by channel. */
static void depthwise(const layer* l, pass what, const float* x, float* x_error, float* y, const float* filter,
                      float* moved, float rate) {
  const int32_t channels = l->in_channels;
  for (int32_t row = 0; row < l->out_rows; ++row) {
    const window r = window_of(row, l->stride_rows, l->pad_rows, l->rows, l->in_rows);
    for (int32_t column = 0; column < l->out_columns; ++column, y += channels) {
      const window k = window_of(column, l->stride_columns, l->pad_columns, l->columns, l->in_columns);
      for (int32_t i = r.first; i < r.last; ++i) {
        for (int32_t j = k.first; j < k.last; ++j) {
          const int32_t at = ((r.input + i) * l->in_columns + k.input + j) * channels;
          const int32_t tap = (i * l->columns + j) * channels;
          if (what == kForward) {
            for (int32_t c = 0; c < channels; ++c) y[c] += x[at + c] * filter[tap + c];
          } else if (what == kBackward) {
            for (int32_t c = 0; c < channels; ++c) x_error[at + c] += y[c] * filter[tap + c];
          } else {
            for (int32_t c = 0; c < channels; ++c) moved[tap + c] -= rate * y[c] * x[at + c];
          }
        }
      }
    }
  }
}

static void fill_rows(float* y, const float* row, int32_t rows, int32_t n) {
  for (int32_t i = 0; i < rows; ++i) memcpy(y + i * n, row, sizeof *y * (size_t)n);
}

/* A maximum's error goes to the first input that is the maximum. */
static void max_pool(const layer* l, const float* x, float* x_error, float* y, const float* error) {
  const int32_t channels = l->in_channels;
  for (int32_t row = 0; row < l->out_rows; ++row) {
    const window r = window_of(row, l->stride_rows, l->pad_rows, l->rows, l->in_rows);
    for (int32_t column = 0; column < l->out_columns; ++column) {
      const window k = window_of(column, l->stride_columns, l->pad_columns, l->columns, l->in_columns);
      const int32_t output = (row * l->out_columns + column) * channels;
      for (int32_t c = 0; c < channels; ++c) {
        int32_t best = -1;
        for (int32_t i = r.first; i < r.last; ++i) {
          for (int32_t j = k.first; j < k.last; ++j) {
            const int32_t at = ((r.input + i) * l->in_columns + k.input + j) * channels + c;
            if (best < 0 || x[at] > x[best]) best = at;
          }
        }
        if (x_error == NULL) {
          y[output + c] = x[best];
        } else {
          x_error[best] += error[output + c];
        }
      }
    }
  }
}

/* Padding does not count. */
static void average_pool(const layer* l, const float* x, float* x_error, float* y, const float* error) {
  const int32_t channels = l->in_channels;
  for (int32_t row = 0; row < l->out_rows; ++row) {
    const window r = window_of(row, l->stride_rows, l->pad_rows, l->rows, l->in_rows);
    for (int32_t column = 0; column < l->out_columns; ++column) {
      const window k = window_of(column, l->stride_columns, l->pad_columns, l->columns, l->in_columns);
      const int32_t output = (row * l->out_columns + column) * channels;
      const float share = 1.0f / (float)((r.last - r.first) * (k.last - k.first));
      for (int32_t i = r.first; i < r.last; ++i) {
        for (int32_t j = k.first; j < k.last; ++j) {
          const int32_t at = ((r.input + i) * l->in_columns + k.input + j) * channels;
          if (x_error == NULL) {
            for (int32_t c = 0; c < channels; ++c) y[output + c] += share * x[at + c];
          } else {
            for (int32_t c = 0; c < channels; ++c) x_error[at + c] += share * error[output + c];
          }
        }
      }
    }
  }
}

void layer_forward(const layer* l, float* arena, const float* weights, float* patch) {
  const float* x = arena + l->input;
  float* y = arena + l->output;
  const int32_t count = outputs(l);
  switch (l->kind) {
    case kConv:
      conv_forward(l, x, weights, y, patch);
      break;
    case kDepthwise:
      fill_rows(y, weights + l->bias, l->out_rows * l->out_columns, l->out_channels);
      depthwise(l, kForward, x, NULL, y, weights + l->filter, NULL, 0.0f);
      break;
    case kMaxPool:
      max_pool(l, x, NULL, y, NULL);
      break;
    case kAveragePool:
      memset(y, 0, sizeof *y * (size_t)count);
      average_pool(l, x, NULL, y, NULL);
      break;
    case kAdd:
      for (int32_t i = 0; i < count; ++i) y[i] = x[i] + arena[l->other + i];
      break;
  }
  if (l->relu) {
    for (int32_t i = 0; i < count; ++i) {
      if (y[i] < 0.0f) y[i] = 0.0f;
    }
    if (l->relu6) {
      for (int32_t i = 0; i < count; ++i) {
        if (y[i] > 6.0f) y[i] = 6.0f;
      }
    }
  }
}

static float* sums_of(float* arena, int32_t place, bool is_first, int32_t count) {
  if (is_first) memset(arena + place, 0, sizeof *arena * (size_t)count);
  return arena + place;
}

void layer_backward(const layer* l, float* arena, const float* weights, float* patch) {
  float* error = arena + l->output_error;
  const int32_t count = outputs(l);
  if (l->relu) {
    for (int32_t i = 0; i < count; ++i) {
      if (arena[l->output + i] <= 0.0f) error[i] = 0.0f;
    }
    if (l->relu6) {
      for (int32_t i = 0; i < count; ++i) {
        if (arena[l->output + i] >= 6.0f) error[i] = 0.0f;
      }
    }
  }
  if (l->other_error != kNowhere) {
    float* sums = sums_of(arena, l->other_error, l->other_error_is_first, count);
    for (int32_t i = 0; i < count; ++i) sums[i] += error[i];
  }
  if (l->input_error == kNowhere) return;
  float* sums = sums_of(arena, l->input_error, l->input_error_is_first, inputs(l));
  switch (l->kind) {
    case kConv:
      conv_backward(l, error, weights, sums, patch);
      break;
    case kDepthwise:
      depthwise(l, kBackward, NULL, sums, error, weights + l->filter, NULL, 0.0f);
      break;
    case kMaxPool:
      max_pool(l, arena + l->input, sums, NULL, error);
      break;
    case kAveragePool:
      average_pool(l, NULL, sums, NULL, error);
      break;
    case kAdd:
      for (int32_t i = 0; i < count; ++i) sums[i] += error[i];
      break;
  }
}

void layer_update(const layer* l, const float* arena, float* weights, float* patch, float rate) {
  const float *x = arena + l->input, *error = arena + l->output_error;
  if (l->kind == kConv) conv_update(l, x, error, weights, patch, rate);
  if (l->kind == kDepthwise) {
    depthwise(l, kUpdate, x, NULL, (float*)error, NULL, weights + l->filter, rate);
    for (int32_t i = 0, n = l->out_channels; i < outputs(l); i += n) {
      for (int32_t c = 0; c < n; ++c) weights[l->bias + c] -= rate * error[i + c];
    }
  }
}

float softmax_error(const float* logits, float* error, int32_t classes, int32_t label) {
  float most = logits[0], sum = 0.0f;
  for (int32_t c = 1; c < classes; ++c) most = logits[c] > most ? logits[c] : most;
  for (int32_t c = 0; c < classes; ++c) {
    error[c] = expf(logits[c] - most);
    sum += error[c];
  }
  const float p = error[label] / sum;
  for (int32_t c = 0; c < classes; ++c) error[c] /= sum;
  error[label] -= 1.0f;
  return -logf(p);
}
