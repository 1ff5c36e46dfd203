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
    exact[i] = ldexp((double)errors[i], exponent) + ldexp((double)sum[i], sum_exponent);
  }
  CHECK(zo_add_errors(count, errors, exponent, sum, &sum_exponent) == ZO_OK);
  check_close(sum, sum_exponent, exact, count, 1.0);

  const zo_error_factors none = {NULL, 1, 0}, odd = {mantissas, count + 1u, 0}, far = {mantissas, 1, 256};
  CHECK(zo_scale_errors(&none, count, errors, 0, scaled, &scaled_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_scale_errors(&odd, count, errors, 0, scaled, &scaled_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_scale_errors(&far, count, errors, 0, scaled, &scaled_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_scale_errors(NULL, count, errors, 0, scaled, &scaled_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_scale_errors(&factors, 0, errors, 0, scaled, &scaled_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_scale_errors(&factors, count, errors, 0, NULL, &scaled_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_add_errors(count, NULL, 0, sum, &sum_exponent) == ZO_ERROR_ARGUMENT);
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

/* Channels over an image, an image over channels, one value over all. */
void test_products(void) {
  const uint32_t channels = 1u + below(5), positions = 1u + below(7), count = channels * positions;
  const uint32_t lengths[3] = {channels, positions, count}, repeats[3] = {1, channels, 1};
  const uint32_t own = below(3), others = below(3);
  const zo_error_product p = {repeats[own], lengths[own], repeats[others], lengths[others], (int32_t)below(256) - 128};
  int16_t* errors = make_errors(count);
  int16_t* mantissa = make_errors(256);
  int8_t* other = make_bytes(p.other_length);
  int16_t* found = (int16_t*)allocate(p.length * sizeof(int16_t));
  double* exact = (double*)allocate(count * sizeof(double));
  const zo_error_factors factor = {mantissa, 1, (int32_t)below(41) - 20};
  const int8_t exponent = (int8_t)((int32_t)below(41) - 20);
  int8_t found_exponent;
  for (uint32_t i = 0; i < count; ++i) {
    const int value = other[i / p.other_repeat % p.other_length] - p.zero_point;
    exact[i / p.repeat % p.length] += ldexp((double)errors[i] * value * mantissa[0], exponent + factor.exponent - 15);
  }
  CHECK(zo_product_errors(&p, &factor, count, other, errors, exponent, found, &found_exponent) == ZO_OK);
  check_close(found, found_exponent, exact, p.length, 0.5);
  const zo_error_product longer = {p.repeat, p.length + count, p.other_repeat, p.other_length, 0};
  CHECK(zo_product_errors(&longer, &factor, count, other, errors, 0, found, &found_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_product_errors(&p, NULL, count, other, errors, 0, found, &found_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(!zo_product_fits(&p, 0) && !zo_product_fits(NULL, count));

  int8_t* levels = make_bytes(count);
  int16_t* scaled = (int16_t*)allocate(count * sizeof(int16_t));
  for (uint32_t i = 0; i < count; ++i) {
    exact[i] = ldexp((double)errors[i] * mantissa[levels[i] + 128], exponent + 3 - 15);
  }
  CHECK(zo_level_errors(mantissa, 3, count, levels, errors, exponent, scaled, &found_exponent) == ZO_OK);
  check_close(scaled, found_exponent, exact, count, 0.5);
  CHECK(zo_level_errors(NULL, 3, count, levels, errors, 0, scaled, &found_exponent) == ZO_ERROR_ARGUMENT);
  CHECK(zo_level_errors(mantissa, 256, count, levels, errors, 0, scaled, &found_exponent) == ZO_ERROR_ARGUMENT);

  const uint32_t offset = below(channels), length = channels - offset;
  memset(scaled, 77, count * sizeof scaled[0]);
  CHECK(zo_place_errors(positions, channels, offset, length, errors, count, scaled) == ZO_OK);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t position = i / channels, c = i % channels;
    CHECK(scaled[i] == (c < offset ? 0 : errors[position * length + c - offset]));
  }
  CHECK(zo_place_errors(0, channels, 0, 1, errors, count, scaled) == ZO_ERROR_ARGUMENT);
  CHECK(zo_place_errors(1, 2, 0, 3, errors, count, scaled) == ZO_ERROR_ARGUMENT);
  free(errors);
  free(mantissa);
  free(other);
  free(found);
  free(exact);
  free(levels);
  free(scaled);
}

/* The largest sum of products: of 2^20 errors, levels and a factor at their ends. */
void test_largest_product(void) {
  const uint32_t count = UINT32_C(1) << 20;
  int16_t* errors = (int16_t*)allocate(count * sizeof(int16_t));
  int8_t* other = (int8_t*)allocate(count);
  for (uint32_t i = 0; i < count; ++i) errors[i] = -32767;
  memset(other, 127, count);
  const int16_t mantissa = 32767;
  const zo_error_factors factor = {&mantissa, 1, 0};
  const zo_error_product p = {count, 1, 1, count, -128};
  int16_t found;
  int8_t exponent;
  CHECK(zo_product_errors(&p, &factor, count, other, errors, 0, &found, &exponent) == ZO_OK);
  const double exact = ldexp(-32767.0 * 32767.0 * 255.0, 20 - 15);
  check_close(&found, exponent, &exact, 1, 0.5);
  const zo_error_product larger = {count * 2u, 1, 1, count * 2u, -128};
  CHECK(!zo_product_fits(&larger, count * 2u));
  free(errors);
  free(other);
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
