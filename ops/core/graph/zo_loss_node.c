/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/core/graph/zo_node.h"
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
  kOptionVersion = 0,
  kOptionKind = 1,
  kOptionElements = 4,
  kOptionZeroPoint = 8,
  kOptionScaleLog2e = 12, /* or multiplier */
  kOptionScale = 16,      /* or shift */
  kOptionBytes = 20,
};

/* Whether the build has a kind. */
static int has_kind(uint32_t kind) {
  return kind == ZO_LOSS_CROSS_ENTROPY || (ZO_WITH_FLOOR_LOG2 && kind == ZO_LOSS_FLOOR_LOG2) ||
         (ZO_WITH_OTHER_LOSSES && kind < ZO_LOSS_FLOOR_LOG2);
}

typedef struct loss_node {
  uint32_t kind;
  uint32_t elements;
  uint32_t samples;
  zo_buffer logits;
  zo_buffer label;
  zo_buffer flags;
  zo_buffer loss;
} loss_node;

static uint64_t label_bytes(const loss_node* node) {
  if (!ZO_WITH_OTHER_LOSSES) return sizeof(int32_t) * (uint64_t)node->samples;
  switch (node->kind) {
    case ZO_LOSS_CROSS_ENTROPY:
    case ZO_LOSS_FLOOR_LOG2:
      return sizeof(int32_t) * (uint64_t)node->samples;
    case ZO_LOSS_BINARY_CROSS_ENTROPY:
      return sizeof(int32_t) * (uint64_t)node->samples * node->elements;
    default:
      return (uint64_t)node->samples * node->elements;
  }
}

static zo_status read_node(const uint8_t* options, size_t length, zo_buffer_source source,
                           void* context, loss_node* node) {
  if (options == NULL || length != kOptionBytes || options[kOptionVersion] != ZO_OPTIONS_VERSION ||
      !has_kind(options[kOptionKind]) || zo_read_u32(options + kOptionElements) == 0u) {
    return ZO_ERROR_OPTIONS;
  }
  if (source == NULL) return ZO_ERROR_ARGUMENT;
  node->kind = options[kOptionKind];
  node->elements = zo_read_u32(options + kOptionElements);
  node->logits = source(context, kLogits);
  node->label = source(context, kLabel);
  node->flags = source(context, kFlags);
  node->loss = source(context, kLoss);
  node->samples = node->logits.bytes / node->elements;
  const int consistent = node->samples > 0u && node->logits.bytes % node->elements == 0u &&
                         node->logits.bytes != ZO_NO_SIZE &&
                         node->label.bytes == label_bytes(node) &&
                         node->flags.bytes >= sizeof(int32_t) && node->flags.bytes != ZO_NO_SIZE &&
                         node->loss.bytes == sizeof(int32_t) * (uint64_t)node->samples;
  return consistent ? ZO_OK : ZO_ERROR_ARGUMENT;
}

zo_status zo_loss_node_check(const uint8_t* options, size_t length, zo_buffer_source source,
                             void* context) {
  loss_node node;
  return read_node(options, length, source, context, &node);
}

zo_status zo_loss_node_run(const uint8_t* options, size_t length, zo_buffer_source source,
                           void* context) {
  loss_node node;
  const zo_status status = read_node(options, length, source, context, &node);
  if (status != ZO_OK) return status;
  if (node.loss.data == NULL) return ZO_OK; /* nobody reads the losses */
  int32_t* losses = (int32_t*)node.loss.data;
  if (node.flags.data == NULL) return ZO_ERROR_ARGUMENT;
  if ((zo_command_flags((const int32_t*)node.flags.data) & ZO_FLAG_LOSS) == 0u) {
    memset(losses, 0, node.loss.bytes);
    return ZO_OK;
  }

  const int8_t* logits = (const int8_t*)node.logits.data;
  const uint32_t first = zo_read_u32(options + kOptionScaleLog2e);
  const uint32_t second = zo_read_u32(options + kOptionScale);
  const zo_logit_scale scale = {first, second};
#if ZO_WITH_FLOOR_LOG2
  if (node.kind == ZO_LOSS_FLOOR_LOG2) {
    return zo_floor_log2_loss_s8(logits, node.samples, node.elements, scale,
                                 (const int32_t*)node.label.data, losses);
  }
#endif
  if (!ZO_WITH_OTHER_LOSSES || node.kind == ZO_LOSS_CROSS_ENTROPY) {
    return zo_cross_entropy_s8(logits, node.samples, node.elements, scale,
                               (const int32_t*)node.label.data, losses);
  }
  switch (node.kind) {
    case ZO_LOSS_BINARY_CROSS_ENTROPY:
      return zo_binary_cross_entropy_s8(logits, node.samples, node.elements,
                                        (int32_t)zo_read_u32(options + kOptionZeroPoint), scale,
                                        (const int32_t*)node.label.data, losses);
    default:
      return zo_mean_squared_error_s8(logits, (const int8_t*)node.label.data, node.samples,
                                      node.elements, (int32_t)first, (int32_t)second, losses);
  }
}
