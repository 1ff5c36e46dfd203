/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Types shared by every function of the op pack's core.
 *
 * The core is C99, uses integers only, allocates nothing, has no global state and calls nothing but
 * memcpy/memset.
 *
 * Two kinds of functions may have changed something if they fail (zo_status.h):
 *
 *   functions that fill in a struct or a buffer for the caller (readers of logs, writers of
 *   commands, zo_backward_run): a part of it may be filled in
 *   functions that move several tensors of the caller's, tensor by tensor: a tensor that is refused
 *   is not moved, the tensors before it are (zo_command_execute, zo_moves_apply)
 *
 * A pointer to an array of no elements may be null.
 */
#ifndef TFLM_ZO_OPS_CORE_ZO_TYPES_H_
#define TFLM_ZO_OPS_CORE_ZO_TYPES_H_

#include <stddef.h>
#include <stdint.h>

#include "ops/core/zo_status.h"

/* Family of the random direction z. Values are part of the file format. */
typedef enum zo_distribution_kind {
  /* z = +1 or -1, one random bit per weight; perturbation = mu * z. */
  ZO_RADEMACHER = 0,
  /* z = 0 with probability p_zero / 256, else uniform on -mu..mu; two random
   * bytes per weight; perturbation = z. (ElasticZO-INT8, Alg. 2 line 16.) */
  ZO_SPARSE_UNIFORM = 1,
  /* z = an int8 normal quantile in units of 3.5 / 127 standard deviations, one random byte per
   * weight; perturbation = round(z * mu / 2^12), half away from zero: mu is that of z = 1, unit 2^-12
   * LSB, round(epsilon * 3.5 / 127 * 2^12) for a standard deviation of epsilon LSB. (QZO-FF.) */
  ZO_GAUSSIAN = 2,
  /* z = 1 at one weight of each tensor, 0 at all others; no random bytes; perturbation = mu * z:
   * coordinate-wise gradient estimation (DeepZero), at the cost of one weight per tensor. */
  ZO_COORDINATE = 3,
} zo_distribution_kind;

/* Distribution of a perturbation. Chosen per instruction, not per model, so a
 * schedule (ElasticZO's p_zero) needs no other model. */
typedef struct zo_distribution {
  uint8_t kind;   /* zo_distribution_kind */
  uint8_t p_zero; /* ZO_SPARSE_UNIFORM: zero probability in 1/256, else 0 */
  uint16_t mu;    /* GAUSSIAN: 1..65535, else 1..127 LSB */
} zo_distribution;

/* One term of a perturbation. It has the layout of a command's items, which are read in place. */
typedef struct zo_perturb_term {
  uint32_t seed;
  int32_t k; /* -2, -1 or +1 */
} zo_perturb_term;

/* A perturbation: the sum of its terms. */
typedef struct zo_perturb_terms {
  const zo_perturb_term* terms; /* [count] */
  uint32_t count;               /* 0..ZO_MAX_TERMS */
} zo_perturb_terms;

/* One query of an update step: the weight moves by coefficient * z(seed).
 * Unit of the coefficient: 2^-16 LSB per unit of z. */
typedef struct zo_query {
  uint32_t seed;
  int32_t coefficient;
} zo_query;

/* Fraction bits of an update coefficient. */
#define ZO_COEFFICIENT_BITS 16
/* Most bits that an update of a few bits may have: those of an int8 weight's magnitude. */
#define ZO_UPDATE_BITS_MAX 7u
/* Largest number of queries in one step: bounds stack use and the control unit's state. Firmware
 * may define it as the number that its run has. */
#ifndef ZO_MAX_QUERIES
#define ZO_MAX_QUERIES 32
#endif
/* Seeds that a step reserves for the queries of a task, independent of ZO_MAX_QUERIES. */
#define ZO_QUERY_SEEDS 32
/* Largest number of terms of a perturbation; they are regenerated one after the other, so it
 * bounds nothing but the length of a command. */
#define ZO_MAX_TERMS 32
/* Weights after which the random stream of a (seed, tensor) pair restarts from
 * a state of its own, so that any tile can be regenerated alone. */
#define ZO_STREAM_TILE 1024

/* The type of a trainable tensor. Values are part of the generated tables; 1 is reserved. */
typedef enum zo_tensor_type {
  ZO_TENSOR_INT8 = 0,  /* weights that the forward pass reads as int8; with a fraction, updates have
                          the resolution of both */
  ZO_TENSOR_INT32 = 2, /* the biases of a layer: int32 [channels], aligned to 4 bytes, in the memory
                          that `weights` points to; no fraction */
} zo_tensor_type;

/* A layer's bias is moved like a weight v of its channel whose input is always 2^5, and is worth
 * 2^5 v: about the root mean square, in levels from its zero point, of an activation whose 255 levels
 * span eight standard deviations, as calibration leaves it. */
#define ZO_BIAS_SHIFT 5u
/* No step takes a bias beyond +-2^30; one that begins beyond does not get further away. Sums of
 * 32,896 products of int8 values, of which one is relative to its zero point, then stay in int32.
 */
#define ZO_BIAS_MAX (INT32_C(1) << 30)

/* One trainable tensor. The caller owns everything.
 *
 * Weights lie as in TFLite: [out, h, w, in] for CONV_2D, [1, h, w, out] for DEPTHWISE_CONV_2D,
 * [out, in] for FULLY_CONNECTED. The channel of weight i is (i / inner) % channels: inner = size /
 * channels, of a depthwise one 1. */
typedef struct zo_tensor {
  int8_t* weights;           /* [size], every value within +-limit between steps; biases as bytes */
  int8_t* fraction;          /* [size] or null: units of 2^-8 LSB, value in -128..127;
                                null selects the 8-bit update */
  const int32_t* multiplier; /* [channels] or null (= 1): Q31 factor of the
                                step, 0..2^31-1, per output channel */
  uint32_t size;             /* bytes of `weights` */
  uint32_t channels;         /* >= 1, read only if multiplier is given */
  uint32_t inner;            /* >= 1, read only if multiplier is given */
  uint32_t stream;           /* number of the tensor in the model: its random stream */
  int32_t limit;             /* 127 - headroom: the update clips to +-limit */
  uint32_t type;             /* zo_tensor_type */
} zo_tensor;

#endif /* TFLM_ZO_OPS_CORE_ZO_TYPES_H_ */
