/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Every kernel set that this machine can run against layers written down as they are defined, one
 * output after the other: random shapes, strides, dilations, paddings, depth multipliers, factors
 * from 2^-31 to 2^30, zero points at both ends, extreme inputs and biases. To be run under the
 * sanitizers: inputs and outputs end where their memory ends.
 */
#include "kernels_test.h"

#include <string.h>

#include "ops/kernels/zo_conv.h"
#include "ops/kernels/zo_pool.h"

enum { kRounds = 400 };

unsigned long checks;

static uint64_t state = 1;

/* SplitMix64. */
uint32_t draw(void) {
  uint64_t z = (state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return (uint32_t)(z >> 32);
}

int32_t between(int32_t low, int32_t high) {
  return (int32_t)((uint32_t)low + draw() % ((uint32_t)high - (uint32_t)low + 1u));
}

void* allocate(size_t bytes) {
  void* memory = malloc(bytes);
  if (memory == NULL) abort();
  return memory;
}

int8_t* bytes_of(size_t count) {
  int8_t* values = (int8_t*)allocate(count);
  const uint32_t kind = draw() % 8u;
  for (size_t i = 0; i < count; ++i) {
    const int8_t extreme = draw() & 1u ? INT8_MAX : INT8_MIN;
    values[i] = kind == 0u ? INT8_MIN : kind == 1u ? INT8_MAX : kind == 2u ? extreme : (int8_t)draw();
  }
  return values;
}

/* --- TFLM's two roundings, as its documentation has them, in 128 bits
 * ------------------------------------ */

/* x * value / 2^31, to the nearest, halves up; then / 2^right, to the nearest, halves away from
 * zero. */
static int64_t requantized(int32_t x, zo_multiplier m) {
  const int32_t left = m.shift > 0 ? m.shift : 0, right = m.shift > 0 ? 0 : -m.shift;
  const int32_t shifted = (int32_t)((uint32_t)x << left); /* wraps, in TFLM as here */
  const int64_t doubled = (int64_t)shifted * m.value * 2; /* in units of 2^-32 */
  int64_t high = doubled / (INT64_C(1) << 32);
  int64_t rest = doubled % (INT64_C(1) << 32);
  if (rest < 0) {
    rest += INT64_C(1) << 32;
    --high;
  }
  if (rest >= INT64_C(1) << 31) ++high;
  if (right == 0) return high;
  const int64_t divisor = INT64_C(1) << right, size = high < 0 ? -high : high;
  const int64_t quotient = (2 * size + divisor) / (2 * divisor);
  return high < 0 ? -quotient : quotient;
}

static int8_t output_of(int64_t sum, zo_multiplier m, const zo_layer* layer) {
  int64_t y = requantized((int32_t)(uint32_t)(uint64_t)sum, m) + layer->zero_point;
  if (y < layer->min) y = layer->min;
  if (y > layer->max) y = layer->max;
  return (int8_t)y;
}

/* --- layers
 * ---------------------------------------------------------------------------------------------- */

static zo_multiplier any_multiplier(int usual) {
  const zo_multiplier zero = {0, 0};
  if (draw() % 40u == 0u) return zero;
  const zo_multiplier m = {(int32_t)(UINT32_C(1) << 30 | draw() >> 2), usual ? between(-14, -1) : between(-31, 30)};
  return m;
}

/* A window that has a pixel of the image at least, its padding smaller than its extent. */
static zo_window any_window(void) {
  zo_window w = {between(1, 4), between(1, 9), between(1, 9), between(1, 40), 0, 0, between(1, 4), between(1, 4),
                 between(1, 3), between(1, 3), between(1, 3), between(1, 3),  0, 0};
  const int32_t tall = (w.filter_height - 1) * w.dilation_height + 1;
  const int32_t wide = (w.filter_width - 1) * w.dilation_width + 1;
  w.pad_top = between(0, tall - 1);
  w.pad_left = between(0, wide - 1);
  w.out_height = between(1, 1 + (w.height + w.pad_top - 1) / w.stride_height);
  w.out_width = between(1, 1 + (w.width + w.pad_left - 1) / w.stride_width);
  return w;
}

typedef struct drawn {
  zo_layer layer;
  zo_multiplier* multipliers;
  int8_t *x, *filters, *y;
  int32_t* bias;
  size_t outputs, filter_bytes;
} drawn;

static int8_t end_or(int32_t value) {
  const uint32_t kind = draw() % 4u;
  return (int8_t)(kind == 0u ? INT8_MIN : kind == 1u ? INT8_MAX : value);
}

/* `multiplier`: output channels of an input channel, or 0 for those of a convolution. */
static void draw_layer(drawn* d, int32_t multiplier) {
  zo_layer* l = &d->layer;
  const int usual = draw() % 3u != 0u;
  l->window = any_window();
  if (multiplier == 0 && draw() % 4u == 0u) { /* a dense layer */
    const zo_window dense = {between(1, 70), 1, 1, between(1, 300), 1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
    l->window = dense;
    if (draw() % 4u == 0u) l->window.samples = 1;
    if (draw() & 1u) l->window.channels *= 4;
  }
  l->channels = multiplier > 0 ? l->window.channels * multiplier : between(1, 150);
  l->input_zero_point = end_or(between(-128, 127));
  l->zero_point = end_or(between(-128, 127));
  l->min = draw() & 1u ? INT8_MIN : l->zero_point;
  l->max = draw() & 1u ? INT8_MAX : between(l->min, INT8_MAX);
  l->constant = false;
  l->threads = 3;
  const size_t channels = (size_t)l->channels;
  d->multipliers = (zo_multiplier*)allocate(channels * sizeof *d->multipliers);
  for (size_t c = 0; c < channels; ++c) d->multipliers[c] = any_multiplier(usual);
  l->multipliers = d->multipliers;
  const zo_window* w = &l->window;
  const int32_t taps = w->filter_height * w->filter_width;
  d->filter_bytes = channels * (size_t)(taps * (multiplier > 0 ? 1 : w->channels));
  d->outputs = (size_t)(w->samples * w->out_height * w->out_width) * channels;
  d->x = bytes_of((size_t)(w->samples * w->height * w->width * w->channels));
  d->filters = bytes_of(d->filter_bytes);
  d->y = (int8_t*)allocate(d->outputs);
  d->bias = draw() % 4u == 0u ? NULL : (int32_t*)allocate(channels * sizeof *d->bias);
  for (size_t c = 0; d->bias != NULL && c < channels; ++c) {
    const uint32_t kind = draw() % 8u;
    d->bias[c] = kind == 0u ? INT32_MAX : kind == 1u ? INT32_MIN : between(-100000, 100000);
  }
}

static void free_layer(drawn* d) {
  free(d->multipliers);
  free(d->x);
  free(d->filters);
  free(d->y);
  free(d->bias);
}

/* The sum of one output; `multiplier` as above. */
static int64_t sum_of(const drawn* d, int32_t sample, int32_t y, int32_t x, int32_t channel, int32_t multiplier) {
  const zo_window* w = &d->layer.window;
  const int32_t first = multiplier > 0 ? channel / multiplier : 0;
  const int32_t last = multiplier > 0 ? first : w->channels - 1;
  int64_t sum = d->bias == NULL ? 0 : d->bias[channel];
  for (int32_t i = 0; i < w->filter_height; ++i) {
    for (int32_t j = 0; j < w->filter_width; ++j) {
      const int32_t row = y * w->stride_height - w->pad_top + i * w->dilation_height;
      const int32_t column = x * w->stride_width - w->pad_left + j * w->dilation_width;
      if (row < 0 || row >= w->height || column < 0 || column >= w->width) continue;
      for (int32_t c = first; c <= last; ++c) {
        const int32_t tap = i * w->filter_width + j;
        const int32_t value = d->x[((sample * w->height + row) * w->width + column) * w->channels + c];
        const int32_t weight = multiplier > 0
                                   ? d->filters[tap * d->layer.channels + channel]
                                   : d->filters[(channel * w->filter_height * w->filter_width + tap) * w->channels + c];
        sum += (int64_t)(value - d->layer.input_zero_point) * weight;
      }
    }
  }
  return sum;
}

static void check_outputs(const drawn* d, int32_t multiplier) {
  const zo_window* w = &d->layer.window;
  const int8_t* y = d->y;
  for (int32_t s = 0; s < w->samples; ++s) {
    for (int32_t row = 0; row < w->out_height; ++row) {
      for (int32_t column = 0; column < w->out_width; ++column) {
        for (int32_t c = 0; c < d->layer.channels; ++c, ++y) {
          const int64_t sum = sum_of(d, s, row, column, c, multiplier);
          CHECK(*y == output_of(sum, d->multipliers[c], &d->layer));
        }
      }
    }
  }
}

/* Shares of all samples, as threads might take them. */
static int32_t draw_shares(const drawn* d, zo_share shares[3]) {
  const int32_t samples = d->layer.window.samples, parts = between(1, samples < 3 ? samples : 3);
  for (int32_t part = 0; part < parts; ++part) {
    const int32_t first = samples * part / parts;
    const zo_share share = {first, samples * (part + 1) / parts - first, parts - 1 - part};
    shares[part] = share;
  }
  return parts;
}

static void run_conv(zo_conv* conv, const drawn* d) {
  zo_share shares[3];
  zo_conv_begin(conv, d->filters, d->bias);
  for (int32_t i = draw_shares(d, shares); i-- > 0;) zo_conv_run(conv, d->x, shares[i], d->y);
}

static void run_depthwise(zo_depthwise_conv* conv, const drawn* d) {
  zo_share shares[3];
  zo_depthwise_conv_begin(conv, d->filters, d->bias);
  for (int32_t i = draw_shares(d, shares); i-- > 0;) {
    zo_depthwise_conv_run(conv, d->x, shares[i], d->y);
  }
}

static void test_conv(const zo_kernel_set* set) {
  for (int round = 0; round < kRounds; ++round) {
    drawn d;
    draw_layer(&d, 0);
    zo_conv* conv = zo_conv_create(set, &d.layer);
    CHECK(conv != NULL);
    for (int run = 0; run < 2; ++run) { /* filters that change are packed again */
      run_conv(conv, &d);
      check_outputs(&d, 0);
      d.filters[draw() % d.filter_bytes] ^= (int8_t)(1 + draw() % 100u);
    }
    zo_conv_free(conv);
    free_layer(&d);
  }
}

static void test_depthwise(const zo_kernel_set* set) {
  for (int round = 0; round < kRounds; ++round) {
    drawn d;
    const int32_t multiplier = draw() % 3u != 0u ? 1 : between(2, 4);
    draw_layer(&d, multiplier);
    zo_depthwise_conv* conv = zo_depthwise_conv_create(set, &d.layer);
    CHECK(conv != NULL);
    for (int run = 0; run < 2; ++run) {
      run_depthwise(conv, &d);
      check_outputs(&d, multiplier);
      d.filters[draw() % d.filter_bytes] ^= (int8_t)(1 + draw() % 100u);
    }
    zo_depthwise_conv_free(conv);
    free_layer(&d);
  }
}

/* Filters that a layer says are constant are read once. */
static void test_constant_filters(const zo_kernel_set* set) {
  drawn d;
  draw_layer(&d, 0);
  d.layer.constant = true;
  zo_conv* conv = zo_conv_create(set, &d.layer);
  CHECK(conv != NULL);
  run_conv(conv, &d);
  int8_t* kept = (int8_t*)allocate(d.filter_bytes);
  memcpy(kept, d.filters, d.filter_bytes);
  memset(d.filters, 3, d.filter_bytes);
  run_conv(conv, &d);
  memcpy(d.filters, kept, d.filter_bytes);
  check_outputs(&d, 0);
  free(kept);
  zo_conv_free(conv);
  free_layer(&d);
}

/* Distances of such layers do not fit; nothing is computed for them. */
static void test_layers_that_are_too_large(const zo_kernel_set* set) {
  const zo_multiplier half = {INT32_C(1) << 30, 0};
  zo_layer layer = {
      {1, 30000, 30000, 1, 30000, 30000, 1, 1, 1, 1, 1, 1, 0, 0}, 1, 0, &half, 0, INT8_MIN, INT8_MAX, false, 1};
  CHECK(zo_conv_create(set, &layer) == NULL);
  CHECK(zo_depthwise_conv_create(set, &layer) == NULL);
  layer.window.height = layer.window.width = layer.window.out_height = layer.window.out_width = 2;
  layer.window.filter_height = layer.window.filter_width = 2;
  layer.window.dilation_height = layer.window.dilation_width = INT32_MAX;
  CHECK(zo_conv_create(set, &layer) == NULL);
  CHECK(zo_depthwise_conv_create(set, &layer) == NULL);
}

static void test_add(const zo_kernel_set* set) {
  for (int round = 0; round < kRounds; ++round) {
    const size_t count = (size_t)between(1, 100);
    int8_t *a = bytes_of(count), *b = bytes_of(count), *y = (int8_t*)allocate(count);
    zo_add add;
    memset(&add, 0, sizeof add);
    add.x[0] = a;
    add.x[1] = b;
    add.y = y;
    add.count = count;
    zo_layer range;
    memset(&range, 0, sizeof range);
    for (int i = 0; i < 2; ++i) {
      add.offset[i] = -end_or(between(-128, 127));
      add.input[i] = any_multiplier(1);
      const zo_multiplier half = {INT32_C(1) << 30, 0};
      if (draw() & 1u) add.input[i] = half;
    }
    add.output = any_multiplier(1);
    if (draw() & 1u) add.output.shift = between(-24, -16);
    add.zero_point = range.zero_point = end_or(between(-128, 127));
    add.min = range.min = draw() & 1u ? INT8_MIN : add.zero_point;
    add.max = range.max = INT8_MAX;
    set->add(&add);
    for (size_t i = 0; i < count; ++i) {
      const int64_t sum = requantized((a[i] + add.offset[0]) * (INT32_C(1) << 20), add.input[0]) +
                          requantized((b[i] + add.offset[1]) * (INT32_C(1) << 20), add.input[1]);
      CHECK(y[i] == output_of(sum, add.output, &range));
    }
    free(a);
    free(b);
    free(y);
  }
}

static int8_t pooled(const zo_pool* pool, const int8_t* x, int32_t y, int32_t column, int32_t c) {
  const zo_window* w = &pool->window;
  int32_t sum = 0, count = 0, largest = INT8_MIN;
  for (int32_t i = 0; i < w->filter_height; ++i) {
    for (int32_t j = 0; j < w->filter_width; ++j) {
      const int32_t in_y = y * w->stride_height - w->pad_top + i;
      const int32_t in_x = column * w->stride_width - w->pad_left + j;
      if (in_y < 0 || in_y >= w->height || in_x < 0 || in_x >= w->width) continue;
      const int32_t value = x[(in_y * w->width + in_x) * w->channels + c];
      sum += value;
      ++count;
      if (value > largest) largest = value;
    }
  }
  const int32_t size = sum < 0 ? -sum : sum, mean = (2 * size + count) / (2 * count);
  int32_t result = !pool->average ? largest : sum < 0 ? -mean : mean;
  if (result < pool->min) result = pool->min;
  if (result > pool->max) result = pool->max;
  return (int8_t)result;
}

static void test_pool(void) {
  for (int round = 0; round < kRounds; ++round) {
    zo_pool pool;
    pool.window = any_window();
    zo_window* w = &pool.window;
    w->dilation_height = w->dilation_width = 1;
    w->pad_top = between(0, w->filter_height - 1);
    w->pad_left = between(0, w->filter_width - 1);
    w->out_height = between(1, 1 + (w->height + w->pad_top - 1) / w->stride_height);
    w->out_width = between(1, 1 + (w->width + w->pad_left - 1) / w->stride_width);
    pool.average = draw() & 1u;
    pool.min = between(-128, 0);
    pool.max = between(1, 127);
    void* scratch = allocate(zo_pool_scratch_bytes(&pool));
    const size_t image = (size_t)(w->height * w->width * w->channels);
    int8_t* x = bytes_of((size_t)w->samples * image);
    int8_t* y = (int8_t*)allocate((size_t)(w->samples * w->out_height * w->out_width * w->channels));
    zo_pool_run(&pool, x, w->samples, scratch, y);
    const int8_t* next = y;
    for (int32_t s = 0; s < w->samples; ++s) {
      for (int32_t i = 0; i < w->out_height; ++i) {
        for (int32_t j = 0; j < w->out_width; ++j) {
          for (int32_t c = 0; c < w->channels; ++c) {
            CHECK(*next++ == pooled(&pool, x + (size_t)s * image, i, j, c));
          }
        }
      }
    }
    free(scratch);
    free(x);
    free(y);
  }
}

int main(void) {
  CHECK(zo_kernel_set_of("none of these") == NULL);
  CHECK(zo_kernel_set_of("portable") != NULL);
  test_pool();
  test_softmax();
  test_recurrent();
  for (int i = 0; zo_kernel_set_names[i] != NULL; ++i) {
    const zo_kernel_set* set = zo_kernel_set_of(zo_kernel_set_names[i]);
    if (set == NULL) {
      printf("*** SKIPPED: this machine has no %s\n", zo_kernel_set_names[i]);
      continue;
    }
    CHECK(strcmp(set->name, zo_kernel_set_names[i]) == 0);
    test_conv(set);
    test_depthwise(set);
    test_constant_filters(set);
    test_layers_that_are_too_large(set);
    test_add(set);
    test_weights(set);
    test_layers(set);
    printf("%s\n", set->name);
  }
  printf("%lu checks\n", checks);
  return 0;
}
