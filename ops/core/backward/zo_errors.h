/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Errors of a tensor, and what operators without parameters make of them on their way back.
 *
 * The error of a value y is dL/dy, of one sample and for one LSB of y. A tensor's errors are 16-bit
 * integers with one exponent: dL/dy = error * 2^exponent. Integers are within +-32767. An exponent
 * is one of int8_t: one that a function finds to be beyond saturates, which no network's gradients
 * come near. The exponent of errors that are all 0 says nothing.
 *
 * Where a function makes errors of others, it takes and gives exponents apart, and multiplies
 * before it rounds, once and half up: its result fills 16 bits as far as its header's bound allows,
 * and nothing saturates. All functions are of one sample.
 *
 * What an operator asks for, from the errors e of its outputs to those of its inputs:
 *
 *   RELU and fused activations   zo_mask_errors
 *   ADD, SUB                     zo_scale_errors for each input, its scale / the output's
 *   MUL by a constant            zo_scale_errors, the factors of the channels
 *   CONCATENATION, PAD           zo_slice_errors
 *   RESHAPE                      nothing
 *   a tensor that several read   zo_add_errors: the sum of what comes back from each reader
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

/* Sets errors to 0 where the output is clamped by an activation.
 *
 *   count   of the tensor's values
 *   outputs int8 [count] of the operator that clamps
 *   low     outputs <= low are clamped; -129: none are
 *   high    outputs >= high are clamped; 128: none are
 *   errors  int16 [count], changed in place
 *
 * Errors: ZO_ERROR_ARGUMENT: a null pointer, or count 0. */
zo_status zo_mask_errors(uint32_t count, const int8_t* outputs, int32_t low, int32_t high,
                         int16_t* errors);

/* Errors times factors,
 *
 *   scaled_i        = floor((e_i m_i + 2^(a-1)) / 2^a)
 *   scaled exponent = exponent + a - 15 + the factors' exponent
 *
 * with m the mantissas and a >= 0 the smallest for which all |scaled_i| <= 32767 (with a = 0 there
 * is nothing to round). Without factors errors are only shifted to the left to fill 16 bits: all m
 * are 2^14 and the exponent is 1.
 *
 *   factors  or null
 *   count    of values; channels of the factors divide it
 *   errors   int16 [count]
 *   scaled   int16 [count], may be `errors`
 *
 * Errors: ZO_ERROR_ARGUMENT: a null pointer, count 0, factors that do not fit. */
zo_status zo_scale_errors(const zo_error_factors* factors, uint32_t count, const int16_t* errors,
                          int8_t exponent, int16_t* scaled, int8_t* scaled_exponent);

/* Adds scaled errors to those that another reader of the tensor has left there,
 *
 *   sum_i        = floor((l_i 2^d + s_i) / 2^(d+o) + 1/2)
 *   sum exponent = that of l, plus o
 *
 * where l are those of the larger exponent, of the sum so far and what zo_scale_errors makes of
 * `errors`, and s the others, d is the difference of their exponents, and o, 0 or 1, the smallest
 * for which all |sum_i| <= 32767. Where d exceeds 15, s counts as 0. If either are all 0, the sum
 * is the other.
 *
 *   factors  or null, as for zo_scale_errors
 *   errors   int16 [count]
 *   sum      int16 [count], changed in place with its exponent
 *
 * Errors: ZO_ERROR_ARGUMENT, as for zo_scale_errors. */
zo_status zo_add_errors(const zo_error_factors* factors, uint32_t count, const int16_t* errors,
                        int8_t exponent, int16_t* sum, int8_t* sum_exponent);

/* Copies blocks of errors that lie `pitch` apart, which is what CONCATENATION's inputs and PAD's
 * input are of their outputs; the exponent stays.
 *
 *   slice[i * length + j] = errors[offset + i * pitch + j], i < blocks, j < length
 *
 * CONCATENATION: a block is the input's sizes from the axis on, the pitch the output's, and there
 * is a block for each index of the axes before. PAD of height and width: a block is a row of the
 * input, in_w * channels, the pitch a row of the output, and the offset begins at (top, left).
 *
 *   slice  int16 [blocks * length], may begin where `errors` does, and not elsewhere in it
 *
 * Errors: ZO_ERROR_ARGUMENT: a null pointer, blocks or length 0, pitch < length. */
zo_status zo_slice_errors(uint32_t blocks, uint32_t pitch, uint32_t offset, uint32_t length,
                          const int16_t* errors, int16_t* slice);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_BACKWARD_ZO_ERRORS_H_ */
