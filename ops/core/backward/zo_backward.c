/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/backward/zo_backward.h"

#include <string.h>

#include "ops/core/backward/zo_conv_backprop.h"
#include "ops/core/backward/zo_error_range.h"

/* As of zo_error_factors. */
#define EXPONENT_MAX 255

uint32_t zo_backward_scratch_values(const zo_backward_step* steps, uint32_t count) {
  uint32_t values = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const zo_backward_step* s = &steps[i];
    const uint32_t own = s->kind == ZO_BACKWARD_LAYER          ? zo_conv_backprop_scratch_values(s->layer)
                         : s->kind == ZO_BACKWARD_AVERAGE_POOL ? zo_pool_scratch_values(s->pool)
                                                               : 0u;
    if (own > values) values = own;
  }
  return values;
}

static int exponent_fits(const zo_backward_step* s) {
  return s->mantissas != NULL && s->exponent >= -EXPONENT_MAX && s->exponent <= EXPONENT_MAX;
}

/* Whether blocks of a part lie in the whole. */
static int blocks_fit(const zo_backward_step* s, uint32_t part, uint32_t whole) {
  return s->blocks > 0u && s->length > 0u && s->pitch >= s->length && (uint64_t)s->blocks * s->length == part &&
         s->offset + (uint64_t)(s->blocks - 1u) * s->pitch + s->length <= whole;
}

/* Whether a step takes errors of the sizes that its fields have. */
static int step_fits(const zo_backward_step* s, uint32_t from, uint32_t to) {
  switch (s->kind) {
    case ZO_BACKWARD_MASK:
      return from == to;
    case ZO_BACKWARD_LAYER:
      return s->layer != NULL && zo_node_layer_check(s->layer) == ZO_OK && exponent_fits(s) &&
             from == s->layer->out_h * s->layer->out_w * s->layer->out_c && to == zo_node_input_bytes(s->layer);
    case ZO_BACKWARD_MAX_POOL:
    case ZO_BACKWARD_AVERAGE_POOL:
      return s->pool != NULL && zo_pool_check(s->pool) == ZO_OK &&
             from == s->pool->out_h * s->pool->out_w * s->pool->channels &&
             to == s->pool->in_h * s->pool->in_w * s->pool->channels;
    case ZO_BACKWARD_FACTORS:
      return exponent_fits(s) && from == to && s->channels > 0u && from % s->channels == 0u;
    case ZO_BACKWARD_SLICE:
      return blocks_fit(s, to, from);
    case ZO_BACKWARD_PLACE:
      return blocks_fit(s, from, to);
    case ZO_BACKWARD_LEVELS:
      return exponent_fits(s) && from == to;
    case ZO_BACKWARD_PRODUCT:
    case ZO_BACKWARD_SUM:
      return exponent_fits(s) && s->product != NULL && s->product->length == to && zo_product_fits(s->product, from);
    case ZO_BACKWARD_ADD:
      return from == to && s->from != s->to;
    default:
      return 0;
  }
}

zo_status zo_backward_check(const zo_backward* program) {
  if (program == NULL || program->field_count == 0u || program->fields == NULL ||
      (program->step_count > 0u && (program->steps == NULL || program->norms == NULL))) {
    return ZO_ERROR_ARGUMENT;
  }
  for (uint32_t i = 0; i < program->field_count; ++i) {
    const zo_error_field* f = &program->fields[i];
    if (f->errors == NULL || f->exponents == NULL || f->count == 0u) return ZO_ERROR_ARGUMENT;
  }
  for (uint32_t i = 0; i < program->step_count; ++i) {
    const zo_backward_step* s = &program->steps[i];
    if (s->from >= program->field_count || s->to >= program->field_count ||
        !step_fits(s, program->fields[s->from].count, program->fields[s->to].count)) {
      return ZO_ERROR_ARGUMENT;
    }
  }
  return zo_backward_scratch_values(program->steps, program->step_count) > 0u && program->scratch == NULL
             ? ZO_ERROR_ARGUMENT
             : ZO_OK;
}

zo_status zo_backward_norms(const zo_backward* program, const int8_t* const* sources) {
  if (ZO_WITH_CHECKS && (program == NULL || sources == NULL)) return ZO_ERROR_ARGUMENT;
  for (uint32_t i = 0; i < program->step_count; ++i) {
    if (program->steps[i].kind != ZO_BACKWARD_LAYER) continue;
    const zo_status status =
        zo_conv_backprop_norm_s8(program->steps[i].layer, sources[i], program->scratch, &program->norms[i]);
    if (status != ZO_OK) return status;
  }
  return ZO_OK;
}

/* A sample's part of a field. */
typedef struct error_place {
  int16_t* errors;
  int8_t* exponent;
  uint32_t count;
} error_place;

static error_place place_of(const zo_backward* program, uint32_t field, uint32_t sample) {
  const zo_error_field* f = &program->fields[field];
  const size_t at = f->kept != 0u ? sample : 0u;
  const error_place result = {f->errors + at * f->count, f->exponents + at, f->count};
  return result;
}

/* `source` is the sample's. */
static zo_status run_step(const zo_backward* program, uint32_t number, error_place from, error_place to,
                          const int8_t* source) {
  const zo_backward_step* s = &program->steps[number];
  zo_status status;
  switch (s->kind) {
    case ZO_BACKWARD_MASK:
      if (from.errors != to.errors) {
        memcpy(to.errors, from.errors, to.count * sizeof to.errors[0]);
        *to.exponent = *from.exponent;
      }
      return zo_mask_errors(to.count, source, s->low, s->high, to.errors);
    case ZO_BACKWARD_LAYER:
      status = zo_conv_backprop_s8(s->layer, source, program->norms[number], s->mantissas, from.errors, *from.exponent,
                                   to.errors, to.exponent, program->scratch);
      *to.exponent = zo_error_exponent(*to.exponent + s->exponent);
      return status;
    case ZO_BACKWARD_MAX_POOL:
      return zo_max_pool_backprop(s->pool, source, from.errors, *from.exponent, to.errors, to.exponent);
    case ZO_BACKWARD_AVERAGE_POOL:
      return zo_average_pool_backprop(s->pool, from.errors, *from.exponent, to.errors, to.exponent, program->scratch);
    case ZO_BACKWARD_FACTORS: {
      const zo_error_factors factors = {s->mantissas, s->channels, s->exponent};
      return zo_scale_errors(&factors, to.count, from.errors, *from.exponent, to.errors, to.exponent);
    }
    case ZO_BACKWARD_SLICE:
      *to.exponent = *from.exponent;
      return zo_slice_errors(s->blocks, s->pitch, s->offset, s->length, from.errors, to.errors);
    case ZO_BACKWARD_PLACE:
      *to.exponent = *from.exponent;
      return zo_place_errors(s->blocks, s->pitch, s->offset, s->length, from.errors, to.count, to.errors);
    case ZO_BACKWARD_LEVELS:
      return zo_level_errors(s->mantissas, s->exponent, to.count, source, from.errors, *from.exponent, to.errors,
                             to.exponent);
    case ZO_BACKWARD_PRODUCT:
    case ZO_BACKWARD_SUM: {
      const zo_error_factors factor = {s->mantissas, 1, s->exponent};
      return zo_product_errors(s->product, &factor, from.count, source, from.errors, *from.exponent, to.errors,
                               to.exponent);
    }
    case ZO_BACKWARD_ADD:
      return zo_add_errors(NULL, to.count, from.errors, *from.exponent, to.errors, to.exponent);
    default:
      return ZO_ERROR_ARGUMENT;
  }
}

zo_status zo_backward_run(const zo_backward* program, uint32_t first, uint32_t samples, const int8_t* const* sources) {
  if (ZO_WITH_CHECKS && (program == NULL || sources == NULL)) return ZO_ERROR_ARGUMENT;
  for (uint32_t i = 0; i < samples; ++i) {
    for (uint32_t number = 0; number < program->step_count; ++number) {
      const zo_backward_step* s = &program->steps[number];
      const error_place from = place_of(program, s->from, first + i);
      const error_place to = place_of(program, s->to, first + i);
      const int8_t* source = sources[number];
      if (zo_backward_looks(s->kind)) {
        source += (size_t)i * (s->kind == ZO_BACKWARD_PRODUCT ? s->product->other_length : to.count);
      }
      const zo_status status = run_step(program, number, from, to, source);
      if (status != ZO_OK) return status;
    }
  }
  return ZO_OK;
}
