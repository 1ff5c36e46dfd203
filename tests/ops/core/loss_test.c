/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Losses of a batch. */
#include "core_test.h"

zo_logit_scale scale_of(double scale) {
  zo_logit_scale result;
  result.scale_log2e = (uint32_t)(scale * 1.4426950408889634 * 16777216.0 + 0.5);
  result.scale = (uint32_t)(scale * 16777216.0 + 0.5);
  return result;
}

void test_losses(void) {
  static const uint32_t classes[] = {2, 3, 10, 64, 65, 1000};
  static const double scales[] = {9.5367431640625e-07, 0.00390625, 0.1, 1.0, 64.0};
  for (size_t c = 0; c < sizeof classes / sizeof classes[0]; ++c) {
    for (size_t s = 0; s < sizeof scales / sizeof scales[0]; ++s) {
      const uint32_t samples = 5, n = classes[c];
      const zo_logit_scale scale = scale_of(scales[s]);
      array logits = make_array(samples * n, 1, 127), targets = make_array(samples * n, 3, 127);
      int32_t* labels = (int32_t*)allocate(sizeof(int32_t) * samples);
      int32_t* binary = (int32_t*)allocate(sizeof(int32_t) * samples * n);
      int32_t* losses = (int32_t*)allocate(sizeof(int32_t) * samples);
      int16_t* errors = (int16_t*)allocate(sizeof(int16_t) * samples * n);
      memset(logits.at, s % 2 ? 127 : -128, n); /* one sample with all logits equal */
      for (uint32_t i = 0; i < samples; ++i) labels[i] = random_between(-1, (int32_t)n - 1);
      for (uint32_t i = 0; i < samples * n; ++i) binary[i] = random_between(-1, 1);

      CHECK(zo_cross_entropy_s8(logits.at, samples, 1, n, scale, labels, losses) == ZO_OK);
      for (uint32_t i = 0; i < samples; ++i) CHECK(losses[i] >= 0 && (labels[i] >= 0 || !losses[i]));
      CHECK(zo_floor_log2_loss_s8(logits.at, samples, n, scale, labels, losses) == ZO_OK);
      for (uint32_t i = 0; i < samples; ++i)
        CHECK(losses[i] >= 0 && losses[i] % ZO_FLOOR_LOG2_UNIT == 0 && (labels[i] >= 0 || !losses[i]));
      CHECK(zo_cross_entropy_error_s8(logits.at, samples, n, scale, labels, errors) == ZO_OK);
      CHECK(zo_binary_cross_entropy_error_s8(logits.at, samples, n, -5, scale, binary, errors) == ZO_OK);
      for (uint32_t i = 0; i < samples * n; ++i) {
        CHECK(binary[i] < 0 ? errors[i] == 0 : binary[i] == 1 ? errors[i] <= 0 : errors[i] >= 0);
      }
      CHECK(zo_mean_squared_error_error_s8(logits.at, targets.at, samples, n, errors) == ZO_OK);
      CHECK(zo_binary_cross_entropy_s8(logits.at, samples, n, -128, scale, binary, losses) == ZO_OK);
      CHECK(zo_binary_cross_entropy_s8(logits.at, samples, n, 127, scale, binary, losses) == ZO_OK);
      CHECK(zo_mean_squared_error_s8(logits.at, targets.at, samples, n, INT32_MAX, 0, losses) == ZO_OK);
      CHECK(zo_mean_squared_error_s8(logits.at, targets.at, samples, n, INT32_C(1) << 30, 62, losses) == ZO_OK);

      labels[samples - 1] = (int32_t)n;
      losses[0] = 77;
      errors[0] = 77;
      CHECK(zo_cross_entropy_s8(logits.at, samples, 1, n, scale, labels, losses) == ZO_ERROR_LABEL);
      CHECK(zo_floor_log2_loss_s8(logits.at, samples, n, scale, labels, losses) == ZO_ERROR_LABEL);
      CHECK(zo_cross_entropy_error_s8(logits.at, samples, n, scale, labels, errors) == ZO_ERROR_LABEL);
      binary[samples * n - 1] = 2;
      CHECK(zo_binary_cross_entropy_s8(logits.at, samples, n, 0, scale, binary, losses) == ZO_ERROR_LABEL);
      CHECK(zo_binary_cross_entropy_error_s8(logits.at, samples, n, 0, scale, binary, errors) == ZO_ERROR_LABEL);
      binary[samples * n - 1] = 0;
      CHECK(zo_binary_cross_entropy_s8(logits.at, samples, n, 128, scale, binary, losses) == ZO_ERROR_ARGUMENT);
      CHECK(zo_mean_squared_error_s8(logits.at, targets.at, samples, n, 1, 0, losses) == ZO_ERROR_ARGUMENT);
      CHECK(zo_mean_squared_error_s8(logits.at, targets.at, samples, n, INT32_MAX, 63, losses) == ZO_ERROR_ARGUMENT);
      CHECK(zo_mean_squared_error_s8(logits.at, targets.at, samples, n, INT32_MAX, -1, losses) == ZO_ERROR_ARGUMENT);
      CHECK(zo_mean_squared_error_s8(logits.at, NULL, samples, n, INT32_MAX, 0, losses) == ZO_ERROR_ARGUMENT);
      CHECK(zo_mean_squared_error_error_s8(logits.at, NULL, samples, n, errors) == ZO_ERROR_ARGUMENT);
      CHECK(zo_mean_squared_error_error_s8(logits.at, targets.at, samples, 0, errors) == ZO_ERROR_ARGUMENT);
      CHECK(zo_cross_entropy_s8(NULL, samples, 1, n, scale, labels, losses) == ZO_ERROR_ARGUMENT);
      CHECK(zo_floor_log2_loss_s8(NULL, samples, n, scale, labels, losses) == ZO_ERROR_ARGUMENT);
      const zo_logit_scale none = {0, 0};
      labels[samples - 1] = 0;
      CHECK(zo_cross_entropy_s8(logits.at, samples, 1, n, none, labels, losses) == ZO_ERROR_ARGUMENT);
      CHECK(zo_floor_log2_loss_s8(logits.at, samples, n, none, labels, losses) == ZO_ERROR_ARGUMENT);
      CHECK(losses[0] == 77 && errors[0] == 77);
      free(logits.memory);
      free(targets.memory);
      free(labels);
      free(binary);
      free(losses);
      free(errors);
    }
  }

  enum { kElements = 1 << 20 };
  array most = make_array(kElements, 0, 0), least = make_array(kElements, 0, 0);
  memset(most.at, 127, kElements);
  memset(least.at, -128, kElements);
  int32_t loss = 0;
  CHECK(zo_mean_squared_error_s8(most.at, least.at, 1, kElements, INT32_MAX, 0, &loss) == ZO_OK);
  CHECK(loss == INT32_MAX);
  CHECK(zo_mean_squared_error_s8(most.at, least.at, 1, kElements, INT32_C(1) << 30, 50, &loss) == ZO_OK);
  CHECK(loss == 65025); /* 255^2 2^20 2^30 / 2^50 */
  free(most.memory);
  free(least.memory);
}

/* Of every order of a few losses, in memory that ends where it has to. */
void test_calibration(void) {
  static const uint32_t percentiles[] = {1, 5000, 9000, 9900, 9999, ZO_PERCENTILE_MAX};
  for (uint32_t samples = 1; samples <= 130; ++samples) {
    int32_t* losses = (int32_t*)allocate(sizeof(int32_t) * samples);
    for (uint32_t i = 0; i < samples; ++i) {
      losses[i] = samples % 2 != 0 ? random_between(0, INT32_MAX) : random_between(0, 4);
    }
    for (size_t p = 0; p < sizeof percentiles / sizeof percentiles[0]; ++p) {
      const uint32_t room = zo_calibration_room(samples, percentiles[p]);
      zo_calibration calibration = {(int32_t*)allocate(sizeof(int32_t) * room), room, 0};
      int32_t threshold;
      CHECK(zo_calibration_threshold(&calibration, percentiles[p], &threshold) == ZO_ERROR_ARGUMENT);
      for (uint32_t i = 0; i < samples; ++i) zo_calibration_add(&calibration, losses[i]);
      CHECK(zo_calibration_threshold(&calibration, percentiles[p], &threshold) == ZO_OK);
      uint32_t above = 0, equal = 0;
      for (uint32_t i = 0; i < samples; ++i) {
        above += losses[i] > threshold;
        equal += losses[i] == threshold;
      }
      CHECK(above < room && above + equal >= room);
      CHECK(zo_calibration_threshold(&calibration, 0, &threshold) == ZO_ERROR_ARGUMENT);
      CHECK(zo_calibration_threshold(&calibration, ZO_PERCENTILE_MAX + 1, &threshold) == ZO_ERROR_ARGUMENT);
      calibration.room = room - 1;
      CHECK(zo_calibration_threshold(&calibration, percentiles[p], &threshold) == ZO_ERROR_MEMORY);
      free(calibration.largest);
    }
    free(losses);
  }
}

static void put_part(uint8_t* part, uint32_t kind, uint32_t delta, uint32_t first, uint32_t stride, uint32_t places,
                     uint32_t channels) {
  const zo_logit_scale scale = scale_of(0.1);
  memset(part, 0, ZO_PART_BYTES);
  part[0] = (uint8_t)kind;
  part[2] = (uint8_t)delta;
  part[4] = part[6] = part[7] = 255;
  put_u32(part + 8, first);
  put_u32(part + 12, stride);
  put_u32(part + 16, places);
  put_u32(part + 20, channels);
  put_u32(part + 24, scale.scale_log2e);
  put_u32(part + 28, scale.scale);
}

/* A grid of 6 cells, each with a score, four errors and three classes, in memory that ends where it has to. */
void test_sum_losses(void) {
  enum { kCells = 6, kStride = 8, kElements = kCells * kStride, kLabels = kCells * 6, kSamples = 2 };
  static const int32_t deltas[] = {0, 1, 20, 255};
  uint8_t* parts = (uint8_t*)allocate(3 * ZO_PART_BYTES);
  array outputs = make_array(kSamples * kElements, 2, 127);
  int32_t* labels = (int32_t*)allocate(sizeof(int32_t) * kSamples * kLabels);
  int32_t* losses = (int32_t*)allocate(sizeof(int32_t) * kSamples);
  int16_t* errors = (int16_t*)allocate(sizeof(int16_t) * kSamples * kElements);
  memset(outputs.at, 127, kElements);
  for (uint32_t d = 0; d < 4; ++d) {
    put_part(parts, ZO_LOSS_BINARY_CROSS_ENTROPY, 0, 0, kStride, kCells, 1);
    put_part(parts + ZO_PART_BYTES, ZO_LOSS_MEAN_SQUARED_ERROR, (uint32_t)deltas[d], 1, kStride, kCells, 4);
    put_part(parts + 2 * ZO_PART_BYTES, ZO_LOSS_CROSS_ENTROPY, 0, 5, kStride, kCells, 3);
    CHECK(zo_part_labels(parts, 3, kElements) == kLabels && zo_part_labels(parts, 1, kElements) == kCells);
    for (uint32_t i = 0; i < kSamples * kLabels; ++i) labels[i] = random_between(-1, 1);
    CHECK(zo_sum_loss_s8(parts, 3, outputs.at, kSamples, kElements, labels, losses) == ZO_OK);
    CHECK(losses[0] >= 0 && losses[1] >= 0);
    CHECK(zo_sum_loss_error_s8(parts, 3, outputs.at, kSamples, kElements, labels, errors) == ZO_OK);
    for (uint32_t p = 0; p < kCells; ++p) {
      for (uint32_t j = 0; j < 4; ++j) {
        const int32_t label = labels[kCells + 4 * p + j], error = errors[kStride * p + 1 + j];
        const int32_t distance = deltas[d] < 255 - label ? deltas[d] : 255 - label;
        CHECK(label < 0 ? error == 0 : error == (deltas[d] == 0 ? 32640 : 128 * distance));
      }
    }
    for (uint32_t i = 0; i < kSamples * kLabels; ++i) labels[i] = -1;
    CHECK(zo_sum_loss_s8(parts, 3, outputs.at, kSamples, kElements, labels, losses) == ZO_OK);
    CHECK(losses[0] == 0 && losses[1] == 0);
    CHECK(zo_sum_loss_error_s8(parts, 3, outputs.at, kSamples, kElements, labels, errors) == ZO_OK);
    for (uint32_t i = 0; i < kSamples * kElements; ++i) CHECK(errors[i] == 0);
  }
  for (uint32_t at = 0; at < kLabels; at += 5) { /* one of each part, too large */
    const int32_t before = labels[kLabels + at];
    labels[kLabels + at] = 256;
    CHECK(zo_sum_loss_s8(parts, 3, outputs.at, kSamples, kElements, labels, losses) == ZO_ERROR_LABEL);
    CHECK(zo_sum_loss_error_s8(parts, 3, outputs.at, kSamples, kElements, labels, errors) == ZO_ERROR_LABEL);
    labels[kLabels + at] = before;
  }
  /* The largest loss of many elements, and multipliers at their ends. */
  static const uint32_t wrong[][6] = {
      {3, 0, 0, 8, 6, 1}, {2, 0, 1, 8, 6, 8}, {2, 0, 0, 8, 0, 1},  {2, 0, 0, 8, 6, 0},
      {2, 0, 0, 7, 6, 8}, {0, 0, 0, 8, 6, 1}, {2, 0, 48, 1, 1, 1}, {2, 0, UINT32_MAX, UINT32_MAX, UINT32_MAX, 1}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    const uint32_t* w = wrong[i];
    put_part(parts, w[0], w[1], w[2], w[3], w[4], w[5]);
    CHECK(zo_part_labels(parts, 1, kElements) == 0u);
    CHECK(zo_sum_loss_s8(parts, 1, outputs.at, kSamples, kElements, labels, losses) == ZO_ERROR_ARGUMENT);
    CHECK(zo_sum_loss_error_s8(parts, 1, outputs.at, kSamples, kElements, labels, errors) == ZO_ERROR_ARGUMENT);
  }
  put_part(parts, ZO_LOSS_MEAN_SQUARED_ERROR, 255, 0, kElements, 1, kElements);
  parts[3] = 63; /* a shift */
  CHECK(zo_part_labels(parts, 1, kElements) == 0u);
  parts[3] = 0;
  parts[5] = 255;
  for (uint32_t i = 0; i < kSamples * kElements; ++i) labels[i % (kSamples * kLabels)] = 0;
  CHECK(zo_sum_loss_s8(parts, 1, outputs.at, 1, kElements, labels, losses) == ZO_OK && losses[0] > 0);
  parts[4] = parts[5] = 0; /* a multiplier */
  CHECK(zo_part_labels(parts, 1, kElements) == 0u && zo_part_labels(NULL, 1, kElements) == 0u);
  free(parts);
  free(outputs.memory);
  free(labels);
  free(losses);
  free(errors);
}
