/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "zo_node_update.h"

#include <string.h>

#include "zo_apply_steps.h"
#include "zo_fixed_point.h"
#include "zo_moments.h"
#include "zo_pseudo_stochastic.h"
#include "zo_sign_reader.h"
#include "zo_update_bits.h"

/* Nodes whose errors are formed together. */
#define CHUNK 32u

/* Keeps sums over ZO_MAX_QUERIES differences in int32_t. */
#define DIFFERENCE_MAX (INT32_C(1) << 25)
#define ERROR_MAX INT64_C(32767)

/* G is squared in units of 2^8 and never beyond 2^21 of them: a million squares fit 64 bits. */
#define SQUARE_SHIFT 8u
#define SQUARE_MAX (INT32_C(1) << 21)

/* Weight of a new square in the running mean: 2^-5. */
#define MEAN_SQUARE_SHIFT 5u

/* Keeps sums of exponents in int32_t. */
#define GAIN_EXPONENT_MAX 1000

/* A standardized gradient: fraction bits at most, and what values with them stay below. */
#define STANDARD_BITS_MAX 16
#define STANDARD_MAX (UINT64_C(1) << 30)

typedef struct update {
  const zo_node_layer* layer;
  const zo_node_evidence* evidence;
  const zo_tensor* tensor;
  int32_t* gradient;     /* [row], of the channel at hand */
  const int32_t* chosen; /* [out_c], not zero: the channel is updated; null: all are */
  uint32_t positions;    /* nodes of a channel */
  uint32_t shift;        /* of errors */
  uint32_t row;          /* weights of an output channel */
  uint32_t size;         /* weights of the updated channels */
} update;

static uint32_t row_size(const zo_node_layer* layer) {
  return layer->k_h * layer->k_w * layer->in_c;
}

uint32_t zo_node_scratch_values(const zo_node_layer* layer) {
  return row_size(layer) + layer->out_c;
}

/* --- Errors ------------------------------------------------------------------ */

static int32_t clipped_difference(const zo_node_evidence* evidence, uint32_t query,
                                  uint32_t sample) {
  return zo_clamp(evidence->differences[(size_t)query * evidence->samples + sample],
                  -DIFFERENCE_MAX, DIFFERENCE_MAX);
}

/* Largest |e| that there may be. */
static int64_t largest_error(const update* u) {
  const zo_node_evidence* evidence = u->evidence;
  int64_t largest = 0;
  for (uint32_t b = 0; b < evidence->samples; ++b) {
    if (evidence->errors != NULL) {
      const uint32_t nodes = zo_node_count(u->layer);
      for (uint32_t i = 0; i < nodes; ++i) {
        const int32_t e = evidence->errors[(size_t)b * nodes + i];
        if (e > largest || -e > largest) largest = e < 0 ? -e : e;
      }
    } else {
      int64_t sum = 0;
      for (uint32_t q = 0; q < evidence->queries; ++q) {
        const int32_t d = clipped_difference(evidence, q, b);
        sum += d < 0 ? -d : d;
      }
      if (sum > largest) largest = sum;
    }
  }
  return largest;
}

/* How far errors are shifted, or 32 where no shift would do. */
static uint32_t error_shift(const update* u) {
  const zo_node_layer* layer = u->layer;
  const int64_t credited =
      layer->form == ZO_NODES_MEAN ? (int64_t)layer->out_h * layer->out_w : (int64_t)u->positions;
  int64_t limit = INT32_MAX / ((int64_t)u->evidence->samples * 255 * credited);
  if (limit > ERROR_MAX) limit = ERROR_MAX;
  if (limit == 0) return 32;
  int64_t largest = largest_error(u);
  uint32_t shift = 0;
  while (largest > limit) { /* rounded up: half up may reach it */
    ++shift;
    largest = (largest + 1) >> 1;
  }
  return shift;
}

static int32_t shifted(int32_t value, uint32_t shift) {
  return shift == 0u ? value : zo_floor_shift(value + (INT32_C(1) << (shift - 1u)), shift);
}

/* Errors of nodes [first, first + count) of a channel in one sample, count <= CHUNK. */
static void form_errors(const update* u, uint32_t sample, uint32_t channel, uint32_t first,
                        uint32_t count, int32_t* errors) {
  const zo_node_evidence* evidence = u->evidence;
  if (evidence->errors != NULL) {
    const uint32_t channels = u->layer->out_c;
    const int16_t* from = evidence->errors + (size_t)sample * u->positions * channels + channel;
    for (uint32_t j = 0; j < count; ++j) {
      errors[j] = shifted(from[(size_t)(first + j) * channels], u->shift);
    }
    return;
  }
  memset(errors, 0, count * sizeof errors[0]);
  for (uint32_t q = 0; q < evidence->queries; ++q) {
    zo_sign_reader signs = zo_sign_reader_at(evidence->seeds[q], ZO_NODE_STREAM + sample,
                                             channel * u->positions + first);
    const int32_t d = clipped_difference(evidence, q, sample);
    for (uint32_t j = 0; j < count; ++j) {
      errors[j] += zo_sign_reader_next(&signs) != 0u ? -d : d;
    }
  }
  for (uint32_t j = 0; j < count; ++j) errors[j] = shifted(errors[j], u->shift);
}

/* --- Gradient of one output channel -------------------------------------------- */

/* gradient += error * (input - zero_point). */
static void add_product(int32_t* restrict gradient, const int8_t* restrict input, uint32_t count,
                        int32_t zero_point, int32_t error) {
  for (uint32_t j = 0; j < count; ++j) gradient[j] += error * (input[j] - zero_point);
}

/* Credits the output at (h, w): the part of its receptive field that is inside the image. */
static void credit_output(const zo_node_layer* l, const int8_t* inputs, uint32_t h, uint32_t w,
                          int32_t error, int32_t* gradient) {
  for (uint32_t i = 0; i < l->k_h; ++i) {
    /* Outside on the upper side: wraps to a row far below the image. */
    const uint32_t row = h * l->stride_h + i * l->dilation_h - l->pad_top;
    if (row >= l->in_h) continue;
    for (uint32_t j = 0; j < l->k_w; ++j) {
      const uint32_t column = w * l->stride_w + j * l->dilation_w - l->pad_left;
      if (column >= l->in_w) continue;
      add_product(gradient + (size_t)(i * l->k_w + j) * l->in_c,
                  inputs + ((size_t)row * l->in_w + column) * l->in_c, l->in_c, l->input_zero_point,
                  error);
    }
  }
}

static void credit_mean(const update* u, const int8_t* inputs, const uint8_t* route,
                        uint32_t channel, int32_t error, int32_t* gradient) {
  const zo_node_layer* layer = u->layer;
  const uint32_t outputs = layer->out_h * layer->out_w;
  const uint8_t* bits = route + (size_t)channel * ((outputs + 7u) / 8u);
  for (uint32_t p = 0; p < outputs; ++p) {
    if (((uint32_t)bits[p / 8u] >> (p % 8u) & 1u) != 0u) {
      credit_output(layer, inputs, p / layer->out_w, p % layer->out_w, error, gradient);
    }
  }
}

static void credit_node(const update* u, const int8_t* inputs, const uint8_t* route, uint32_t node,
                        uint32_t channel, int32_t error, int32_t* gradient) {
  const zo_node_layer* layer = u->layer;
  if (layer->form == ZO_NODES_MEAN) {
    credit_mean(u, inputs, route, channel, error, gradient);
    return;
  }
  const uint32_t to = route == NULL ? 0u : route[(size_t)node * layer->out_c + channel];
  if (to == ZO_ROUTE_CLAMPED) return;
  uint32_t h = node / layer->node_w;
  uint32_t w = node % layer->node_w;
  if (layer->form == ZO_NODES_MAX_POOL) {
    h = h * layer->pool_stride_h + to / layer->pool_w - layer->pool_pad_top;
    w = w * layer->pool_stride_w + to % layer->pool_w - layer->pool_pad_left;
    if (h >= layer->out_h || w >= layer->out_w) return; /* no route of this layer */
  }
  credit_output(layer, inputs, h, w, error, gradient);
}

/* Outputs that a node of a channel credits in a sample. */
static int32_t credited_outputs(const update* u, const uint8_t* route, uint32_t node,
                                uint32_t channel) {
  const zo_node_layer* layer = u->layer;
  if (layer->form != ZO_NODES_MEAN) {
    return route == NULL || route[(size_t)node * layer->out_c + channel] != ZO_ROUTE_CLAMPED;
  }
  const uint32_t outputs = layer->out_h * layer->out_w;
  const uint8_t* bits = route + (size_t)channel * ((outputs + 7u) / 8u);
  int32_t count = 0;
  for (uint32_t p = 0; p < outputs; ++p) {
    count += (int32_t)((uint32_t)bits[p / 8u] >> (p % 8u) & 1u);
  }
  return count;
}

/* Credits all errors of a channel; without a gradient, returns the sum over samples and credited
 * positions of |e|: with no factor of 255, far within 31 bits. */
static int32_t credit_channel(const update* u, uint32_t channel, int32_t* gradient) {
  const zo_node_evidence* evidence = u->evidence;
  const size_t input_bytes = zo_node_input_bytes(u->layer);
  const size_t route_bytes = zo_node_route_bytes(u->layer);
  int32_t sum = 0;
  for (uint32_t b = 0; b < evidence->samples; ++b) {
    const int8_t* inputs = evidence->inputs + b * input_bytes;
    const uint8_t* route = evidence->routes == NULL ? NULL : evidence->routes + b * route_bytes;
    for (uint32_t first = 0; first < u->positions; first += CHUNK) {
      const uint32_t left = u->positions - first;
      const uint32_t count = left < CHUNK ? left : CHUNK;
      int32_t errors[CHUNK];
      form_errors(u, b, channel, first, count, errors);
      for (uint32_t j = 0; j < count; ++j) {
        const int32_t e = errors[j];
        if (e == 0) continue;
        if (gradient != NULL) {
          credit_node(u, inputs, route, first + j, channel, e, gradient);
        } else {
          sum += (e < 0 ? -e : e) * credited_outputs(u, route, first + j, channel);
        }
      }
    }
  }
  return sum;
}

static void form_gradient(const update* u, uint32_t channel) {
  memset(u->gradient, 0, u->row * sizeof u->gradient[0]);
  (void)credit_channel(u, channel, u->gradient);
}

/* --- Choice of output channels --------------------------------------------------- */

static uint32_t count_from(const int32_t* sums, uint32_t channels, int32_t threshold) {
  uint32_t count = 0;
  for (uint32_t c = 0; c < channels; ++c) count += (uint32_t)(sums[c] >= threshold);
  return count;
}

/* Writes 1 for the `rows` channels with the largest errors, 0 for the others; 0 < rows < out_c. */
static void choose_channels(const update* u, uint32_t rows, int32_t* chosen) {
  const uint32_t channels = u->layer->out_c;
  for (uint32_t c = 0; c < channels; ++c) chosen[c] = credit_channel(u, c, NULL);
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

/* --- Step ---------------------------------------------------------------------- */

static uint64_t sum_of_squares(const int32_t* gradient, uint32_t count) {
  uint64_t sum = 0;
  for (uint32_t j = 0; j < count; ++j) {
    const int64_t g = zo_clamp(zo_floor_shift(gradient[j], SQUARE_SHIFT), -SQUARE_MAX, SQUARE_MAX);
    sum += (uint64_t)(g * g);
  }
  return sum;
}

/* Mean of G^2 in the unit of errors before their shift. */
static zo_scale mean_square(const update* u, uint64_t sum) {
  const zo_scale total = zo_scale_of(sum, (int32_t)(2u * (SQUARE_SHIFT + u->shift)));
  return zo_scale_ratio(total, zo_scale_of(u->size, 0));
}

/* round(-gradient * factor), within +-clip. */
static int32_t step_of(int32_t gradient, zo_scale factor, int32_t clip) {
  const int64_t product = -(int64_t)gradient * (int64_t)factor.mantissa; /* < 2^63 */
  if (factor.exponent >= 0) return product == 0 ? 0 : (product > 0 ? clip : -clip);
  const uint32_t bits = (uint32_t)-factor.exponent;
  if (bits > 63u) return 0; /* the product is below 2^63 */
  /* Halved first: the half that rounds has room then. */
  const int64_t rounded = zo_floor_shift64(zo_floor_shift64(product, bits - 1u) + 1, 1);
  return (int32_t)zo_clamp64(rounded, clip);
}

/* Moves the weights of one channel by its gradient times -factor. */
static uint32_t apply_row(const update* u, uint32_t channel, const zo_node_step* step,
                          zo_scale factor) {
  const zo_tensor* tensor = u->tensor;
  const size_t begin = (size_t)channel * u->row;
  uint32_t rounding =
      zo_stream_state(zo_stream_key(step->seed, tensor->stream | ZO_ROUNDING_STREAM), channel);
  uint32_t saturated = 0;
  for (uint32_t i = 0; i < u->row; i += ZO_STEPS_CHUNK) {
    const uint32_t left = u->row - i;
    const uint32_t count = left < ZO_STEPS_CHUNK ? left : ZO_STEPS_CHUNK;
    int32_t steps[ZO_STEPS_CHUNK];
    for (uint32_t j = 0; j < count; ++j) {
      steps[j] = step_of(u->gradient[i + j], factor, (int32_t)step->clip);
      if (tensor->multiplier != NULL) {
        steps[j] = zo_scale_step(steps[j], tensor->multiplier[channel]);
      }
    }
    int8_t* weights = tensor->weights + begin + i;
    if (tensor->fraction != NULL) {
      saturated +=
          zo_apply_steps_16(weights, tensor->fraction + begin + i, steps, count, tensor->limit);
    } else {
      saturated += zo_apply_steps_8(weights, steps, count, tensor->limit, &rounding);
    }
  }
  return saturated;
}

/* --- Rules ----------------------------------------------------------------------- */

/* How a rule makes a step of G: -(G 2^bits - mean) factor, or, for ZO_NODE_BITS, by a shift. */
typedef struct plan {
  zo_scale factor;
  int32_t bits;
  int32_t mean;
  uint32_t shift;
} plan;

/* What a pass over the updated channels finds. */
typedef struct findings {
  zo_moments moments; /* of G, where the pass only measures */
  uint64_t squares;   /* sum_of_squares, where it moves no weights by ZO_NODE_BITS */
  uint32_t clipped;
} findings;

static void standardize_row(const update* u, const plan* p) {
  const int64_t twice = INT64_C(1) << (p->bits + 1);
  for (uint32_t j = 0; j < u->row; ++j) {
    /* Both are within +-2^30, and not at opposite ends. */
    u->gradient[j] = (int32_t)zo_floor_shift64(u->gradient[j] * twice, 1) - p->mean;
  }
}

/* Moves the weights by a plan; without one, only measures. */
static findings walk(const update* u, const zo_node_step* step, const plan* p) {
  findings found;
  memset(&found, 0, sizeof found);
  for (uint32_t c = 0; c < u->layer->out_c; ++c) {
    if (u->chosen != NULL && u->chosen[c] == 0) continue;
    form_gradient(u, c);
    if (p != NULL && step->rule == ZO_NODE_BITS) {
      found.clipped += zo_subtract_rounded(u->tensor->weights + (size_t)c * u->row, u->gradient,
                                           u->row, p->shift, u->tensor->limit);
      continue;
    }
    found.squares += sum_of_squares(u->gradient, u->row);
    if (p == NULL) {
      zo_moments_add(&found.moments, u->gradient, u->row);
      continue;
    }
    if (step->rule == ZO_NODE_STANDARDIZED) standardize_row(u, p);
    found.clipped += apply_row(u, c, step, p->factor);
  }
  return found;
}

/* Returns 0 where the deviation is zero. */
static int plan_standardized(const update* u, const zo_node_step* step, const zo_moments* moments,
                             plan* p) {
  const zo_scale spread = zo_moments_spread(moments);
  if (spread.mantissa == 0u) return 0;
  p->bits = -1;
  while (p->bits < STANDARD_BITS_MAX &&
         (uint64_t)moments->largest << (p->bits + 1) < STANDARD_MAX) {
    ++p->bits;
  }
  p->mean = (int32_t)zo_moments_mean(moments, p->bits);
  /* std is root(spread) / size. */
  const zo_scale rate = zo_scale_of((uint64_t)step->rate * u->size, -p->bits);
  p->factor = zo_scale_ratio(rate, zo_scale_root(spread));
  return 1;
}

/* Returns 0 where there is no step. */
static int make_plan(const update* u, zo_node_step* step, plan* p) {
  const int32_t shift = (int32_t)u->shift; /* G is in units of 2^shift */
  memset(p, 0, sizeof *p);
  if (step->rule == ZO_NODE_FIXED) {
    p->factor =
        zo_scale_of((uint64_t)step->gain.mantissa * step->rate, step->gain.exponent - 16 + shift);
    return 1;
  }
  if (step->rule != ZO_NODE_RMS || step->mean_square.mantissa == 0u) {
    const findings found = walk(u, step, NULL);
    if (step->rule == ZO_NODE_STANDARDIZED) return plan_standardized(u, step, &found.moments, p);
    if (step->rule == ZO_NODE_BITS) {
      const uint32_t width = zo_bit_width(found.moments.largest);
      p->shift = width > step->bits ? width - step->bits : 0u;
      return 1;
    }
    step->mean_square = mean_square(u, found.squares);
    if (step->mean_square.mantissa == 0u) return 0;
  }
  zo_scale rms = zo_scale_root(step->mean_square);
  rms.exponent -= shift;
  p->factor = zo_scale_ratio(zo_scale_of(step->rate, 0), rms);
  return 1;
}

static int rule_is_valid(const zo_node_step* step, const zo_tensor* tensor) {
  if (step->rule == ZO_NODE_BITS) {
    return step->bits >= 1u && step->bits <= ZO_UPDATE_BITS_MAX && tensor->fraction == NULL;
  }
  const zo_scale gain = step->gain;
  return step->rule <= ZO_NODE_STANDARDIZED && step->rate < UINT32_C(1) << 31 && step->clip >= 1u &&
         step->clip <= UINT32_C(1) << 24 &&
         (step->rule != ZO_NODE_FIXED ||
          (gain.mantissa != 0u && gain.exponent >= -GAIN_EXPONENT_MAX &&
           gain.exponent <= GAIN_EXPONENT_MAX));
}

static zo_status check(const zo_node_layer* layer, const zo_tensor* tensor,
                       const zo_node_evidence* evidence, const zo_node_step* step) {
  const zo_status status = zo_node_layer_check(layer);
  if (status != ZO_OK) return status;
  if (tensor == NULL || evidence == NULL || step == NULL) return ZO_ERROR_ARGUMENT;
  const int zeroth_order = evidence->errors == NULL;
  if (zeroth_order && (evidence->queries < 1u || evidence->queries > ZO_MAX_QUERIES)) {
    return ZO_ERROR_QUERIES;
  }
  const int valid = tensor->weights != NULL && tensor->limit >= 1 && tensor->limit <= 127 &&
                    tensor->size == (uint64_t)row_size(layer) * layer->out_c &&
                    tensor->size <= UINT32_C(1) << 20 && evidence->samples > 0u &&
                    evidence->inputs != NULL &&
                    (evidence->routes != NULL || layer->form == ZO_NODES_PLAIN) &&
                    (!zeroth_order || (evidence->differences != NULL && evidence->seeds != NULL)) &&
                    step->rows <= layer->out_c && rule_is_valid(step, tensor);
  return valid ? ZO_OK : ZO_ERROR_ARGUMENT;
}

zo_status zo_node_update_s8(const zo_node_layer* layer, const zo_tensor* tensor,
                            const zo_node_evidence* evidence, zo_node_step* step, int32_t* scratch,
                            uint32_t* saturated) {
  const zo_status status = check(layer, tensor, evidence, step);
  if (status != ZO_OK) return status;
  if (scratch == NULL) return ZO_ERROR_ARGUMENT;
  const uint32_t rows = step->rows == 0u ? layer->out_c : step->rows;
  update u;
  u.layer = layer;
  u.evidence = evidence;
  u.tensor = tensor;
  u.gradient = scratch;
  u.chosen = NULL;
  u.positions = layer->node_h * layer->node_w;
  u.row = row_size(layer);
  u.size = u.row * rows;
  u.shift = error_shift(&u);
  if (u.shift > 31u) return ZO_ERROR_ARGUMENT;
  if (rows < layer->out_c) {
    choose_channels(&u, rows, scratch + u.row);
    u.chosen = scratch + u.row;
  }

  plan p;
  if (!make_plan(&u, step, &p)) return ZO_OK;
  const findings found = walk(&u, step, &p);
  if (step->rule == ZO_NODE_RMS) {
    step->mean_square =
        zo_scale_blend(step->mean_square, mean_square(&u, found.squares), MEAN_SQUARE_SHIFT);
  }
  if (saturated != NULL) *saturated += found.clipped;
  return ZO_OK;
}
