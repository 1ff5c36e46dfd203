/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * LOSS: per-sample losses of int8 outputs in integer arithmetic.
 */
#ifndef TFLM_ZO_OPS_CORE_LOSS_ZO_LOSS_H_
#define TFLM_ZO_OPS_CORE_LOSS_ZO_LOSS_H_

#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fraction bits of every loss: int32, unit 2^-16 nat; of the mean squared error 2^-16 (8 s)^2,
 * where s is the scale of the output: 1 is the error of 8 levels. */
#define ZO_LOSS_BITS 16

typedef enum zo_loss_kind {
  ZO_LOSS_CROSS_ENTROPY = 0,
  ZO_LOSS_BINARY_CROSS_ENTROPY = 1,
  ZO_LOSS_MEAN_SQUARED_ERROR = 2,
  ZO_LOSS_FLOOR_LOG2 = 3,
  ZO_LOSS_SUM = 4, /* of parts */
} zo_loss_kind;

/* Scale s of the logits for the cross-entropies, prepared off-line:
 * scale_log2e = round(s * log2(e) * 2^24), scale = round(s * 2^24).
 * Range of s: 2^-20 to 64. */
typedef struct zo_logit_scale {
  uint32_t scale_log2e;
  uint32_t scale;
} zo_logit_scale;

/* The loss of a model. */
typedef struct zo_model_loss {
  uint32_t kind;        /* zo_loss_kind */
  int32_t zero_point;   /* of the logits; BINARY_CROSS_ENTROPY */
  zo_logit_scale scale; /* of all but MEAN_SQUARED_ERROR */
  uint32_t places;      /* of CROSS_ENTROPY, >= 1; each has its logits and its label; of SUM the number of parts */
  const uint8_t* parts; /* of SUM, else null */
} zo_model_loss;

/* A part of a SUM: one loss of some channels of the outputs, at each of its places.
 *
 * Layout of a part, little-endian: kind, zero point, delta, shift (8 bits each), multiplier, error
 * factor (16 bits each), first, stride, places, channels, scale_log2e, scale (32 bits each).
 *
 *   kind      CROSS_ENTROPY, BINARY_CROSS_ENTROPY, or MEAN_SQUARED_ERROR for errors
 *   place p   has the outputs first + p stride ... + channels - 1
 *   labels    int32 [places] (CROSS_ENTROPY) or [places, channels], one part after the other; -1: no label;
 *             targets of errors are levels + 128
 *   delta     of errors, in levels d: 255 for d^2, 0 for |d|, else Huber's: d^2 up to delta, then
 *             delta (2 |d| - delta)
 *   value     sum over places, of errors in levels, else unit 2^-16 nat
 *   loss      sum over the parts of round(value multiplier / 2^shift), multiplier >= 1, shift 0..62
 *   errors    those of the part's kind (of delta 0: +-32640, else 128 d, |d| at most delta) factor / 65535 */
#define ZO_PART_BYTES 32

/* Sum over the places of each sample of the softmax cross-entropy
 *   loss = ln(sum_j exp(s (z_j - z_max))) + s (z_max - z_label).
 *
 *   logits   int8 [samples, places, classes], places >= 1, classes >= 2; the zero point cancels
 *   labels   int32 [samples, places], 0..classes - 1, or -1 for no label (loss 0)
 *   losses   int32 [samples], >= 0, unit 2^-16 nat, saturated to INT32_MAX
 *
 * Within 1e-3 of float64 for every logit vector (about 1e-4; tests/core/test_loss.py measures it).
 * In integers, with E_j = zo_exp2_negative((z_max - z_j) scale_log2e), 0 if that argument is
 * 31 * 2^24 or more:
 *
 *   floor((floor(zo_log2(sum_j E_j) * 2977044472 / 2^34) + (z_max - z_label) scale + 2^7) / 2^8),
 *   2977044472 = round(2^32 ln 2).
 *
 * Errors: ZO_ERROR_ARGUMENT, ZO_ERROR_LABEL; losses are untouched then. */
zo_status zo_cross_entropy_s8(const int8_t* logits, uint32_t samples, uint32_t places, uint32_t classes,
                              zo_logit_scale scale, const int32_t* labels, int32_t* losses);

/* d loss / d (s z_j) = softmax_j - 1{j = label}, for a head trained by its exact gradient.
 *
 *   logits, labels  of one place for each sample; places of a sample are samples of their own
 *   errors  int16 [samples, classes], unit 2^-15, saturated to +-32767; 0 for an unlabelled sample
 *
 * The softmax in integers, with n the fewest low bits without which the sum of E_j has 16 bits and
 * D = floor(sum_j E_j / 2^n): floor((floor(E_j / 2^n) 2^15 + floor(D / 2)) / D).
 *
 * Same contract and errors as zo_cross_entropy_s8. */
zo_status zo_cross_entropy_error_s8(const int8_t* logits, uint32_t samples, uint32_t classes, zo_logit_scale scale,
                                    const int32_t* labels, int16_t* errors);

/* Sum over outputs of the sigmoid cross-entropy of each sample,
 *   loss = sum_j ln(1 + exp(-|x_j|)) + (x_j on the wrong side ? |x_j| : 0),
 *   x_j = s (z_j - zero_point).
 *
 *   logits   int8 [samples, outputs]
 *   labels   int32 [samples, outputs], 0 or 1, or -1 for an unlabelled output
 *   losses   int32 [samples] */
zo_status zo_binary_cross_entropy_s8(const int8_t* logits, uint32_t samples, uint32_t outputs, int32_t zero_point,
                                     zo_logit_scale scale, const int32_t* labels, int32_t* losses);

/* d loss / d x_j = sigmoid(x_j) - label.
 *
 *   errors  int16 [samples, outputs], unit 2^-15, within +-2^15 - 1; 0 for an unlabelled output
 *
 * In integers, with E = zo_exp2_negative(|z_j - zero_point| scale_log2e), as in a cross-entropy:
 * sigmoid(|x|) = 2^15 - floor((floor(E / 2^15) 2^15 + floor(D / 2)) / D), D = 2^15 + floor(E /
 * 2^15).
 *
 * Same contract and errors as zo_binary_cross_entropy_s8. */
zo_status zo_binary_cross_entropy_error_s8(const int8_t* logits, uint32_t samples, uint32_t outputs, int32_t zero_point,
                                           zo_logit_scale scale, const int32_t* labels, int16_t* errors);

/* Mean squared error of each sample, output and target quantized alike,
 *   loss = s^2 / elements * sum_j (z_j - t_j)^2.
 *
 *   outputs, targets  int8 [samples, elements], elements 1..2^20
 *   multiplier, shift s^2 / elements / unit * 2^16 = multiplier * 2^-shift, where the unit is
 *                     the value of a loss of 1; multiplier in 2^30..2^31-1, shift in 0..62
 *   losses            int32 [samples], saturated to INT32_MAX */
zo_status zo_mean_squared_error_s8(const int8_t* outputs, const int8_t* targets, uint32_t samples, uint32_t elements,
                                   int32_t multiplier, int32_t shift, int32_t* losses);

/* Its derivative by the outputs, up to a factor that all of them share: 128 (z_j - t_j).
 *
 *   errors  int16 [samples, elements]
 *
 * Same contract and errors as zo_mean_squared_error_s8. */
zo_status zo_mean_squared_error_error_s8(const int8_t* outputs, const int8_t* targets, uint32_t samples,
                                         uint32_t elements, int16_t* errors);

/* The number of labels of a sample with these parts, or 0 where a part has no outputs, or others than `elements`. */
uint32_t zo_part_labels(const uint8_t* parts, uint32_t count, uint32_t elements);

/* The SUM of each sample.
 *
 *   outputs  int8 [samples, elements]
 *   labels   int32 [samples, zo_part_labels]
 *   losses   int32 [samples], saturated to INT32_MAX
 *
 * Errors: ZO_ERROR_ARGUMENT, ZO_ERROR_LABEL; losses of samples before the wrong label are written then. */
zo_status zo_sum_loss_s8(const uint8_t* parts, uint32_t count, const int8_t* outputs, uint32_t samples,
                         uint32_t elements, const int32_t* labels, int32_t* losses);

/* Its derivative by the outputs' real values, up to a factor that all of them share.
 *
 *   errors  int16 [samples, elements]; 0 for outputs without a label, or in no part
 *
 * Same contract and errors as zo_sum_loss_s8. */
zo_status zo_sum_loss_error_s8(const uint8_t* parts, uint32_t count, const int8_t* outputs, uint32_t samples,
                               uint32_t elements, const int32_t* labels, int16_t* errors);

/* The loss of a sequence, of its steps with a label. */
typedef enum zo_loss_over {
  ZO_OVER_SUM = 0,     /* their sum, saturated to INT32_MAX */
  ZO_OVER_LARGEST = 1, /* that of the step with the largest output, of a BINARY_CROSS_ENTROPY of one output:
                          the smallest loss if the label is 1, the largest if it is 0 */
} zo_loss_over;

/* Adds the losses of a step to those of its sequences.
 *
 *   labels  int32 [samples], the step's labels; null with ZO_OVER_SUM
 *   losses  int32 [samples], >= 0, of the step
 *   joined  int32 [samples]; -1 before the first step, and as long as no step of ZO_OVER_LARGEST has a label */
void zo_join_losses(uint32_t over, uint32_t samples, const int32_t* labels, const int32_t* losses, int32_t* joined);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_LOSS_ZO_LOSS_H_ */
