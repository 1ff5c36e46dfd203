/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/backward/zo_backward.h"

#include <string.h>

#include "ops/core/backward/zo_conv_backprop.h"
#include "ops/core/backward/zo_error_range.h"
#include "ops/core/nodes/zo_layer_loops.h"

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
    case ZO_BACKWARD_BITS:
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

static zo_status lead_through_layer(const zo_backward* program, uint32_t number, error_place from, error_place to,
                                    const int8_t* weights) {
  const zo_backward_step* s = &program->steps[number];
#if ZO_KERNEL_SETS
  if (program->turned != NULL && program->turned[number] != NULL) {
    zo_loops_backprop(s->layer, program->turned[number], program->norms[number], s->mantissas, from.errors,
                      *from.exponent, to.errors, to.exponent, program->memory);
    return ZO_OK;
  }
#endif
  return zo_conv_backprop_s8(s->layer, weights, program->norms[number], s->mantissas, from.errors, *from.exponent,
                             to.errors, to.exponent, program->scratch);
}

/* `source` is the sample's. */
static zo_status run_step(const zo_backward* program, uint32_t number, error_place from, error_place to,
                          const int8_t* source) {
  const zo_backward_step* s = &program->steps[number];
  zo_status status;
  switch (s->kind) {
    case ZO_BACKWARD_MASK:
    case ZO_BACKWARD_BITS:
      if (from.errors != to.errors) {
        memcpy(to.errors, from.errors, to.count * sizeof to.errors[0]);
        *to.exponent = *from.exponent;
      }
      if (s->kind == ZO_BACKWARD_MASK) return zo_mask_errors(to.count, source, s->low, s->high, to.errors);
      zo_mask_errors_by_bits(to.count, (const uint8_t*)source, to.errors);
      return ZO_OK;
    case ZO_BACKWARD_LAYER:
      status = lead_through_layer(program, number, from, to, source);
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
      return zo_add_errors(to.count, from.errors, *from.exponent, to.errors, to.exponent);
    default:
      return ZO_ERROR_ARGUMENT;
  }
}

/* Samples [from, to) of a part whose first one has a number in the minibatch. */
static zo_status run_samples(const zo_backward* program, uint32_t begin, uint32_t end, uint32_t first, uint32_t from,
                             uint32_t to, const int8_t* const* sources) {
  for (uint32_t i = from; i < to; ++i) {
    for (uint32_t number = begin; number < end; ++number) {
      const zo_backward_step* s = &program->steps[number];
      const error_place of_output = place_of(program, s->from, first + i);
      const error_place of_input = place_of(program, s->to, first + i);
      const int8_t* source = sources[number];
      if (zo_backward_looks(s->kind)) {
        source += (size_t)i * (s->kind == ZO_BACKWARD_PRODUCT ? s->product->other_length : of_input.count);
      }
      const zo_status status = run_step(program, number, of_output, of_input, source);
      if (status != ZO_OK) return status;
    }
  }
  return ZO_OK;
}

zo_status zo_backward_run(const zo_backward* program, uint32_t begin, uint32_t end, uint32_t first, uint32_t samples,
                          const int8_t* const* sources) {
  if (ZO_WITH_CHECKS && (program == NULL || sources == NULL || end > program->step_count)) return ZO_ERROR_ARGUMENT;
  return run_samples(program, begin, end, first, 0, samples, sources);
}

#if ZO_KERNEL_SETS

/* Positions of a minibatch's outputs that make it worth to turn a layer's weights. */
#define POSITIONS_MIN 16u

/* Bytes of errors with their border, at most. */
#define BORDERED_MAX ((size_t)1 << 26)

/* A run for some samples at a time. Each part has fields that are not kept, and memory, of its own. */
typedef struct dividing {
  const zo_backward* program;
  uint32_t begin, end, first, samples, parts;
  const int8_t* const* sources;
  const int16_t** turned;
  size_t layers, values, bytes; /* of a part: of loops over layers, of fields that are not kept; of all */
  uint8_t* memory;
  zo_status status[ZO_PARTS_MAX];
} dividing;

static size_t whole_lines(size_t bytes) { return (bytes + 63u) / 64u * 64u; }

static void run_part(void* context, uint32_t part) {
  dividing* d = (dividing*)context;
  zo_backward own = *d->program;
  const uint32_t from = zo_part_begin(d->samples, part, d->parts), to = zo_part_begin(d->samples, part + 1u, d->parts);
  uint8_t* memory = d->memory + part * d->bytes;
  own.turned = d->turned;
  own.memory = memory;
  if (part > 0u) {
    own.scratch = (int32_t*)(void*)(memory += d->layers);
    memory += whole_lines(zo_backward_scratch_values(own.steps, own.step_count) * sizeof own.scratch[0]);
    zo_error_field* fields = (zo_error_field*)(void*)memory;
    int16_t* errors = (int16_t*)(void*)(fields + own.field_count);
    int8_t* exponents = (int8_t*)(errors + d->values);
    memcpy(fields, own.fields, own.field_count * sizeof fields[0]);
    for (uint32_t i = 0; i < own.field_count; ++i) {
      if (fields[i].kept != 0u) continue;
      fields[i].errors = errors;
      fields[i].exponents = exponents + i;
      errors += fields[i].count;
    }
    own.fields = fields;
  }
  d->status[part] = run_samples(&own, d->begin, d->end, d->first, from, to, d->sources);
}

/* Where the weights of a step's layer are turned: values from there on; 0 of others. */
static size_t turned_values(const dividing* d, uint32_t number) {
  const zo_backward_step* s = &d->program->steps[number];
  if (number < d->begin || number >= d->end || s->kind != ZO_BACKWARD_LAYER ||
      d->samples * s->layer->out_h * s->layer->out_w < POSITIONS_MIN ||
      zo_loops_backprop_bytes(s->layer) > BORDERED_MAX) {
    return 0;
  }
  return zo_loops_turned_values(s->layer);
}

zo_status zo_backward_run_divided(const zo_backward* program, uint32_t begin, uint32_t end, uint32_t first,
                                  uint32_t samples, const int8_t* const* sources, const zo_workers* workers) {
  if (program == NULL || sources == NULL || end > program->step_count) return ZO_ERROR_ARGUMENT;
  dividing d;
  memset(&d, 0, sizeof d);
  d.program = program;
  d.begin = begin;
  d.end = end;
  d.first = first;
  d.samples = samples;
  d.parts = zo_parts_of(workers, samples);
  d.sources = sources;
  size_t turned = 0;
  for (uint32_t i = 0; i < program->step_count; ++i) {
    const size_t values = turned_values(&d, i);
    const size_t bytes = values > 0u ? whole_lines(zo_loops_backprop_bytes(program->steps[i].layer)) : 0u;
    turned += values;
    if (bytes > d.layers) d.layers = bytes;
  }
  for (uint32_t i = 0; i < program->field_count; ++i) {
    if (program->fields[i].kept == 0u) d.values += program->fields[i].count;
  }
  d.bytes = d.layers + whole_lines(zo_backward_scratch_values(program->steps, program->step_count) * sizeof(int32_t)) +
            whole_lines(program->field_count * (sizeof(zo_error_field) + 1u) + d.values * sizeof(int16_t));
  const size_t table = whole_lines(program->step_count * sizeof d.turned[0]);
  uint8_t* memory = (uint8_t*)zo_loops_allocate(table + d.parts * d.bytes + turned * sizeof(int16_t));
  if (memory == NULL) return zo_backward_run(program, begin, end, first, samples, sources);
  d.turned = (const int16_t**)(void*)memory;
  d.memory = memory + table;
  int16_t* weights = (int16_t*)(void*)(d.memory + d.parts * d.bytes);
  for (uint32_t i = 0; i < program->step_count; ++i) {
    const size_t values = turned_values(&d, i);
    d.turned[i] = values > 0u ? weights : NULL;
    if (values > 0u) zo_loops_turn(program->steps[i].layer, sources[i], weights, d.memory);
    weights += values;
  }
  zo_divide_work(workers, d.parts, run_part, &d);
  zo_loops_free(memory);
  zo_status status = ZO_OK;
  for (uint32_t part = 0; part < d.parts && status == ZO_OK; ++part) status = d.status[part];
  return status;
}

#endif
