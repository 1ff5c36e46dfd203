/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/nodes/zo_node_layer.h"

#include <string.h>

#include "ops/core/kernels/zo_weight_loops.h"
#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_sign_reader.h"

/* Tests for clamped outputs: none in a layer that is not masked. */
typedef struct clamps {
  int32_t low;
  int32_t high;
} clamps;

static clamps clamps_of(const zo_node_layer* layer) {
  clamps c;
  c.low = layer->unmasked != 0u ? -129 : layer->low;
  c.high = layer->unmasked != 0u ? 128 : layer->high;
  return c;
}

static int is_clamped(clamps c, int32_t value) { return value <= c.low || value >= c.high; }

#if ZO_WITH_CHECKS

/* Bounds that keep every product of sizes in 32 bits. */
#define SIDE_MAX UINT32_C(4096)
#define CHANNELS_MAX UINT32_C(65536)
#define BYTES_MAX (UINT64_C(1) << 30)

static int in_range(uint32_t value, uint32_t low, uint32_t high) { return value >= low && value <= high; }

/* Every window holds at least one output. */
static int pooling_fits(uint32_t nodes, uint32_t window, uint32_t stride, uint32_t pad, uint32_t outputs) {
  return in_range(window, 1, 254) && in_range(stride, 1, SIDE_MAX) && pad < window &&
         (uint64_t)(nodes - 1u) * stride < (uint64_t)outputs + pad;
}

static int has_form(const zo_node_layer* l) {
  return l->form == ZO_NODES_PLAIN || zo_node_is_max_pool(l) || zo_node_is_mean(l);
}

zo_status zo_node_layer_check(const zo_node_layer* l) {
  if (l == NULL || !has_form(l)) return ZO_ERROR_ARGUMENT;
  const uint32_t sides[] = {l->in_h,       l->in_w,       l->k_h,   l->k_w,   l->stride_h, l->stride_w,
                            l->dilation_h, l->dilation_w, l->out_h, l->out_w, l->node_h,   l->node_w};
  for (uint32_t i = 0; i < sizeof sides / sizeof sides[0]; ++i) {
    if (!in_range(sides[i], 1, SIDE_MAX)) return ZO_ERROR_ARGUMENT;
  }
  int valid = in_range(l->in_c, 1, CHANNELS_MAX) && in_range(l->out_c, 1, CHANNELS_MAX) && l->pad_top < SIDE_MAX &&
              l->pad_left < SIDE_MAX && (uint64_t)l->in_h * l->in_w * l->in_c <= BYTES_MAX &&
              (uint64_t)l->out_h * l->out_w * l->out_c <= BYTES_MAX &&
              (uint64_t)l->node_h * l->node_w * l->out_c <= BYTES_MAX &&
              (uint64_t)l->k_h * l->k_w * l->in_c <= BYTES_MAX && l->input_zero_point >= -128 &&
              l->input_zero_point <= 127 && l->low >= -129 && l->low <= 127 && l->high >= -128 && l->high <= 128 &&
              l->unmasked <= 1u && l->depthwise <= (ZO_WITH_DEPTHWISE ? 1u : 0u);
  if (l->depthwise == 1u) valid = valid && l->out_c % l->in_c == 0u;
  if (l->form == ZO_NODES_PLAIN) {
    valid = valid && l->node_h == l->out_h && l->node_w == l->out_w;
  } else if (l->form == ZO_NODES_MEAN) {
    valid = valid && l->node_h == 1u && l->node_w == 1u;
  } else {
    valid = valid && pooling_fits(l->node_h, l->pool_h, l->pool_stride_h, l->pool_pad_top, l->out_h) &&
            pooling_fits(l->node_w, l->pool_w, l->pool_stride_w, l->pool_pad_left, l->out_w) &&
            l->pool_h * l->pool_w <= 254u;
  }
  return valid ? ZO_OK : ZO_ERROR_ARGUMENT;
}

#endif

uint32_t zo_node_count(const zo_node_layer* layer) { return layer->node_h * layer->node_w * layer->out_c; }

uint32_t zo_node_input_bytes(const zo_node_layer* layer) { return layer->in_h * layer->in_w * layer->in_c; }

uint32_t zo_node_route_bytes(const zo_node_layer* layer) {
  return zo_node_is_mean(layer) ? layer->out_c * ((layer->out_h * layer->out_w + 7u) / 8u) : zo_node_count(layer);
}

uint32_t zo_node_row(const zo_node_layer* layer) { return layer->k_h * layer->k_w * zo_node_depth(layer); }

static void route_plain(const zo_node_layer* layer, const int8_t* outputs, uint8_t* route) {
  const clamps bounds = clamps_of(layer);
  const uint32_t count = zo_node_count(layer);
  for (uint32_t i = 0; i < count; ++i) {
    route[i] = is_clamped(bounds, outputs[i]) ? ZO_ROUTE_CLAMPED : 0u;
  }
}

/* The largest output of the window of node (h, w) in a channel, and its number. */
static uint8_t route_window(const zo_node_layer* l, const int8_t* outputs, uint32_t h, uint32_t w, uint32_t channel) {
  int32_t largest = -129;
  uint32_t at = 0;
  for (uint32_t i = 0; i < l->pool_h; ++i) {
    /* Above the image: wraps to a row far below it. */
    const uint32_t row = h * l->pool_stride_h + i - l->pool_pad_top;
    if (row >= l->out_h) continue;
    for (uint32_t j = 0; j < l->pool_w; ++j) {
      const uint32_t column = w * l->pool_stride_w + j - l->pool_pad_left;
      if (column >= l->out_w) continue;
      const int32_t value = outputs[(row * l->out_w + column) * l->out_c + channel];
      if (value > largest) {
        largest = value;
        at = i * l->pool_w + j;
      }
    }
  }
  return is_clamped(clamps_of(l), largest) ? (uint8_t)ZO_ROUTE_CLAMPED : (uint8_t)at;
}

static void route_max_pool(const zo_node_layer* layer, const int8_t* outputs, uint8_t* route) {
  for (uint32_t h = 0; h < layer->node_h; ++h) {
    for (uint32_t w = 0; w < layer->node_w; ++w) {
      for (uint32_t c = 0; c < layer->out_c; ++c) {
        *route++ = route_window(layer, outputs, h, w, c);
      }
    }
  }
}

static void route_mean(const zo_node_layer* layer, const int8_t* outputs, uint8_t* route) {
  const clamps bounds = clamps_of(layer);
  const uint32_t positions = layer->out_h * layer->out_w;
  const uint32_t bytes = (positions + 7u) / 8u;
  for (uint32_t first = 0; first < positions; first += 8u) {
    const uint32_t count = positions - first < 8u ? positions - first : 8u;
    const int8_t* const of_first = outputs + (size_t)first * layer->out_c;
    for (uint32_t c = 0; c < layer->out_c; ++c) {
      uint32_t bits = 0;
      for (uint32_t p = 0; p < count; ++p) {
        bits |= (uint32_t)!is_clamped(bounds, of_first[(size_t)p * layer->out_c + c]) << p;
      }
      route[(size_t)c * bytes + first / 8u] = (uint8_t)bits;
    }
  }
}

zo_status zo_route_nodes_s8(const zo_node_layer* layer, uint32_t samples, const int8_t* outputs, uint8_t* routes) {
  if (outputs == NULL || routes == NULL) return ZO_ERROR_ARGUMENT;
  const zo_status status = zo_node_layer_check(layer);
  if (status != ZO_OK) return status;
  const size_t stride = (size_t)layer->out_h * layer->out_w * layer->out_c;
  const size_t bytes = zo_node_route_bytes(layer);
  for (uint32_t i = 0; i < samples; ++i) {
    if (zo_node_is_max_pool(layer)) {
      route_max_pool(layer, outputs + i * stride, routes + i * bytes);
    } else if (zo_node_is_mean(layer)) {
      route_mean(layer, outputs + i * stride, routes + i * bytes);
    } else {
      route_plain(layer, outputs + i * stride, routes + i * bytes);
    }
  }
  return ZO_OK;
}

/* Perturbs the nodes of a sample, channel by channel. */
static void perturb_sample(const int8_t* from, int8_t* to, uint32_t count, uint32_t channels, zo_sign_reader signs,
                           int32_t k, clamps held, clamps kept) {
  /* Values that are not held: `free_values` of them, from `least` on. */
  const int32_t least = held.low + 1;
  const uint32_t free_values = held.high > least ? (uint32_t)(held.high - least) : 0u;
  uint32_t at = 0;
  for (uint32_t first = 0; first < count; first += 32u) {
    const uint32_t size = count - first < 32u ? count - first : 32u;
    uint32_t word = zo_sign_reader_next(&signs);
    for (uint32_t j = 0; j < size; ++j) {
      int32_t value = from[at];
      if ((uint32_t)(value - least) < free_values) {
        value = zo_clamp((word & 1u) != 0u ? value - k : value + k, kept.low, kept.high);
      }
      to[at] = (int8_t)value;
      word >>= 1;
      at += channels; /* the next position; behind the last one, the next channel's first */
      if (at >= count) at -= count - 1u;
    }
  }
}

zo_status zo_perturb_nodes_s8(const zo_node_layer* layer, uint32_t samples, uint32_t first_sample, const int8_t* nodes,
                              uint32_t seed, int32_t k, int8_t* perturbed) {
  if (nodes == NULL || perturbed == NULL) return ZO_ERROR_ARGUMENT;
  if (k < -127 || k > 127) return ZO_ERROR_FACTOR;
  const zo_status status = zo_node_layer_check(layer);
  if (status != ZO_OK) return status;
  const uint32_t count = zo_node_count(layer);
  /* A mean of outputs is not clamped if single outputs are. */
  const clamps none = {-129, 128};
  const clamps held = zo_node_is_mean(layer) ? none : clamps_of(layer);
  clamps kept = {-128, 127};
  if (!zo_node_is_mean(layer) && layer->low > kept.low) kept.low = layer->low;
  if (!zo_node_is_mean(layer) && layer->high < kept.high) kept.high = layer->high;
#if ZO_KERNEL_SETS
  const zo_weight_loops* loops = zo_weight_loops_of_machine();
  const zo_node_block block = {layer->node_h * layer->node_w, layer->out_c, held.low, held.high, kept.low, kept.high};
#endif
  for (uint32_t i = 0; i < samples; ++i) {
#if ZO_KERNEL_SETS
    if (loops != NULL && zo_loops_perturb_nodes(loops, &block, nodes + (size_t)i * count, seed,
                                                ZO_NODE_STREAM + first_sample + i, k, perturbed + (size_t)i * count)) {
      continue;
    }
#endif
    perturb_sample(nodes + (size_t)i * count, perturbed + (size_t)i * count, count, layer->out_c,
                   zo_sign_reader_of(seed, ZO_NODE_STREAM + first_sample + i), k, held, kept);
  }
  return ZO_OK;
}
