/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A backward program: the steps that lead errors from the input of the loss back to the outputs of
 * the layers of an exact tail, through blocks and branches, one operator a step.
 *
 * Its errors are dL/dy for one *real* unit of y and not for one LSB, so that scales of tensors
 * never count: the inputs of an ADD have the errors of the sum, a RESHAPE or a requantization
 * copies them, and a layer multiplies by its weights and their scales alone. Tensors with equal
 * errors share one *field* of errors, whose memory is needed only once.
 */
#ifndef TFLM_ZO_OPS_CORE_BACKWARD_ZO_BACKWARD_H_
#define TFLM_ZO_OPS_CORE_BACKWARD_ZO_BACKWARD_H_

#include "ops/core/backward/zo_errors.h"
#include "ops/core/backward/zo_pool_backprop.h"
#include "ops/core/nodes/zo_node_layer.h"
#include "ops/core/zo_workers.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zo_backward_kind {
  ZO_BACKWARD_MASK = 0,         /* an activation, of one field or of a copy: zo_mask_errors */
  ZO_BACKWARD_LAYER = 1,        /* FULLY_CONNECTED, CONV_2D, DEPTHWISE_CONV_2D: zo_conv_backprop */
  ZO_BACKWARD_MAX_POOL = 2,     /* zo_max_pool_backprop */
  ZO_BACKWARD_AVERAGE_POOL = 3, /* AVERAGE_POOL_2D, MEAN: zo_average_pool_backprop */
  ZO_BACKWARD_FACTORS = 4,      /* MUL by a constant, SUB: zo_scale_errors */
  ZO_BACKWARD_SLICE = 5,        /* CONCATENATION, PACK, PAD: zo_slice_errors */
  ZO_BACKWARD_ADD = 6,          /* adds one field to another: zo_add_errors */
  ZO_BACKWARD_PLACE = 7,        /* SPLIT, UNPACK, SLICE: zo_place_errors */
  ZO_BACKWARD_LEVELS = 8,       /* a function of one value: zo_level_errors */
  ZO_BACKWARD_PRODUCT = 9,      /* MUL of two activations: zo_product_errors */
  ZO_BACKWARD_SUM = 10,         /* ADD, SUB of a tensor that is spread: zo_product_errors */
  ZO_BACKWARD_BITS = 11,        /* MASK, with bits in the place of the activation: zo_mask_errors_by_bits */
} zo_backward_kind;

/* Errors of a tensor, or of several that have the same. */
typedef struct zo_error_field {
  int16_t* errors;   /* [count], or [minibatch, count] of one that is kept */
  int8_t* exponents; /* [1] or [minibatch] */
  uint32_t count;    /* of a sample, >= 1 */
  uint32_t kept;     /* 1: until the update, for each sample of the minibatch; 0: while a sample is
                        led back, in memory that other fields may have before and after */
} zo_error_field;

/* One operator. Fields that a kind has no use for are 0. */
typedef struct zo_backward_step {
  uint32_t kind; /* zo_backward_kind */
  uint32_t from; /* number of the field of the operator's output */
  uint32_t to;   /* of its input; MASK: may be `from` */
  int32_t low;   /* MASK, BITS: as in zo_mask_errors */
  int32_t high;
  uint32_t blocks; /* SLICE, PLACE: as in zo_slice_errors */
  uint32_t pitch;
  uint32_t offset;
  uint32_t length;
  const zo_node_layer* layer;      /* LAYER */
  const zo_pool* pool;             /* MAX_POOL, AVERAGE_POOL */
  const zo_error_product* product; /* PRODUCT, SUM */
  const int16_t* mantissas;        /* LAYER: scales of the weights, [out_c]; FACTORS: [channels]; LEVELS:
                                      [256]; PRODUCT, SUM: [1]. Each stands for mantissa *
                                      2^(exponent - 15) */
  uint32_t channels;               /* FACTORS */
  int32_t exponent;                /* of the mantissas: within +-255 */
} zo_backward_step;

/* The caller owns all of it. */
typedef struct zo_backward {
  const zo_backward_step* steps; /* [step_count], in the order in which they are done */
  const zo_error_field* fields;  /* [field_count]; 0: of the loss's input */
  uint32_t step_count;
  uint32_t field_count;
  uint32_t* norms;  /* [step_count], see zo_conv_backprop_norm_s8 */
  int32_t* scratch; /* [zo_backward_scratch_values] */
#if ZO_KERNEL_SETS
  /* Filled in by zo_backward_run_divided, null before. */
  const int16_t* const* turned; /* [step_count], of LAYER: weights for zo_loops_backprop; null: the portable form */
  void* memory;                 /* of zo_loops_backprop */
#endif
} zo_backward;

/* Whether steps of a kind look at an activation. */
static inline int zo_backward_looks(uint32_t kind) {
  return kind == ZO_BACKWARD_MASK || kind == ZO_BACKWARD_MAX_POOL || kind == ZO_BACKWARD_LEVELS ||
         kind == ZO_BACKWARD_PRODUCT;
}

/* int32 values of scratch memory of a program's steps: a layer's in_c, a pooling's channels. */
uint32_t zo_backward_scratch_values(const zo_backward_step* steps, uint32_t count);

/* Checks that steps and fields fit each other; once for all runs. */
zo_status zo_backward_check(const zo_backward* program);

/* Finds the norms of the layers' weights, which change with the weights: once a step.
 *   sources  [step_count], of LAYER its weights, as in zo_conv_backprop_s8; others are not read */
zo_status zo_backward_norms(const zo_backward* program, const int8_t* const* sources);

/* Does steps [begin, end): leads errors back, from field 0, which the caller has filled with its
 * exponents, to all others.
 *
 *   first    number in the minibatch of the first sample
 *   samples  how many
 *   sources  [step_count], of LAYER its weights, of MASK the operator's output, int8 [samples,
 *            count of `to`], of BITS its zo_mask_bits, of one sample, of MAX_POOL its input, int8
 *            [samples, in_h, in_w, channels], of LEVELS input or output, int8 [samples, count of
 *            `to`], of PRODUCT the other factor, int8 [samples, other_length]; others are not read */
zo_status zo_backward_run(const zo_backward* program, uint32_t begin, uint32_t end, uint32_t first, uint32_t samples,
                          const int8_t* const* sources);

#if ZO_KERNEL_SETS
/* The same with a desktop's loops. Workers divide samples. */
zo_status zo_backward_run_divided(const zo_backward* program, uint32_t begin, uint32_t end, uint32_t first,
                                  uint32_t samples, const int8_t* const* sources, const zo_workers* workers);
#endif

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_BACKWARD_ZO_BACKWARD_H_ */
