/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/core/loss/zo_loss.h"
#include "ops/core/zo_little_endian.h"

/* Largest value of a part: its product with the multiplier stays below 2^63. */
#define VALUE_MAX ((UINT64_C(1) << 46) - 1u)

typedef struct loss_part {
  uint32_t kind;
  int32_t zero_point;
  int32_t delta;
  uint32_t shift;
  uint32_t multiplier;
  int32_t factor;
  uint32_t first;
  uint32_t stride;
  uint32_t places;
  uint32_t channels;
  uint32_t labels; /* of a place */
  zo_logit_scale scale;
} loss_part;

static loss_part read_part(const uint8_t* bytes) {
  loss_part part;
  part.kind = bytes[0];
  part.zero_point = (int8_t)bytes[1];
  part.delta = bytes[2];
  part.shift = bytes[3];
  part.multiplier = (uint32_t)bytes[4] | (uint32_t)bytes[5] << 8;
  part.factor = (int32_t)bytes[6] | (int32_t)bytes[7] << 8;
  part.first = zo_read_u32(bytes + 8);
  part.stride = zo_read_u32(bytes + 12);
  part.places = zo_read_u32(bytes + 16);
  part.channels = zo_read_u32(bytes + 20);
  part.scale.scale_log2e = zo_read_u32(bytes + 24);
  part.scale.scale = zo_read_u32(bytes + 28);
  part.labels = part.kind == ZO_LOSS_CROSS_ENTROPY ? 1u : part.channels;
  return part;
}

uint32_t zo_part_labels(const uint8_t* parts, uint32_t count, uint32_t elements) {
  uint64_t labels = 0;
  if (parts == NULL) return 0;
  for (uint32_t k = 0; k < count; ++k) {
    const loss_part part = read_part(parts + (size_t)k * ZO_PART_BYTES);
    if (part.kind > ZO_LOSS_MEAN_SQUARED_ERROR || part.places == 0u || part.channels == 0u || part.shift > 62u ||
        part.multiplier == 0u || (part.kind == ZO_LOSS_CROSS_ENTROPY && part.channels < 2u) ||
        (part.places > 1u && part.stride < part.channels) ||
        part.first + (uint64_t)(part.places - 1u) * part.stride + part.channels > elements) {
      return 0;
    }
    labels += (uint64_t)part.places * part.labels;
  }
  return labels <= UINT32_MAX ? (uint32_t)labels : 0u;
}

static int32_t clamp(int32_t value, int32_t limit) {
  if (value > limit) return limit;
  return value < -limit ? -limit : value;
}

/* Adds a place's errors to the value. */
static zo_status add_distances(const loss_part* part, const int8_t* outputs, const int32_t* labels, uint64_t* value) {
  for (uint32_t j = 0; j < part->channels; ++j) {
    if (labels[j] < -1 || labels[j] > 255) return ZO_ERROR_LABEL;
    if (labels[j] < 0) continue;
    const int32_t d = outputs[j] + 128 - labels[j];
    const int32_t size = d < 0 ? -d : d;
    const int32_t near = clamp(size, part->delta);
    *value += (uint32_t)(part->delta == 0 ? size : near * (2 * size - near));
  }
  return ZO_OK;
}

static zo_status value_of(const loss_part* part, const int8_t* outputs, const int32_t* labels, uint64_t* value) {
  *value = 0;
  for (uint32_t p = 0; p < part->places; ++p) {
    const int8_t* place = outputs + part->first + (size_t)p * part->stride;
    const int32_t* own = labels + (size_t)p * part->labels;
    int32_t loss = 0;
    zo_status status;
    if (part->kind == ZO_LOSS_CROSS_ENTROPY) {
      status = zo_cross_entropy_s8(place, 1, 1, part->channels, part->scale, own, &loss);
    } else if (part->kind == ZO_LOSS_BINARY_CROSS_ENTROPY) {
      status = zo_binary_cross_entropy_s8(place, 1, part->channels, part->zero_point, part->scale, own, &loss);
    } else {
      status = add_distances(part, place, own, value);
    }
    if (status != ZO_OK) return status;
    *value += (uint32_t)loss;
  }
  if (*value > VALUE_MAX) *value = VALUE_MAX;
  return ZO_OK;
}

zo_status zo_sum_loss_s8(const uint8_t* parts, uint32_t count, const int8_t* outputs, uint32_t samples,
                         uint32_t elements, const int32_t* labels, int32_t* losses) {
  const uint32_t of_sample = zo_part_labels(parts, count, elements);
  if (of_sample == 0u || outputs == NULL || labels == NULL || losses == NULL || samples == 0u) {
    return ZO_ERROR_ARGUMENT;
  }
  for (uint32_t i = 0; i < samples; ++i) {
    uint64_t sum = 0;
    for (uint32_t k = 0; k < count; ++k) {
      const loss_part part = read_part(parts + (size_t)k * ZO_PART_BYTES);
      uint64_t value;
      const zo_status status = value_of(&part, outputs, labels, &value);
      if (status != ZO_OK) return status;
      const uint64_t half = part.shift > 0u ? UINT64_C(1) << (part.shift - 1u) : 0u;
      const uint64_t loss = (value * part.multiplier + half) >> part.shift;
      sum += loss < (uint64_t)INT32_MAX ? loss : (uint64_t)INT32_MAX;
      labels += (size_t)part.places * part.labels;
    }
    losses[i] = sum < (uint64_t)INT32_MAX ? (int32_t)sum : INT32_MAX;
    outputs += elements;
  }
  return ZO_OK;
}

static zo_status errors_of_place(const loss_part* part, const int8_t* outputs, const int32_t* labels, int16_t* errors) {
  if (part->kind == ZO_LOSS_CROSS_ENTROPY) {
    return zo_cross_entropy_error_s8(outputs, 1, part->channels, part->scale, labels, errors);
  }
  if (part->kind == ZO_LOSS_BINARY_CROSS_ENTROPY) {
    return zo_binary_cross_entropy_error_s8(outputs, 1, part->channels, part->zero_point, part->scale, labels, errors);
  }
  for (uint32_t j = 0; j < part->channels; ++j) {
    if (labels[j] < -1 || labels[j] > 255) return ZO_ERROR_LABEL;
    const int32_t d = labels[j] < 0 ? 0 : outputs[j] + 128 - labels[j];
    errors[j] = (int16_t)(part->delta == 0 ? 255 * 128 * clamp(d, 1) : 128 * clamp(d, part->delta));
  }
  return ZO_OK;
}

zo_status zo_sum_loss_error_s8(const uint8_t* parts, uint32_t count, const int8_t* outputs, uint32_t samples,
                               uint32_t elements, const int32_t* labels, int16_t* errors) {
  if (zo_part_labels(parts, count, elements) == 0u || outputs == NULL || labels == NULL || errors == NULL ||
      samples == 0u) {
    return ZO_ERROR_ARGUMENT;
  }
  memset(errors, 0, (size_t)samples * elements * sizeof *errors);
  for (uint32_t i = 0; i < samples; ++i) {
    for (uint32_t k = 0; k < count; ++k) {
      const loss_part part = read_part(parts + (size_t)k * ZO_PART_BYTES);
      for (uint32_t p = 0; p < part.places; ++p) {
        const size_t at = part.first + (size_t)p * part.stride;
        const zo_status status = errors_of_place(&part, outputs + at, labels, errors + at);
        if (status != ZO_OK) return status;
        for (uint32_t j = 0; j < part.channels; ++j) {
          errors[at + j] = (int16_t)(errors[at + j] * part.factor / 65535);
        }
        labels += part.labels;
      }
    }
    outputs += elements;
    errors += elements;
  }
  return ZO_OK;
}
