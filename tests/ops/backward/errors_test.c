/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "backward_test.h"
#include "ops/core/backward/zo_errors.h"

void test_elementwise(void) {
  const uint32_t channels = 1u + below(5), count = channels * (1u + below(9));
  int16_t* errors = make_errors(count);
  int16_t* sum = make_errors(count);
  int16_t* mantissas = make_errors(channels);
  int16_t* scaled = (int16_t*)allocate(count * sizeof(int16_t));
  double* exact = (double*)allocate(count * sizeof(double));
  const zo_error_factors factors = {mantissas, channels, (int32_t)below(41) - 20};
  const int8_t exponent = (int8_t)((int32_t)below(41) - 20);
  int8_t scaled_exponent, sum_exponent = (int8_t)((int32_t)below(41) - 20);
  for (uint32_t i = 0; i < count; ++i) {
    exact[i] = ldexp((double)errors[i] * mantissas[i % channels], exponent + factors.exponent - 15);
  }
  CHECK(zo_scale_errors(&factors, count, errors, exponent, scaled, &scaled_exponent) == ZO_OK);
  check_close(scaled, scaled_exponent, exact, count, 0.5);
  for (uint32_t i = 0; i < count; ++i) {
    exact[i] = ldexp((double)scaled[i], scaled_exponent) + ldexp((double)sum[i], sum_exponent);
  }
  CHECK(zo_add_errors(&factors, count, errors, exponent, sum, &sum_exponent) == ZO_OK);
  check_close(sum, sum_exponent, exact, count, 1.0);

  const zo_error_factors none = {NULL, 1, 0}, odd = {mantissas, count + 1u, 0},
                         far = {mantissas, 1, 256};
  CHECK(zo_scale_errors(&none, count, errors, 0, scaled, &scaled_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_scale_errors(&odd, count, errors, 0, scaled, &scaled_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_add_errors(&far, count, errors, 0, sum, &sum_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_scale_errors(NULL, 0, errors, 0, scaled, &scaled_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_scale_errors(NULL, count, errors, 0, NULL, &scaled_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_add_errors(NULL, count, NULL, 0, sum, &sum_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_mask_errors(count, NULL, 0, 9, errors) == ZO_ERROR_ARGUMENT);
  CHECK(zo_slice_errors(1, 2, 0, 3, errors, scaled) == ZO_ERROR_ARGUMENT);
  CHECK(zo_slice_errors(0, 2, 0, 1, errors, scaled) == ZO_ERROR_ARGUMENT);
  /* In place, in the other direction of nothing that is still to be read. */
  CHECK(zo_slice_errors(count / channels, channels, channels - 1u, 1, sum, scaled) == ZO_OK);
  CHECK(zo_slice_errors(count / channels, channels, channels - 1u, 1, sum, sum) == ZO_OK);
  CHECK(memcmp(sum, scaled, count / channels * sizeof sum[0]) == 0);
  free(errors);
  free(sum);
  free(mantissas);
  free(scaled);
  free(exact);
}

/* Exponents beyond one byte saturate. */
void test_exponents(void) {
  const int16_t mantissas[1] = {1 << 14}, errors[1] = {1 << 14};
  const zo_error_factors small = {mantissas, 1, -100}, large = {mantissas, 1, 100};
  int16_t scaled[1];
  int8_t exponent;
  CHECK(zo_scale_errors(&small, 1, errors, -100, scaled, &exponent) == ZO_OK && exponent == -128);
  CHECK(zo_scale_errors(&large, 1, errors, 100, scaled, &exponent) == ZO_OK && exponent == 127);
  CHECK(scaled[0] == 1 << 14);
}
