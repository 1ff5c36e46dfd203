/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/backward/zo_pool_backprop.h"

#include <string.h>

#include "ops/core/backward/zo_error_range.h"
#include "ops/core/backward/zo_windows.h"
#include "ops/core/zo_workers.h"

#define POOL_SIDE_MAX UINT32_C(4096)
#define POOL_CHANNELS_MAX UINT32_C(65536)
#define WINDOW_MAX UINT32_C(65536)
#define VALUES_MAX (UINT64_C(1) << 30)

/* Sums of parts within it times errors of 16 bits fit 32 bits. */
#define PARTS_MAX UINT32_C(65535)

static int pool_size_fits(uint32_t value, uint32_t high) { return value >= 1u && value <= high; }

static int side_fits(uint32_t inputs, uint32_t outputs, uint32_t size, uint32_t stride, uint32_t pad) {
  return pool_size_fits(inputs, POOL_SIDE_MAX) && pool_size_fits(outputs, POOL_SIDE_MAX) &&
         pool_size_fits(size, POOL_SIDE_MAX) && pool_size_fits(stride, POOL_SIDE_MAX) && pad < size &&
         (outputs - 1u) * stride < inputs + pad;
}

zo_status zo_pool_check(const zo_pool* p) {
  const int valid = p != NULL && side_fits(p->in_h, p->out_h, p->k_h, p->stride_h, p->pad_top) &&
                    side_fits(p->in_w, p->out_w, p->k_w, p->stride_w, p->pad_left) && p->k_h * p->k_w <= WINDOW_MAX &&
                    pool_size_fits(p->channels, POOL_CHANNELS_MAX) &&
                    (uint64_t)p->in_h * p->in_w * p->channels <= VALUES_MAX &&
                    (uint64_t)p->out_h * p->out_w * p->channels <= VALUES_MAX;
  return valid ? ZO_OK : ZO_ERROR_ARGUMENT;
}

uint32_t zo_pool_scratch_values(const zo_pool* pool) { return pool->channels; }

static zo_windows window_rows(const zo_pool* p) {
  const zo_windows w = {p->in_h, p->out_h, p->k_h, p->stride_h, 1, p->pad_top};
  return w;
}

static zo_windows columns_of(const zo_pool* p) {
  const zo_windows w = {p->in_w, p->out_w, p->k_w, p->stride_w, 1, p->pad_left};
  return w;
}

/* The windows that read a position, one after the other: the first, and the one behind the last. */
static uint32_t first_window(const zo_windows* w, uint32_t position) {
  const uint32_t at = position + w->pad;
  return at < w->size ? 0u : (at - w->size) / w->stride + 1u;
}

static uint32_t end_window(const zo_windows* w, uint32_t position) {
  const uint32_t end = (position + w->pad) / w->stride + 1u;
  return end < w->outputs ? end : w->outputs;
}

/* Elements of a window that are inside the image. */
static uint32_t elements_inside(const zo_windows* w, uint32_t output) {
  const uint32_t begin = output * w->stride; /* plus the padding */
  const uint32_t first = begin > w->pad ? begin : w->pad;
  const uint32_t end = begin + w->size;
  const uint32_t last = end < w->inputs + w->pad ? end : w->inputs + w->pad;
  return last - first;
}

/* --- Maximum --------------------------------------------------------------------- */

/* Whether the input (row, column) is the first largest of a window of its channel. */
static int is_first_largest(const zo_pool* p, const int8_t* inputs, uint32_t h, uint32_t w, uint32_t row,
                            uint32_t column) {
  const int8_t value = inputs[((size_t)row * p->in_w + column) * p->channels];
  for (uint32_t i = 0; i < p->k_h; ++i) {
    /* Above the image: wraps to a row far below it. */
    const uint32_t y = h * p->stride_h + i - p->pad_top;
    if (y >= p->in_h) continue;
    for (uint32_t j = 0; j < p->k_w; ++j) {
      const uint32_t x = w * p->stride_w + j - p->pad_left;
      if (x >= p->in_w) continue;
      const int8_t other = inputs[((size_t)y * p->in_w + x) * p->channels];
      const int is_before = y < row || (y == row && x < column);
      if (other > value || (other == value && is_before)) return 0;
    }
  }
  return 1;
}

/* Sum of the errors that go to the input (row, column) of a channel. */
static int32_t routed_error(const zo_pool* p, const int8_t* inputs, const int16_t* output_errors, uint32_t row,
                            uint32_t column) {
  const zo_windows rows = window_rows(p), columns = columns_of(p);
  const uint32_t end_h = end_window(&rows, row), end_w = end_window(&columns, column);
  int32_t sum = 0;
  for (uint32_t h = first_window(&rows, row); h < end_h; ++h) {
    for (uint32_t w = first_window(&columns, column); w < end_w; ++w) {
      const int32_t e = output_errors[((size_t)h * p->out_w + w) * p->channels];
      if (e != 0 && is_first_largest(p, inputs, h, w, row, column)) sum += e;
    }
  }
  return sum;
}

#if ZO_KERNEL_SETS
/* Elements of windows, at most. */
#define ROUTED_MAX 64u

/* The same of windows that do not overlap, each of which is looked at once. */
static void route_windows(const zo_pool* p, const int8_t* inputs, const int16_t* output_errors, int16_t* input_errors) {
  memset(input_errors, 0, (size_t)p->in_h * p->in_w * p->channels * sizeof input_errors[0]);
  for (uint32_t h = 0; h < p->out_h; ++h) {
    for (uint32_t w = 0; w < p->out_w; ++w) {
      size_t places[ROUTED_MAX];
      uint32_t count = 0;
      for (uint32_t i = 0; i < p->k_h * p->k_w; ++i) {
        const uint32_t y = h * p->stride_h + i / p->k_w - p->pad_top, x = w * p->stride_w + i % p->k_w - p->pad_left;
        if (y < p->in_h && x < p->in_w) places[count++] = ((size_t)y * p->in_w + x) * p->channels;
      }
      for (uint32_t c = 0; c < p->channels; ++c) {
        size_t place = places[0];
        int32_t largest = inputs[place + c];
        for (uint32_t i = 1; i < count; ++i) {
          const int32_t value = inputs[places[i] + c];
          place = value > largest ? places[i] : place;
          largest = value > largest ? value : largest;
        }
        input_errors[place + c] = *output_errors++;
      }
    }
  }
}
#endif

zo_status zo_max_pool_backprop(const zo_pool* pool, const int8_t* inputs, const int16_t* output_errors, int8_t exponent,
                               int16_t* input_errors, int8_t* input_exponent) {
  if (inputs == NULL || output_errors == NULL || input_errors == NULL || input_exponent == NULL ||
      zo_pool_check(pool) != ZO_OK) {
    return ZO_ERROR_ARGUMENT;
  }
  const zo_windows rows = window_rows(pool), columns = columns_of(pool);
  const uint32_t outputs = pool->out_h * pool->out_w * pool->channels;
  const uint32_t most = zo_most_windows(&rows) * zo_most_windows(&columns);
#if ZO_KERNEL_SETS
  if (most == 1u && pool->k_h * pool->k_w <= ROUTED_MAX) {
    route_windows(pool, inputs, output_errors, input_errors);
    *input_exponent = exponent;
    return ZO_OK;
  }
#endif
  const uint32_t shift = zo_error_shift((uint64_t)most * (uint32_t)zo_largest_magnitude(output_errors, outputs));
  for (uint32_t row = 0; row < pool->in_h; ++row) {
    for (uint32_t column = 0; column < pool->in_w; ++column) {
      for (uint32_t c = 0; c < pool->channels; ++c) {
        const int32_t sum = routed_error(pool, inputs + c, output_errors + c, row, column);
        *input_errors++ = (int16_t)zo_half_up(sum, shift);
      }
    }
  }
  *input_exponent = zo_error_exponent(exponent + (int32_t)shift);
  return ZO_OK;
}

/* --- Average --------------------------------------------------------------------- */

/* 2^bits / n, half up; n is at most 2^16. */
static uint32_t part_of(uint32_t bits, uint32_t n) { return ((UINT32_C(1) << bits) + n / 2u) / n; }

/* Adds up the parts of the windows that read an input and, with sums, their errors times their
 * parts. */
static uint32_t pass_on(const zo_pool* p, uint32_t bits, uint32_t row, uint32_t column, const int16_t* output_errors,
                        int32_t* sums) {
  const zo_windows rows = window_rows(p), columns = columns_of(p);
  const uint32_t end_h = end_window(&rows, row), end_w = end_window(&columns, column);
  uint32_t parts = 0;
  for (uint32_t h = first_window(&rows, row); h < end_h; ++h) {
    for (uint32_t w = first_window(&columns, column); w < end_w; ++w) {
      const uint32_t part = part_of(bits, elements_inside(&rows, h) * elements_inside(&columns, w));
      parts = part <= UINT32_MAX - parts ? parts + part : UINT32_MAX;
      const int16_t* e = output_errors + ((size_t)h * p->out_w + w) * p->channels;
      const uint32_t channels = sums == NULL ? 0u : p->channels;
      for (uint32_t c = 0; c < channels; ++c) sums[c] += e[c] * (int32_t)part;
    }
  }
  return parts;
}

static uint32_t largest_parts(const zo_pool* p, uint32_t bits, const int16_t* output_errors) {
  uint32_t largest = 0;
  for (uint32_t row = 0; row < p->in_h; ++row) {
    for (uint32_t column = 0; column < p->in_w; ++column) {
      const uint32_t parts = pass_on(p, bits, row, column, output_errors, NULL);
      if (parts > largest) largest = parts;
    }
  }
  return largest;
}

zo_status zo_average_pool_backprop(const zo_pool* pool, const int16_t* output_errors, int8_t exponent,
                                   int16_t* input_errors, int8_t* input_exponent, int32_t* scratch) {
  if (output_errors == NULL || input_errors == NULL || input_exponent == NULL || scratch == NULL ||
      zo_pool_check(pool) != ZO_OK) {
    return ZO_ERROR_ARGUMENT;
  }
  /* With one bit more the part of a window would be too large alone. */
  uint32_t bits = 16;
  for (uint32_t n = pool->k_h * pool->k_w; n > 1u && bits < 31u; n >>= 1) ++bits;
  uint32_t parts;
  while ((parts = largest_parts(pool, bits, output_errors)) > PARTS_MAX) --bits;
  const uint32_t outputs = pool->out_h * pool->out_w * pool->channels;
  const uint32_t shift = zo_error_shift((uint64_t)parts * (uint32_t)zo_largest_magnitude(output_errors, outputs));
  for (uint32_t row = 0; row < pool->in_h; ++row) {
    for (uint32_t column = 0; column < pool->in_w; ++column) {
      memset(scratch, 0, pool->channels * sizeof scratch[0]);
      (void)pass_on(pool, bits, row, column, output_errors, scratch);
      for (uint32_t c = 0; c < pool->channels; ++c) {
        *input_errors++ = (int16_t)zo_half_up(scratch[c], shift);
      }
    }
  }
  *input_exponent = zo_error_exponent(exponent + (int32_t)shift - (int32_t)bits);
  return ZO_OK;
}
