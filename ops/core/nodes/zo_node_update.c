/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/nodes/zo_node_update.h"

#include <string.h>

#include "ops/core/kernels/zo_row_steps.h"
#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/math/zo_moments.h"
#include "ops/core/nodes/zo_node_gradient.h"
#include "ops/core/nodes/zo_node_move.h"
#include "ops/core/zo_features.h"

#if ZO_WITH_BITS
#include "ops/core/papers/zo_pseudo_stochastic.h"
#include "ops/core/papers/zo_update_bits.h"
#endif

/* Weight of a new square in the running mean: 2^-5. */
#define MEAN_SQUARE_SHIFT 5u

/* A standardized gradient: fraction bits at most, and the bound of values with them. */
#define STANDARD_BITS_MAX 16
#define STANDARD_MAX (UINT64_C(1) << 30)

/* In the place of an error of a dense layer whose channel is done. */
#define DONE INT16_MIN

typedef struct update {
  zo_node_gradient g;
  zo_node_move to;
  int32_t* gradient;     /* [row], of the channel at hand; then its steps */
  int32_t of_bias;       /* the same of the channel's bias */
  const int32_t* chosen; /* [out_c], not zero: the channel is updated; null: all are */
  uint32_t row;          /* weights of a channel that are updated: all or none */
  uint32_t size;         /* weights and biases of the updated channels */
} update;

/* The biases, in a build that trains any. */
static const zo_tensor* bias_of(const update* u) { return ZO_WITH_BIASES ? u->to.bias : NULL; }

uint32_t zo_node_scratch_values(const zo_node_layer* layer) { return zo_node_row(layer) + layer->out_c; }

/* --- Step ---------------------------------------------------------------------- */

static int knows_errors(const zo_node_step* step) { return ZO_WITH_EXACT_TASKS && step->per_error.mantissa != 0u; }

/* Mean of G^2 in the unit of errors before their shift, of errors of 1 if their size is known. */
static zo_scale mean_square(const update* u, uint64_t sum) {
  const zo_scale total = zo_scale_of(sum, 2 * ((int32_t)ZO_SQUARE_SHIFT + u->g.shift));
  const zo_scale mean = zo_scale_ratio(total, zo_scale_of(u->size, 0));
  return knows_errors(u->to.step) ? zo_scale_product(mean, u->to.step->per_error) : mean;
}

static int is_updated(const update* u, uint32_t channel) {
  return !ZO_WITH_ROWS || u->chosen == NULL || u->chosen[channel] != 0;
}

/* --- Rules ----------------------------------------------------------------------- */

/* Whether the build has rules but ZO_NODE_RMS. */
#define HAS_RULES (ZO_WITH_NODE_RULES || ZO_WITH_BITS)

static uint32_t node_rule_of(const zo_node_step* step) { return HAS_RULES ? step->rule : (uint32_t)ZO_NODE_RMS; }

/* How a rule makes a step of G: -(G 2^bits - mean) factor. ZO_NODE_BITS has the shift of a move. */
typedef struct plan {
  zo_row_scale scale; /* of that factor */
  int32_t bits;
  int32_t mean;
} plan;

/* Results of a pass over the updated channels. */
typedef struct findings {
  zo_moments moments; /* of G, if the pass only measures and the rule asks for them */
  uint64_t squares;   /* zo_row_squares, for ZO_NODE_RMS */
  uint32_t clipped;
} findings;

static void standardize_row(int32_t* gradient, uint32_t count, const plan* p) {
  const int64_t twice = INT64_C(1) << (p->bits + 1);
  for (uint32_t j = 0; j < count; ++j) {
    /* Both are within +-2^30, and not at opposite ends. */
    gradient[j] = (int32_t)zo_floor_shift64(gradient[j] * twice, 1) - p->mean;
  }
}

/* Measures a part of the gradient at hand. With a plan, replaces it by its steps. */
static void measure_gradient(const update* u, const plan* p, int32_t* gradient, uint32_t count, int32_t largest,
                             findings* found) {
  const uint32_t rule = node_rule_of(u->to.step);
  if (p == NULL) {
    if (rule == ZO_NODE_RMS) {
      found->squares += zo_row_squares(gradient, count);
    } else {
      zo_moments_add(&found->moments, gradient, count);
    }
    return;
  }
  if (rule == ZO_NODE_BITS) return;
  if (ZO_WITH_NODE_RULES && rule == ZO_NODE_STANDARDIZED) {
    standardize_row(gradient, count, p);
    largest = INT32_MAX;
  }
  zo_row_steps(gradient, count, largest, &p->scale, rule == ZO_NODE_RMS ? &found->squares : NULL);
}

/* Forms the gradient of a channel; returns 0 if it is all zero. */
static int form_gradient(update* u, uint32_t channel) {
  const int any = u->to.filter != NULL ? zo_node_gradient_form(&u->g, channel, u->gradient)
                                       : zo_node_gradient_errors(&u->g, channel) != 0;
  u->of_bias = u->g.sum * (INT32_C(1) << ZO_BIAS_SHIFT);
  return any;
}

/* Whether nothing comes of a gradient of zero: a step of zero leaves an 8-bit weight alone. */
static int skips_zeros(const update* u, const plan* p) {
  const uint32_t rule = node_rule_of(u->to.step);
  const int exact = u->to.filter == NULL || !zo_has_fraction(u->to.filter);
  return p == NULL ? rule == ZO_NODE_RMS : rule != ZO_NODE_STANDARDIZED && exact;
}

/* Moves the weights of channels by a plan; without one, only measures. */
static findings walk_channels(update* u, const plan* p, uint32_t begin, uint32_t channels_end) {
  const int skips = skips_zeros(u, p);
  findings found;
  memset(&found, 0, sizeof found);
  zo_node_gradient_rewind(&u->g);
  /* In a dense layer, channels of equal errors have equal gradients: those of channels [c, end). */
  int16_t* errors = NULL;
  uint32_t end = begin;
  for (uint32_t c = begin; c < channels_end; ++c) {
    if (!u->g.dense) {
      end = c + 1u;
    } else if (c == end) {
      errors = zo_node_gradient_held(&u->g, c, &end);
    } else {
      ++errors;
    }
    const int32_t error = errors == NULL ? 0 : errors[0];
    if (error == DONE || !is_updated(u, c)) continue;
    if (!form_gradient(u, c)) {
      if (skips) continue;
      memset(u->gradient, 0, u->row * sizeof u->gradient[0]);
    }
    findings row;
    memset(&row, 0, sizeof row);
    measure_gradient(u, p, u->gradient, u->row, u->g.largest, &row);
    if (bias_of(u) != NULL) measure_gradient(u, p, &u->of_bias, 1, INT32_MAX, &row);
    uint32_t equal = 0, together[ZO_ROWS_TOGETHER]; /* channels, and those yet to be moved */
    uint32_t held = 0;
    for (uint32_t i = c; i < end; ++i) {
      if (errors != NULL) {
        while (i < end && errors[i - c] != error) ++i;
        if (i == end) break;
        if (!is_updated(u, i)) continue;
        errors[i - c] = DONE;
      }
      ++equal;
      if (p == NULL) {
        if (HAS_RULES) zo_moments_join(&found.moments, &row.moments);
        continue;
      }
      if (bias_of(u) != NULL) found.clipped += zo_node_move_bias(&u->to, i, u->of_bias);
      together[held++] = i;
      if (held < ZO_ROWS_TOGETHER) continue;
      if (u->to.filter != NULL) {
        found.clipped += zo_node_move_weights(&u->to, together, held, u->gradient);
      }
      held = 0;
    }
    if (ZO_ROWS_TOGETHER > 1u && held > 0u && u->to.filter != NULL) {
      found.clipped += zo_node_move_weights(&u->to, together, held, u->gradient);
    }
    found.squares += equal * row.squares;
  }
  return found;
}

#if ZO_DENSE_CHANNELS > 0u
/* How many columns of each channel of a group are formed together: whole vectors of weights, and
 * all parts of about one size. */
static uint32_t columns_together(const update* u) {
  const uint32_t row = u->g.row, room = row + (u->chosen == NULL ? u->g.layer->out_c : 0u);
  const uint32_t most = room / (ZO_DENSE_CHANNELS * ZO_NODE_COLUMNS) * ZO_NODE_COLUMNS;
  const uint32_t parts = (row + most - 1u) / most;
  const uint32_t each = (row + parts - 1u) / parts;
  return (each + ZO_NODE_COLUMNS - 1u) / ZO_NODE_COLUMNS * ZO_NODE_COLUMNS;
}

static void walk_group(update* u, const plan* p, zo_node_group* group, uint32_t columns, findings* found) {
  uint32_t rounding[ZO_DENSE_CHANNELS];
  int32_t largest = 0;
  for (uint32_t i = 0; i < group->count; ++i) {
    const uint32_t channel = group->channels[i];
    rounding[i] = zo_node_move_rounding(&u->to, channel);
    if (group->largest[i] > largest) largest = group->largest[i];
    if (bias_of(u) == NULL) continue;
    int32_t of_bias = group->sums[i] * (INT32_C(1) << ZO_BIAS_SHIFT);
    measure_gradient(u, p, &of_bias, 1, INT32_MAX, found);
    if (p != NULL) found->clipped += zo_node_move_bias(&u->to, channel, of_bias);
  }
  for (uint32_t at = 0; at < u->row; at += columns) {
    const uint32_t count = u->row - at < columns ? u->row - at : columns;
    const uint32_t apart = (count + ZO_DENSE_COLUMNS - 1u) / ZO_DENSE_COLUMNS * ZO_DENSE_COLUMNS;
    zo_node_group_form(&u->g, group, at, count, u->gradient, apart);
    /* Rows that lie next to each other are one. */
    const uint32_t rows = apart == count ? 1u : group->count;
    for (uint32_t i = 0; i < rows; ++i) {
      measure_gradient(u, p, u->gradient + i * apart, group->count / rows * count, largest, found);
    }
    for (uint32_t i = 0; p != NULL && i < group->count; ++i) {
      const uint32_t channel = group->channels[i];
      found->clipped += zo_node_move_columns(&u->to, channel, (size_t)channel * u->row + at, count,
                                             u->gradient + i * apart, &rounding[i]);
    }
  }
}

/* walk_channels of a dense layer and several samples, some channels at a time. Not inlined: only
 * these layers need its stack. */
static __attribute__((noinline)) findings walk_groups(update* u, const plan* p) {
  const uint32_t channels = u->g.layer->out_c, columns = columns_together(u);
  const int skips = skips_zeros(u, p);
  findings found;
  memset(&found, 0, sizeof found);
  zo_node_gradient_rewind(&u->g);
  zo_node_group group;
  for (uint32_t c = 0; c < channels;) {
    group.count = 0;
    for (; c < channels && zo_node_group_takes(&u->g, &group, c); ++c) {
      if (is_updated(u, c)) zo_node_group_add(&u->g, &group, c, !skips);
    }
    if (group.count > 0u) walk_group(u, p, &group, columns, &found);
  }
  return found;
}
#endif

#if ZO_KERNEL_SETS
uint32_t zo_node_scratch_values_of(const zo_node_layer* layer, const zo_workers* workers) {
  const uint32_t parts = zo_parts_of(workers, layer->out_c);
  return zo_node_scratch_values(layer) + (parts - 1u) * zo_node_row(layer);
}

/* Channels depend on one another in nothing: each part has errors and a row of its own. */
typedef struct divided_walk {
  const update* whole;
  const plan* plan;
  uint32_t parts;
  findings found[ZO_PARTS_MAX];
} divided_walk;

static void walk_part(void* context, uint32_t part) {
  divided_walk* self = (divided_walk*)context;
  update own = *self->whole;
  const uint32_t channels = own.g.layer->out_c;
  if (part > 0u) own.gradient += own.g.row * part + channels; /* behind the choice of channels */
  self->found[part] = walk_channels(&own, self->plan, zo_part_begin(channels, part, self->parts),
                                    zo_part_begin(channels, part + 1u, self->parts));
}
#endif

/* Moves the weights by a plan; without one, only measures. */
static findings walk_layer(update* u, const plan* p) {
#if ZO_KERNEL_SETS
  const zo_workers* workers = u->to.step->workers;
  divided_walk divided;
  divided.whole = u;
  divided.plan = p;
  /* One sample's dense channels share sums that were formed for others. */
  divided.parts = u->g.dense ? 1u : zo_parts_of(workers, u->g.layer->out_c);
  if (divided.parts > 1u) {
    zo_divide_work(workers, divided.parts, walk_part, &divided);
    findings found = divided.found[0];
    for (uint32_t i = 1; i < divided.parts; ++i) {
      zo_moments_join(&found.moments, &divided.found[i].moments);
      found.squares += divided.found[i].squares;
      found.clipped += divided.found[i].clipped;
    }
    return found;
  }
#endif
#if ZO_DENSE_CHANNELS > 0u
  if (zo_node_gradient_is_dense(&u->g) && u->to.filter != NULL) return walk_groups(u, p);
#endif
  return walk_channels(u, p, 0, u->g.layer->out_c);
}

static void set_factor(plan* p, zo_scale factor, const zo_node_step* step) {
  p->scale = zo_row_scale_of(factor, (int32_t)step->clip);
}

/* Returns 0 if the deviation is zero. */
static int plan_standardized(const update* u, const zo_moments* moments, plan* p) {
  const zo_scale spread = zo_moments_spread(moments);
  if (spread.mantissa == 0u) return 0;
  p->bits = -1;
  while (p->bits < STANDARD_BITS_MAX && (uint64_t)moments->largest << (p->bits + 1) < STANDARD_MAX) {
    ++p->bits;
  }
  p->mean = (int32_t)zo_moments_mean(moments, p->bits);
  /* std is root(spread) / size. */
  const zo_scale rate = zo_scale_of((uint64_t)u->to.step->rate * u->size, -p->bits);
  set_factor(p, zo_scale_ratio(rate, zo_scale_root(spread)), u->to.step);
  return 1;
}

/* Returns 0 if there is no step. */
static int make_plan(update* u, zo_node_step* step, plan* p) {
  const int32_t shift = u->g.shift; /* G is in units of 2^shift */
  memset(p, 0, sizeof *p);
  const uint32_t rule = node_rule_of(step);
  if (ZO_WITH_NODE_RULES && rule == ZO_NODE_FIXED) {
    const uint64_t gain = (uint64_t)step->gain.mantissa * step->rate;
    set_factor(p, zo_scale_of(gain, step->gain.exponent - 16 + shift), step);
    return 1;
  }
  if (rule != ZO_NODE_RMS || step->mean_square.mantissa == 0u) {
    const findings found = walk_layer(u, NULL);
    if (ZO_WITH_NODE_RULES && rule == ZO_NODE_STANDARDIZED) return plan_standardized(u, &found.moments, p);
#if ZO_WITH_BITS
    if (step->rule == ZO_NODE_BITS) {
      const uint32_t width = zo_bit_width(found.moments.largest);
      u->to.shift = width > step->bits ? width - step->bits : 0u;
      return 1;
    }
#endif
    step->mean_square = mean_square(u, found.squares);
    if (step->mean_square.mantissa == 0u) return 0;
  }
  zo_scale rms = zo_scale_root(step->mean_square);
  rms.exponent -= shift;
  set_factor(p, zo_scale_ratio(zo_scale_of(step->rate, 0), rms), step);
  return 1;
}

#if ZO_WITH_CHECKS
static int rule_is_valid(const zo_node_step* step) {
  if (step->rule == ZO_NODE_BITS) {
    return ZO_WITH_BITS && step->bits >= 1u && step->bits <= ZO_UPDATE_BITS_MAX;
  }
  if (!ZO_WITH_NODE_RULES && step->rule != ZO_NODE_RMS) return 0;
  const zo_scale gain = step->gain;
  return step->rule <= ZO_NODE_STANDARDIZED && step->rate < UINT32_C(1) << 31 && step->clip >= 1u &&
         step->clip <= UINT32_C(1) << 24 &&
         (step->rule != ZO_NODE_RMS || (zo_scale_is_valid(step->mean_square) && zo_scale_is_valid(step->per_error))) &&
         (step->rule != ZO_NODE_FIXED || (gain.mantissa != 0u && gain.exponent >= -ZO_NODE_GAIN_EXPONENT_MAX &&
                                          gain.exponent <= ZO_NODE_GAIN_EXPONENT_MAX));
}

static int filter_is_valid(const zo_node_layer* layer, const zo_tensor* tensor, const zo_node_evidence* evidence,
                           const zo_node_step* step) {
  return tensor->type != ZO_TENSOR_INT32 && zo_tensor_is_supported(tensor) &&
         (ZO_WITH_8_BITS || tensor->fraction != NULL) && tensor->limit >= 1 && tensor->limit <= 127 &&
         tensor->size == (uint64_t)zo_node_row(layer) * layer->out_c && tensor->size <= UINT32_C(1) << 20 &&
         evidence->inputs != NULL && (step->rule != ZO_NODE_BITS || tensor->fraction == NULL);
}

static int bias_is_valid(const zo_node_layer* layer, const zo_tensor* tensor) {
  return ZO_WITH_BIASES && tensor->type == ZO_TENSOR_INT32 &&
         tensor->size == sizeof(int32_t) * (uint64_t)layer->out_c && tensor->fraction == NULL &&
         (uintptr_t)tensor->weights % sizeof(int32_t) == 0u;
}

static zo_status check_update(const zo_node_layer* layer, const zo_tensor* tensors, uint32_t count,
                              const zo_node_evidence* evidence, const zo_node_step* step) {
  const zo_status status = zo_node_layer_check(layer);
  if (status != ZO_OK) return status;
  if (tensors == NULL || evidence == NULL || step == NULL || count < 1u || count > 2u) {
    return ZO_ERROR_ARGUMENT;
  }
  const int zeroth_order = evidence->errors == NULL;
  if (zeroth_order && (evidence->queries < 1u || evidence->queries > ZO_MAX_QUERIES)) {
    return ZO_ERROR_QUERIES;
  }
  int valid = evidence->samples > 0u && (evidence->routes != NULL || layer->form == ZO_NODES_PLAIN) &&
              (!zeroth_order || (evidence->differences != NULL && evidence->seeds != NULL)) &&
              step->rows <= layer->out_c && rule_is_valid(step);
  for (uint32_t i = 0; i < count; ++i) {
    const zo_tensor* t = &tensors[i];
    const int is_bias = i > 0u || t->type == ZO_TENSOR_INT32;
    valid =
        valid && t->weights != NULL && (is_bias ? bias_is_valid(layer, t) : filter_is_valid(layer, t, evidence, step));
  }
  if (count > 1u && tensors[0].type == ZO_TENSOR_INT32) return ZO_ERROR_ARGUMENT;
  return valid ? ZO_OK : ZO_ERROR_ARGUMENT;
}

#endif

zo_status zo_node_update_s8(const zo_node_layer* layer, const zo_tensor* tensors, uint32_t count,
                            const zo_node_evidence* evidence, zo_node_step* step, int32_t* scratch,
                            uint32_t* saturated) {
#if ZO_WITH_CHECKS
  const zo_status status = check_update(layer, tensors, count, evidence, step);
  if (status != ZO_OK) return status;
#endif
  if (scratch == NULL) return ZO_ERROR_ARGUMENT;
  const uint32_t rows = step->rows == 0u ? layer->out_c : step->rows;
  update u;
  u.to.layer = layer;
  u.to.filter = tensors->type != ZO_TENSOR_INT32 ? tensors : NULL;
  u.to.bias = u.to.filter == NULL ? tensors : (count > 1u ? tensors + 1 : NULL);
  u.to.step = step;
  u.to.shift = 0;
  u.gradient = scratch;
  u.chosen = NULL;
  if (!zo_node_gradient_begin(&u.g, layer, evidence)) return ZO_ERROR_ARGUMENT;
  u.row = u.to.filter != NULL ? u.g.row : 0u;
  u.size = (u.row + (bias_of(&u) != NULL ? 1u : 0u)) * rows;
  if (ZO_WITH_ROWS && rows < layer->out_c) {
    zo_node_gradient_choose(&u.g, rows, scratch + u.g.row);
    u.chosen = scratch + u.g.row;
  }

#if ZO_KERNEL_SETS
  u.g.formed = u.chosen == NULL && u.row > 0u ? zo_gradients_form(layer, evidence, u.g.shift, step->workers) : NULL;
#endif
  plan p;
  if (make_plan(&u, step, &p)) {
    const findings found = walk_layer(&u, &p);
    if (node_rule_of(step) == ZO_NODE_RMS && (found.squares != 0u || !knows_errors(step))) {
      step->mean_square = zo_scale_blend(step->mean_square, mean_square(&u, found.squares), MEAN_SQUARE_SHIFT);
    }
    if (saturated != NULL) *saturated += found.clipped;
  }
#if ZO_KERNEL_SETS
  zo_gradients_free(u.g.formed);
#endif
  return ZO_OK;
}
