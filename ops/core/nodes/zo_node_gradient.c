/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/nodes/zo_node_gradient.h"

#include <string.h>

#include "ops/core/kernels/zo_add_by_signs.h"
#include "ops/core/kernels/zo_add_products.h"
#include "ops/core/kernels/zo_weight_loops.h"
#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_sign_reader.h"

#if ZO_DENSE_CHANNELS > 0u && ZO_MVE
#include "ops/core/kernels/zo_dense_errors_mve.h"
#elif ZO_DENSE_CHANNELS > 0u
#include "ops/core/kernels/zo_dense_errors_dsp.h"
#endif

/* Nodes whose errors are summed over queries together, at most: those of a word of signs. */
#define ERRORS_CHUNK ZO_SIGNS

/* Outputs that are credited in one pass over G. */
#define CREDITS 32u

/* Keeps sums over ZO_MAX_QUERIES differences in int32_t. */
#define NODE_DIFFERENCE_MAX (INT32_C(1) << 25)
#define NODE_ERROR_MAX 32767

/* --- Errors ------------------------------------------------------------------ */

static int32_t clipped_difference(const zo_node_evidence* evidence, uint32_t query, uint32_t sample) {
  return zo_clamp(evidence->differences[(size_t)query * evidence->samples + sample], -NODE_DIFFERENCE_MAX,
                  NODE_DIFFERENCE_MAX);
}

/* Largest |e| of a sample whose errors are given. */
static int32_t largest_of_sample(const zo_node_gradient* g, uint32_t sample) {
  const uint32_t nodes = zo_node_count(g->layer);
  return zo_largest_magnitude(g->evidence->errors + (size_t)sample * nodes, nodes);
}

/* Whether errors are given, in a build that has exact tasks. */
static int has_errors(const zo_node_evidence* evidence) { return ZO_WITH_EXACT_TASKS && evidence->errors != NULL; }

static int32_t exponent_of(const zo_node_evidence* evidence, uint32_t sample) {
  return !has_errors(evidence) || evidence->exponents == NULL ? 0 : evidence->exponents[sample];
}

/* Largest |e| that there may be, in a unit of 2^shift, rounded up: with given errors the shift
 * begins at the largest exponent of a sample that has any. */
static int32_t largest_error(zo_node_gradient* g) {
  const zo_node_evidence* evidence = g->evidence;
  int32_t largest = 0;
  if (has_errors(evidence)) {
    for (uint32_t b = 0; b < evidence->samples; ++b) {
      int32_t own = largest_of_sample(g, b);
      if (own == 0) continue;
      const int32_t exponent = exponent_of(evidence, b);
      if (largest == 0) g->shift = exponent;
      for (; g->shift < exponent; ++g->shift) largest = (largest + 1) >> 1;
      for (int32_t x = exponent; x < g->shift && own > 1; ++x) own = (own + 1) >> 1;
      if (own > largest) largest = own;
    }
    return largest;
  }
  for (uint32_t b = 0; b < evidence->samples; ++b) {
    int32_t sum = 0;
    for (uint32_t q = 0; q < evidence->queries; ++q) {
      const int32_t d = clipped_difference(evidence, q, b);
      sum += d < 0 ? -d : d;
    }
    if (sum > largest) largest = sum;
  }
  return largest;
}

/* How far errors are shifted. Returns 0 if no shift would do. */
static int find_gradient_shift(zo_node_gradient* g) {
  const zo_node_layer* layer = g->layer;
  const uint32_t credited = zo_node_is_mean(layer) ? layer->out_h * layer->out_w : g->positions;
  const uint64_t terms = (uint64_t)g->evidence->samples * credited; /* credited: at most 2^24 */
  if (terms > INT32_MAX / 255) return 0;
  int32_t limit = INT32_MAX / ((int32_t)terms * 255);
  if (limit > NODE_ERROR_MAX) limit = NODE_ERROR_MAX;
  g->shift = 0;
  int32_t largest = largest_error(g);
  while (largest > limit) { /* rounded up: half up may reach it */
    ++g->shift;
    largest = (largest + 1) >> 1;
  }
  return 1;
}

#if ZO_DENSE_CHANNELS > 0u || ZO_FORM_PRODUCTS
/* Whether the window of a layer with one node a channel is all of the inputs. */
static int has_whole_window(const zo_node_layer* l) {
  return l->k_h == l->in_h && l->k_w == l->in_w && l->pad_top == 0u && l->pad_left == 0u;
}
#endif

#if ZO_DENSE_CHANNELS > 0u
/* Whether each channel has one node, whose window is all of the inputs, and enough channels are
 * held at once. */
static int can_group(const zo_node_gradient* g) {
  const zo_node_layer* l = g->layer;
  return l->form == ZO_NODES_PLAIN && !zo_node_is_depthwise(l) && g->positions == 1u && has_whole_window(l) &&
         g->row >= ZO_NODE_COLUMNS * ZO_DENSE_CHANNELS && g->row <= ZO_DENSE_APART_MAX &&
         2u * g->together >= ZO_DENSE_CHANNELS;
}
#endif

int zo_node_gradient_begin(zo_node_gradient* g, const zo_node_layer* layer, const zo_node_evidence* evidence) {
  g->layer = layer;
  g->evidence = evidence;
  g->positions = layer->node_h * layer->node_w;
  g->row = zo_node_row(layer);
  const uint64_t of_channel = (uint64_t)evidence->samples * g->positions;
  g->together = of_channel <= ZO_NODE_ERRORS ? ZO_NODE_ERRORS / (uint32_t)of_channel : 0u;
  g->dense = of_channel == 1u && layer->form == ZO_NODES_PLAIN && !zo_node_is_depthwise(layer);
  g->first = 0;
  g->held = 0;
#if ZO_DENSE_CHANNELS > 0u
  g->grouped = of_channel > 1u && can_group(g);
  if (g->grouped && g->together >= ZO_DENSE_CHANNELS) { /* groups that are full */
    g->together -= g->together % ZO_DENSE_CHANNELS;
  }
#endif
  return find_gradient_shift(g);
}

#if ZO_KERNEL_SETS
/* form_errors of queries, by a desktop's loops; returns 0 if there are none. */
static int sum_by_loops(const zo_node_evidence* evidence, uint32_t sample, uint32_t first, uint32_t count,
                        uint32_t shift, int16_t* errors) {
  const zo_weight_loops* loops = zo_weight_loops_of_machine();
  if (loops == NULL) return 0;
  int32_t sums[ZO_NODE_ERRORS], differences[ZO_MAX_QUERIES];
  for (uint32_t q = 0; q < evidence->queries; ++q) {
    differences[q] = clipped_difference(evidence, q, sample);
  }
  zo_loops_sum_signs(loops, evidence->seeds, differences, evidence->queries, ZO_NODE_STREAM + sample, first, count,
                     sums);
  for (uint32_t j = 0; j < count; ++j) errors[j] = (int16_t)zo_half_up(sums[j], shift);
  return 1;
}
#endif

/* form_errors of given errors. */
static void take_errors(const zo_node_gradient* g, uint32_t sample, uint32_t first, uint32_t count, uint32_t shift,
                        int16_t* errors, uint32_t apart) {
  const uint32_t channels = g->layer->out_c;
  const int16_t* from = g->evidence->errors + (size_t)sample * g->positions * channels;
  uint32_t channel = first / g->positions, position = first % g->positions;
  for (uint32_t j = 0; j < count; ++j, errors += apart) {
    *errors = (int16_t)zo_half_up(from[(size_t)position * channels + channel], shift);
    if (++position == g->positions) {
      position = 0;
      ++channel;
    }
  }
}

/* Errors of nodes [first, first + count) of a sample, a channel's nodes next to each other, written
 * so many values apart; count is ZO_NODE_ERRORS at most. */
static void form_errors(const zo_node_gradient* g, uint32_t sample, uint32_t first, uint32_t count, int16_t* errors,
                        uint32_t apart) {
  const zo_node_evidence* evidence = g->evidence;
  const uint32_t shift = zo_node_error_shift(g->shift, exponent_of(evidence, sample));
  if (has_errors(evidence)) {
    take_errors(g, sample, first, count, shift, errors, apart);
    return;
  }
#if ZO_KERNEL_SETS
  if (sum_by_loops(evidence, sample, first, count, shift, errors)) return;
#endif
  uint32_t words[ZO_MAX_QUERIES] = {0}; /* compilers do not see that the first i is 0 */
  for (uint32_t i = 0, size = 0; i < count; i += size) {
    const uint32_t used = (first + i) % ERRORS_CHUNK; /* of the word of signs */
    size = count - i < ERRORS_CHUNK - used ? count - i : ERRORS_CHUNK - used;
    int32_t sums[ERRORS_CHUNK];
    memset(sums, 0, sizeof sums);
    for (uint32_t q = 0; q < evidence->queries; ++q) {
      words[q] = i == 0u || (first + i) % ZO_STREAM_TILE == 0u
                     ? zo_sign_word(evidence->seeds[q], ZO_NODE_STREAM + sample, first + i)
                     : zo_stream_next(words[q]);
      zo_add_by_signs(sums, size, words[q] >> used, clipped_difference(evidence, q, sample));
    }
    for (uint32_t j = 0; j < size; ++j) {
      *errors = (int16_t)zo_half_up(sums[j], shift);
      errors += apart;
    }
  }
}

/* Sees to it that the errors of a channel are among those held. */
static void hold_errors(zo_node_gradient* g, uint32_t channel) {
  if (channel - g->first < g->held) return;
  const uint32_t left = g->layer->out_c - channel;
  g->first = channel;
  g->held = left < g->together ? left : g->together;
  const uint32_t nodes = g->held * g->positions;
  for (uint32_t b = 0; b < g->evidence->samples; ++b) {
    form_errors(g, b, channel * g->positions, nodes, g->errors + (size_t)b * nodes, 1);
  }
}

int16_t* zo_node_gradient_held(zo_node_gradient* g, uint32_t channel, uint32_t* end) {
  const uint8_t* routes = g->evidence->routes;
  if (channel - g->first >= g->held) {
    hold_errors(g, channel);
    for (uint32_t j = 0; routes != NULL && j < g->held; ++j) {
      if (routes[channel + j] == ZO_ROUTE_CLAMPED) g->errors[j] = 0;
    }
  }
  *end = g->first + g->held;
  return g->errors + (channel - g->first);
}

#if ZO_DENSE_CHANNELS > 0u
#if defined(ZO_SIGN_SAMPLES)
/* form_samples along a few directions. */
static void form_by_vectors(zo_node_gradient* g, uint32_t first, uint32_t count) {
  const zo_node_evidence* evidence = g->evidence;
  const uint32_t samples = evidence->samples;
  const uint32_t shift = g->shift < 31 ? (uint32_t)g->shift : 31u;
  zo_sign_query queries[ZO_SIGN_QUERIES];
  for (uint32_t b = 0; b < samples; b += ZO_SIGN_SAMPLES) {
    const uint32_t lanes = samples - b < ZO_SIGN_SAMPLES ? samples - b : ZO_SIGN_SAMPLES;
    int32_t all[ZO_SIGN_SAMPLES] = {0, 0, 0, 0};
    for (uint32_t i = 0, size = 0; i < count; i += size) {
      const uint32_t used = (first + i) % ERRORS_CHUNK;
      size = count - i < ERRORS_CHUNK - used ? count - i : ERRORS_CHUNK - used;
      for (uint32_t q = 0; q < evidence->queries; ++q) {
        for (uint32_t k = 0; k < lanes; ++k) {
          const int32_t d = clipped_difference(evidence, q, b + k);
          const uint32_t word = zo_sign_word(evidence->seeds[q], ZO_NODE_STREAM + b + k, first + i);
          queries[q].words[k] = word << (ERRORS_CHUNK - used - size);
          queries[q].twice[k] = -2 * d;
          if (i == 0u) all[k] += d;
        }
      }
      zo_sign_errors(g->errors + (size_t)i * samples + b, samples, size, lanes, all, queries, evidence->queries, shift);
    }
  }
}
#endif

/* form_errors of all samples of a layer with a node a channel, whose errors are to be next to each
 * other. */
static void form_samples(zo_node_gradient* g, uint32_t first, uint32_t count) {
  const zo_node_evidence* evidence = g->evidence;
  const uint32_t samples = evidence->samples;
#if defined(ZO_SIGN_SAMPLES)
  if (!has_errors(evidence) && evidence->queries <= ZO_SIGN_QUERIES) {
    form_by_vectors(g, first, count);
    return;
  }
#endif
  for (uint32_t b = 0; b < samples; ++b) form_errors(g, b, first, count, g->errors + b, samples);
}

/* Errors of a sample that its route clamps become 0: those of `count` nodes, so many values apart.
 */
static void clear_clamped(int16_t* errors, uint32_t apart, uint32_t count, const uint8_t* route) {
#if defined(ZO_SIGN_SAMPLES)
  zo_clear_clamped(errors, apart, count, route, ZO_ROUTE_CLAMPED);
#else
  for (uint32_t j = 0; j < count; ++j, errors += apart) {
    if (route[j] == ZO_ROUTE_CLAMPED) *errors = 0;
  }
#endif
}

/* hold, of a layer with a node a channel: the errors of a channel's samples are next to each other,
 * and clamped nodes have none. */
static void hold_samples(zo_node_gradient* g, uint32_t channel) {
  if (channel - g->first < g->held) return;
  const uint32_t samples = g->evidence->samples, left = g->layer->out_c - channel;
  const uint8_t* route = g->evidence->routes;
  g->first = channel;
  g->held = left < g->together ? left : g->together;
  form_samples(g, channel, g->held);
  if (route == NULL) return;
  for (uint32_t b = 0; b < samples; ++b, route += g->layer->out_c) {
    clear_clamped(g->errors + b, samples, g->held, route + channel);
  }
}

/* Sums of a channel's errors and of their magnitudes, which it returns. */
static int32_t sum_errors(zo_node_gradient* g, uint32_t channel, int32_t* sum) {
  hold_samples(g, channel);
  const uint32_t samples = g->evidence->samples;
  return zo_dense_sum_errors(g->errors + (channel - g->first) * samples, samples, sum);
}
#endif

/* --- Gradient of one output channel -------------------------------------------- */

/* Outputs of a channel that are credited, collected until there are enough of them: the input under
 * the first weight of each one's window, and e. */
typedef struct crediting {
  const zo_node_layer* layer;
  int32_t* gradient;
  uint32_t count;
  int any;
  zo_product credits[CREDITS];
} crediting;

static void begin_gradient(crediting* to) {
  if (!to->any) memset(to->gradient, 0, (size_t)zo_node_row(to->layer) * sizeof to->gradient[0]);
  to->any = 1;
}

/* Credits the collected windows, complete ones, a row of theirs at a time. */
static void credit_windows(crediting* to) {
  const zo_node_layer* l = to->layer;
  if (to->count == 0u) return;
  const uint32_t depth = zo_node_depth(l);
  const uint32_t run = l->dilation_w == 1u && depth == l->in_c ? l->k_w : 1u;
  for (uint32_t i = 0; i < l->k_h; ++i) {
    for (uint32_t j = 0; j < l->k_w; j += run) {
      zo_add_products(to->gradient + (size_t)(i * l->k_w + j) * depth, run * depth, to->credits, to->count,
                      (size_t)(i * l->dilation_h * l->in_w + j * l->dilation_w) * l->in_c, l->input_zero_point);
    }
  }
  to->count = 0;
}

/* Credits the part of a window that is inside the image. */
static void credit_part(const crediting* to, const int8_t* inputs, uint32_t top, uint32_t left, int32_t error) {
  const zo_node_layer* l = to->layer;
  const zo_product one = {inputs, error};
  const uint32_t depth = zo_node_depth(l);
  for (uint32_t i = 0; i < l->k_h; ++i) {
    /* Outside on the upper side: wraps to a row far below the image. */
    const uint32_t row = top + i * l->dilation_h;
    if (row >= l->in_h) continue;
    uint32_t run;
    for (uint32_t j = 0; j < l->k_w; j += run) {
      const uint32_t column = left + j * l->dilation_w;
      run = 1;
      if (column >= l->in_w) continue;
      if (l->dilation_w == 1u && depth == l->in_c) {
        run = l->in_w - column < l->k_w - j ? l->in_w - column : l->k_w - j;
      }
      zo_add_products(to->gradient + (size_t)(i * l->k_w + j) * depth, run * depth, &one, 1,
                      ((size_t)row * l->in_w + column) * l->in_c, l->input_zero_point);
    }
  }
}

/* Credits neighbouring outputs of a depthwise channel, one weight after the other. */
static void credit_depthwise(crediting* to, const int8_t* inputs, uint32_t first, uint32_t count,
                             const int16_t* errors) {
  const zo_node_layer* l = to->layer;
  const size_t apart = (size_t)l->stride_w * l->in_c;
  const uint32_t top = first / l->out_w * l->stride_h - l->pad_top, left = first % l->out_w;
  int32_t* gradient = to->gradient;
  begin_gradient(to);
  for (uint32_t i = 0; i < l->k_h; ++i) {
    for (uint32_t j = 0; j < l->k_w * l->dilation_w; j += l->dilation_w) {
      /* Outputs of a row whose windows have this element inside of the image. */
      const uint32_t begin = j < l->pad_left ? (l->pad_left - j + l->stride_w - 1u) / l->stride_w : 0u;
      const uint32_t end = l->in_w + l->pad_left > j ? (l->in_w + l->pad_left - j - 1u) / l->stride_w + 1u : 0u;
      uint32_t row = top + i * l->dilation_h, w = left;
      int32_t sum = 0;
      for (uint32_t at = 0; at < count; row += l->stride_h) {
        const uint32_t own = l->out_w - w < count - at ? l->out_w - w : count - at;
        const uint32_t from = w > begin ? w : begin, to_w = w + own < end ? w + own : end;
        if (row < l->in_h && from < to_w) {
          const int16_t* e = errors + at + (from - w);
          const int8_t* x = inputs + ((size_t)row * l->in_w + (from * l->stride_w + j - l->pad_left)) * l->in_c;
          for (const int16_t* last = e + (to_w - from); e < last; ++e, x += apart)
            sum += *e * (*x - l->input_zero_point);
        }
        at += own;
        w = 0;
      }
      *gradient++ += sum;
    }
  }
}

/* Credits the output at (h, w). */
static void credit_output(crediting* to, const int8_t* inputs, uint32_t h, uint32_t w, int32_t error) {
  const zo_node_layer* l = to->layer;
  const uint32_t top = h * l->stride_h - l->pad_top;
  const uint32_t left = w * l->stride_w - l->pad_left;
  begin_gradient(to);
  if (top >= l->in_h || left >= l->in_w || l->in_h - top <= (l->k_h - 1u) * l->dilation_h ||
      l->in_w - left <= (l->k_w - 1u) * l->dilation_w) {
    credit_part(to, inputs, top, left, error);
    return;
  }
  zo_product* c = &to->credits[to->count++];
  c->row = inputs + ((size_t)top * l->in_w + left) * l->in_c;
  c->factor = error;
  if (to->count == CREDITS) credit_windows(to);
}

/* Adds a node's error to the gradients of the outputs that are not clamped, of which the node is the mean, and
 * returns their number. Without gradients (to is NULL) it only returns the number. */
static int32_t credit_mean(const zo_node_layer* layer, const int8_t* inputs, const uint8_t* route, uint32_t channel,
                           int32_t error, crediting* to) {
  const uint32_t outputs = layer->out_h * layer->out_w;
  const uint8_t* bits = route + (size_t)channel * ((outputs + 7u) / 8u);
  int32_t count = 0;
  uint32_t p = 0;
  for (uint32_t h = 0; h < layer->out_h; ++h) {
    for (uint32_t w = 0; w < layer->out_w; ++w, ++p) {
      if (((uint32_t)bits[p / 8u] >> (p % 8u) & 1u) == 0u) continue;
      ++count;
      if (to != NULL) credit_output(to, inputs, h, w, error);
    }
  }
  return count;
}

static int32_t credit_node(const zo_node_layer* layer, const int8_t* inputs, const uint8_t* route, uint32_t node,
                           uint32_t channel, int32_t error, crediting* to) {
  if (zo_node_is_mean(layer)) {
    return credit_mean(layer, inputs, route, channel, error, to);
  }
  const uint32_t at = route == NULL ? 0u : route[(size_t)node * layer->out_c + channel];
  if (at == ZO_ROUTE_CLAMPED) return 0;
  if (to == NULL) return 1;
  uint32_t h = node / layer->node_w;
  uint32_t w = node % layer->node_w;
  if (zo_node_is_max_pool(layer)) {
    h = h * layer->pool_stride_h + at / layer->pool_w - layer->pool_pad_top;
    w = w * layer->pool_stride_w + at % layer->pool_w - layer->pool_pad_left;
    if (h >= layer->out_h || w >= layer->out_w) return 1; /* no route of this layer */
  }
  credit_output(to, inputs, h, w, error);
  return 1;
}

/* Credits all errors of a channel and sums them up; without a gradient, returns the sum over
 * samples and credited positions of |e|: with no factor of 255, far within 31 bits. */
static int32_t credit_channel(zo_node_gradient* g, uint32_t channel, crediting* to) {
  const zo_node_evidence* evidence = g->evidence;
  const size_t input_bytes = zo_node_input_bytes(g->layer);
  const size_t route_bytes = zo_node_route_bytes(g->layer);
  const uint32_t input_channel = zo_node_is_depthwise(g->layer) ? channel / (g->layer->out_c / g->layer->in_c) : 0u;
  if (g->together != 0u) hold_errors(g, channel);
  int32_t sum = 0;
  g->sum = 0;
  for (uint32_t b = 0; b < evidence->samples; ++b) {
    /* Of a depthwise layer, of the one channel that is read. */
    const int8_t* inputs = to == NULL ? NULL : evidence->inputs + b * input_bytes + input_channel;
    const uint8_t* route = evidence->routes == NULL ? NULL : evidence->routes + b * route_bytes;
    int16_t* errors = g->errors;
    if (g->together != 0u) {
      errors += (size_t)(b * g->held + (channel - g->first)) * g->positions;
    }
    for (uint32_t first = 0; first < g->positions; first += ZO_NODE_ERRORS) {
      const uint32_t left = g->positions - first;
      const uint32_t count = left < ZO_NODE_ERRORS ? left : ZO_NODE_ERRORS;
      if (g->together == 0u) {
        form_errors(g, b, channel * g->positions + first, count, g->errors, 1);
      }
      if (to != NULL && zo_node_is_depthwise(g->layer) && g->layer->form == ZO_NODES_PLAIN) {
        int32_t own = 0;
        for (uint32_t j = 0; j < count; ++j) {
          if (route != NULL && route[(size_t)(first + j) * g->layer->out_c + channel] == ZO_ROUTE_CLAMPED)
            errors[j] = 0;
          own += errors[j] < 0 ? -errors[j] : errors[j];
          g->sum += errors[j];
        }
        sum += own;
        if (own != 0) credit_depthwise(to, inputs, first, count, errors);
        continue;
      }
      for (uint32_t j = 0; j < count; ++j) {
        const int32_t e = errors[j];
        if (e == 0) continue;
        const int32_t outputs = credit_node(g->layer, inputs, route, first + j, channel, e, to);
        sum += (e < 0 ? -e : e) * outputs;
        g->sum += e * outputs;
      }
    }
  }
  return sum;
}

int32_t zo_node_gradient_errors(zo_node_gradient* g, uint32_t channel) {
#if ZO_DENSE_CHANNELS > 0u
  if (g->grouped) return sum_errors(g, channel, &g->sum);
#endif
  return credit_channel(g, channel, NULL);
}

#if ZO_FORM_PRODUCTS
/* zo_node_gradient_form if G is e times all of the inputs. */
static int form_product(zo_node_gradient* g, uint32_t channel, int32_t* gradient) {
  uint32_t end;
  const int32_t e = *zo_node_gradient_held(g, channel, &end);
  g->sum = e;
  g->largest = 255 * (e < 0 ? -e : e);
  if (e == 0) return 0;
  zo_form_products(gradient, g->row, g->evidence->inputs, e, g->layer->input_zero_point);
  return 1;
}
#endif

int zo_node_gradient_form(zo_node_gradient* g, uint32_t channel, int32_t* gradient) {
#if ZO_FORM_PRODUCTS
  if (g->dense && has_whole_window(g->layer)) return form_product(g, channel, gradient);
#endif
#if ZO_KERNEL_SETS
  if (g->formed != NULL) {
    g->largest = 255 * zo_gradients_row(g->formed, channel, gradient, &g->sum);
    return g->largest != 0;
  }
#endif
  crediting to;
  to.layer = g->layer;
  to.gradient = gradient;
  to.count = 0;
  to.any = 0;
  g->largest = 255 * credit_channel(g, channel, &to);
  credit_windows(&to);
  return to.any;
}

/* --- Gradient of several output channels -------------------------------------------- */

#if ZO_DENSE_CHANNELS > 0u
void zo_node_group_add(zo_node_gradient* g, zo_node_group* group, uint32_t channel, int zeros) {
  const uint32_t i = group->count;
  const int32_t magnitudes = sum_errors(g, channel, &group->sums[i]);
  if (magnitudes == 0 && !zeros) return;
  ++group->count;
  group->channels[i] = channel;
  group->largest[i] = 255 * magnitudes;
}

void zo_node_group_form(zo_node_gradient* g, zo_node_group* group, uint32_t first, uint32_t count, int32_t* gradient,
                        uint32_t apart) {
  const uint32_t all = g->evidence->samples;
  zo_dense_inputs inputs = {g->evidence->inputs + first, g->row, all, g->layer->input_zero_point};
  for (uint32_t b = 0; b < all; b += ZO_DENSE_SAMPLES) {
    inputs.samples = all - b < ZO_DENSE_SAMPLES ? all - b : ZO_DENSE_SAMPLES;
    if (first == 0u || all > ZO_DENSE_SAMPLES) {
      for (uint32_t i = 0; i < group->count; ++i) {
        const int16_t* e = g->errors + (group->channels[i] - g->first) * all + b;
        zo_dense_set_errors(&group->block, i, e, inputs.samples);
      }
    }
    zo_dense_sums(gradient, apart, count, group->count, &group->block, &inputs, b > 0u);
    inputs.first += ZO_DENSE_SAMPLES * inputs.apart;
  }
}
#endif

/* --- Choice of output channels --------------------------------------------------- */

static uint32_t count_from(const int32_t* sums, uint32_t channels, int32_t threshold) {
  uint32_t count = 0;
  for (uint32_t c = 0; c < channels; ++c) count += (uint32_t)(sums[c] >= threshold);
  return count;
}

void zo_node_gradient_choose(zo_node_gradient* g, uint32_t rows, int32_t* chosen) {
  const uint32_t channels = g->layer->out_c;
  for (uint32_t c = 0; c < channels; ++c) chosen[c] = zo_node_gradient_errors(g, c);
  /* The largest threshold that enough channels reach, bit by bit. */
  int32_t threshold = 0;
  uint32_t equals = rows; /* that are still to be chosen of those at the threshold */
  for (int32_t bit = INT32_C(1) << 29; bit != 0; bit >>= 1) {
    const uint32_t count = count_from(chosen, channels, threshold + bit);
    if (count >= rows) {
      threshold += bit;
    } else {
      equals = rows - count; /* in the end, of the threshold + 1 */
    }
  }
  for (uint32_t c = 0; c < channels; ++c) {
    if (chosen[c] != threshold) {
      chosen[c] = chosen[c] > threshold;
    } else {
      chosen[c] = equals > 0u;
      equals -= (uint32_t)(equals > 0u);
    }
  }
}
