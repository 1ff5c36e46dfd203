/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Errors of a tensor, and their way back through operators without parameters.
 *
 * The error of a value y is dL/dy, of one sample and for one LSB of y. A tensor's errors are integers
 * within +-32767 with one exponent, int8_t: dL/dy = error * 2^exponent. An exponent beyond that
 * saturates, which no network's gradients come near. That of errors that are all 0 says nothing.
 *
 * If a function makes errors of others, it takes and gives exponents apart, and multiplies
 * before it rounds, once and half up: its result fills 16 bits as far as its header's bound allows,
 * and nothing saturates. All functions are of one sample, and return ZO_ERROR_ARGUMENT for a null
 * pointer, a count of 0, and sizes or factors that do not fit.
 *
 * The function for each operator, from the errors e of its outputs to those of its inputs:
 *
 *   RELU and fused activations   zo_mask_errors
 *   functions of one value       zo_level_errors: LOGISTIC, TANH, ELU, HARD_SWISH, LEAKY_RELU, ABS
 *   ADD, SUB                     zo_scale_errors for each input, its scale / the output's; of a
 *                                tensor that is spread over a larger one zo_product_errors
 *   MUL by a constant            zo_scale_errors, the factors of the channels
 *   MUL of two activations       zo_product_errors
 *   CONCATENATION, PACK, PAD     zo_slice_errors
 *   SPLIT, UNPACK, SLICE         zo_place_errors
 *   RESHAPE                      nothing
 *   a tensor that several read   zo_add_errors: the sum over the readers
 *   pooling, MEAN                zo_pool_backprop.h
 *   convolutions                 zo_conv_backprop.h
 */
#ifndef TFLM_ZO_OPS_CORE_BACKWARD_ZO_ERRORS_H_
#define TFLM_ZO_OPS_CORE_BACKWARD_ZO_ERRORS_H_

#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Factors of a tensor's errors: that of value i is mantissas[i % channels] * 2^(exponent - 15). */
typedef struct zo_error_factors {
  const int16_t* mantissas; /* [channels], within +-32767 */
  uint32_t channels;        /* 1: one factor for all */
  int32_t exponent;         /* within +-255 */
} zo_error_factors;

/* Sets errors to 0 if the output is clamped by an activation.
 *
 *   count   of the tensor's values
 *   outputs int8 [count] of the operator that clamps
 *   low     outputs <= low are clamped; -129: none are
 *   high    outputs >= high are clamped; 128: none are
 *   errors  int16 [count], changed in place */
zo_status zo_mask_errors(uint32_t count, const int8_t* outputs, int32_t low, int32_t high, int16_t* errors);

/* The same in two steps: whether each output is within the clamp is all that masking needs.
 *
 *   bits  uint8 [(count + 7) / 8]; zo_mask_bits: may begin where `outputs` do, or before */
void zo_mask_bits(uint32_t count, const int8_t* outputs, int32_t low, int32_t high, uint8_t* bits);
void zo_mask_errors_by_bits(uint32_t count, const uint8_t* bits, int16_t* errors);

/* Errors times factors,
 *
 *   scaled_i        = floor((e_i m_i + 2^(a-1)) / 2^a)
 *   scaled exponent = exponent + a - 15 + the factors' exponent
 *
 * with m the mantissas and a >= 0 the smallest for which all |scaled_i| <= 32767 (with a = 0 there
 * is nothing to round).
 *
 *   count    of values; channels of the factors divide it
 *   errors   int16 [count]
 *   scaled   int16 [count], may begin where `errors` do, or before */
zo_status zo_scale_errors(const zo_error_factors* factors, uint32_t count, const int16_t* errors, int8_t exponent,
                          int16_t* scaled, int8_t* scaled_exponent);

/* Adds errors, shifted to the left to fill 16 bits, to those of another reader of the tensor,
 *
 *   sum_i        = floor((l_i 2^d + s_i) / 2^(d+o) + 1/2)
 *   sum exponent = that of l, plus o
 *
 * where l are the errors with the larger exponent, of the sum so far and of the shifted `errors`, s
 * the others, d the difference of their exponents, and o, 0 or 1, the smallest for which all
 * |sum_i| <= 32767. If d exceeds 15, s counts as 0. If either are all 0, the sum is the other.
 *
 *   errors  int16 [count]
 *   sum     int16 [count], changed in place with its exponent */
zo_status zo_add_errors(uint32_t count, const int16_t* errors, int8_t exponent, int16_t* sum, int8_t* sum_exponent);

/* Copies blocks of errors that lie `pitch` apart, from the outputs of CONCATENATION or PAD to one
 * input; the exponent stays. pitch >= length.
 *
 *   slice[i * length + j] = errors[offset + i * pitch + j], i < blocks, j < length
 *
 * CONCATENATION: a block is the input's sizes from the axis on, the pitch the output's, and there
 * is a block for each index of the axes before. PAD of height and width: a block is a row of the
 * input, in_w * channels, the pitch a row of the output, and the offset begins at (top, left).
 *
 *   slice  int16 [blocks * length], may begin where `errors` do, or before, and not elsewhere in them */
zo_status zo_slice_errors(uint32_t blocks, uint32_t pitch, uint32_t offset, uint32_t length, const int16_t* errors,
                          int16_t* slice);

/* The reverse: blocks of errors lie `pitch` apart among zeros, from a part to the input of SPLIT,
 * UNPACK or SLICE.
 *
 *   count   of the whole's values, which hold the blocks
 *   placed  int16 [count], not `errors` */
zo_status zo_place_errors(uint32_t blocks, uint32_t pitch, uint32_t offset, uint32_t length, const int16_t* errors,
                          uint32_t count, int16_t* placed);

/* Errors times the derivative of a function of single values, which depends on a level alone:
 * zo_scale_errors with the factor mantissas[levels[i] + 128] * 2^(factor_exponent - 15) of value i.
 *
 *   mantissas  int16 [256], within +-32767
 *   levels     int8 [count] of the function's input or output
 *   scaled     int16 [count], may begin where `errors` do, or before */
zo_status zo_level_errors(const int16_t* mantissas, int32_t factor_exponent, uint32_t count, const int8_t* levels,
                          const int16_t* errors, int8_t exponent, int16_t* scaled, int8_t* scaled_exponent);

/* A product of two tensors of which either may be smaller than the output: value i of the output
 * is that of value i / repeat % length of the one whose errors are asked for, and value
 * i / other_repeat % other_length of the other. Channels [1, 1, c] over [h, w, c]: repeat 1, length
 * c; a map [h, w, 1]: repeat c, length h w. */
typedef struct zo_error_product {
  uint32_t repeat, length; /* >= 1; repeat * length divides the output's values */
  uint32_t other_repeat, other_length;
  int32_t zero_point; /* of the other, within int8 */
} zo_error_product;

/* Whether sizes fit an output of `count` values, and sums 64 bits: of at most 2^20 values each. */
int zo_product_fits(const zo_error_product* product, uint32_t count);

/* Errors of a factor: those of the output times the other factor's real values, summed if the
 * factor is spread,
 *
 *   s_j              = sum over the i of j of e_i m (o_i - zero point)
 *   result_j         = floor((s_j + 2^(a-1)) / 2^a)
 *   result exponent  = exponent + a - 15 + the factor's exponent
 *
 * with m the one mantissa of `factor` (the other's scale) and a >= 0 the smallest for which all
 * |result_j| <= 32767. Without `other` all o_i - zero point are 1: errors of an ADD's input.
 *
 *   count   of the output's values
 *   other   int8 [other_length] or null
 *   errors  int16 [count]
 *   result  int16 [length], not `errors` */
zo_status zo_product_errors(const zo_error_product* product, const zo_error_factors* factor, uint32_t count,
                            const int8_t* other, const int16_t* errors, int8_t exponent, int16_t* result,
                            int8_t* result_exponent);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_BACKWARD_ZO_ERRORS_H_ */
