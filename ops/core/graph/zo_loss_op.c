/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/core/graph/zo_op.h"
#include "ops/core/loss/zo_loss.h"
#include "ops/core/zo_features.h"
#include "ops/core/zo_little_endian.h"

#if ZO_WITH_FLOOR_LOG2
#include "ops/core/papers/zo_floor_log2_loss.h"
#endif

/* Node inputs. */
enum { kLogits = 0, kLabel = 1, kFlags = 2 };
/* Node outputs, as a zo_buffer_source counts them. */
enum { kLoss = -1 };

/* Layout of the options. */
enum {
  kLossVersion = 0,
  kOptionKind = 1,
  kOptionPlaces = 2, /* 16 bits, 0 is 1 */
  kOptionElements = 4,
  kOptionZeroPoint = 8,
  kOptionScaleLog2e = 12, /* or multiplier */
  kOptionScale = 16,      /* or shift */
  kOptionBytes = 20,      /* then the parts of a SUM, as many as places */
};

/* Whether the build has a kind. */
static int has_kind(uint32_t kind) {
  return kind == ZO_LOSS_CROSS_ENTROPY || (ZO_WITH_FLOOR_LOG2 && kind == ZO_LOSS_FLOOR_LOG2) ||
         (ZO_WITH_LOSS_SUM && kind == ZO_LOSS_SUM) || (ZO_WITH_OTHER_LOSSES && kind < ZO_LOSS_FLOOR_LOG2);
}

typedef struct loss_op {
  uint32_t kind;
  uint32_t elements;
  uint32_t places; /* of CROSS_ENTROPY; of SUM its parts */
  uint32_t samples;
  zo_buffer logits;
  zo_buffer label;
  zo_buffer flags;
  zo_buffer loss;
} loss_op;

#if ZO_WITH_CHECKS
static uint64_t label_bytes(const loss_op* op, const uint8_t* options) {
#if ZO_WITH_LOSS_SUM
  if (op->kind == ZO_LOSS_SUM) {
    const uint64_t labels = zo_part_labels(options + kOptionBytes, op->places, op->elements);
    return labels == 0u ? UINT64_MAX : sizeof(int32_t) * op->samples * labels;
  }
#else
  (void)options;
#endif
  if (!ZO_WITH_OTHER_LOSSES) return sizeof(int32_t) * (uint64_t)op->samples;
  switch (op->kind) {
    case ZO_LOSS_CROSS_ENTROPY:
      return sizeof(int32_t) * (uint64_t)op->samples * op->places;
    case ZO_LOSS_FLOOR_LOG2:
      return sizeof(int32_t) * (uint64_t)op->samples;
    case ZO_LOSS_BINARY_CROSS_ENTROPY:
      return sizeof(int32_t) * (uint64_t)op->samples * op->elements;
    default:
      return (uint64_t)op->samples * op->elements;
  }
}
#endif

static zo_status read_loss_op(const uint8_t* options, size_t length, zo_buffer_source source, void* context,
                              loss_op* op) {
  if (!ZO_WITH_CHECKS) (void)length;
  if (ZO_WITH_CHECKS && (options == NULL || length < kOptionBytes || options[kLossVersion] != ZO_OPTIONS_VERSION ||
                         !has_kind(options[kOptionKind]) || zo_read_u32(options + kOptionElements) == 0u)) {
    return ZO_ERROR_OPTIONS;
  }
  if (ZO_WITH_CHECKS && source == NULL) return ZO_ERROR_ARGUMENT;
  op->kind = options[kOptionKind];
  op->elements = zo_read_u32(options + kOptionElements);
  op->places = (uint32_t)options[kOptionPlaces] | ((uint32_t)options[kOptionPlaces + 1] << 8);
  if (op->places == 0u) op->places = 1u;
  const size_t parts = op->kind == ZO_LOSS_SUM ? op->places : 0u;
  if (ZO_WITH_CHECKS &&
      (length != kOptionBytes + parts * ZO_PART_BYTES || (parts == 0u && op->elements % op->places != 0u))) {
    return ZO_ERROR_OPTIONS;
  }
  op->logits = source(context, kLogits);
  op->label = source(context, kLabel);
  op->flags = source(context, kFlags);
  op->loss = source(context, kLoss);
  op->samples = op->logits.bytes / op->elements;
#if ZO_WITH_CHECKS
  const int consistent = op->samples > 0u && op->logits.bytes % op->elements == 0u && op->logits.bytes != ZO_NO_SIZE &&
                         op->label.bytes == label_bytes(op, options) && op->flags.bytes >= sizeof(int32_t) &&
                         op->flags.bytes != ZO_NO_SIZE && op->loss.bytes == sizeof(int32_t) * (uint64_t)op->samples;
  return consistent ? ZO_OK : ZO_ERROR_ARGUMENT;
#else
  return ZO_OK;
#endif
}

zo_status zo_loss_op_check(const uint8_t* options, size_t length, zo_buffer_source source, void* context) {
  if (!ZO_WITH_CHECKS) return ZO_OK;
  loss_op op;
  return read_loss_op(options, length, source, context, &op);
}

zo_status zo_loss_op_run(const uint8_t* options, size_t length, zo_buffer_source source, void* context) {
  loss_op op;
  const zo_status status = read_loss_op(options, length, source, context, &op);
  if (status != ZO_OK) return status;
  if (op.loss.data == NULL) return ZO_OK; /* nobody reads the losses */
  int32_t* losses = (int32_t*)op.loss.data;
  if (op.flags.data == NULL) return ZO_ERROR_ARGUMENT;
  if ((zo_command_flags((const int32_t*)op.flags.data) & ZO_FLAG_LOSS) == 0u) {
    memset(losses, 0, op.loss.bytes);
    return ZO_OK;
  }

  const int8_t* logits = (const int8_t*)op.logits.data;
  const uint32_t first = zo_read_u32(options + kOptionScaleLog2e);
  const uint32_t second = zo_read_u32(options + kOptionScale);
  const zo_logit_scale scale = {first, second};
#if ZO_WITH_FLOOR_LOG2
  if (op.kind == ZO_LOSS_FLOOR_LOG2) {
    return zo_floor_log2_loss_s8(logits, op.samples, op.elements, scale, (const int32_t*)op.label.data, losses);
  }
#endif
#if ZO_WITH_LOSS_SUM
  if (op.kind == ZO_LOSS_SUM) {
    return zo_sum_loss_s8(options + kOptionBytes, op.places, logits, op.samples, op.elements,
                          (const int32_t*)op.label.data, losses);
  }
#endif
  if (!ZO_WITH_OTHER_LOSSES || op.kind == ZO_LOSS_CROSS_ENTROPY) {
    return zo_cross_entropy_s8(logits, op.samples, op.places, op.elements / op.places, scale,
                               (const int32_t*)op.label.data, losses);
  }
  switch (op.kind) {
    case ZO_LOSS_BINARY_CROSS_ENTROPY:
      return zo_binary_cross_entropy_s8(logits, op.samples, op.elements,
                                        (int32_t)zo_read_u32(options + kOptionZeroPoint), scale,
                                        (const int32_t*)op.label.data, losses);
    default:
      return zo_mean_squared_error_s8(logits, (const int8_t*)op.label.data, op.samples, op.elements, (int32_t)first,
                                      (int32_t)second, losses);
  }
}
