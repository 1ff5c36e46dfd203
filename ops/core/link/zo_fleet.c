/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/link/zo_fleet.h"

#include "ops/core/link/zo_link_protocol.h"
#include "ops/core/zo_little_endian.h"

enum {
  kFleetOperation = 1,
  kFleetRequest = 4,        /* depends on the operation, of a request */
  kFleetAnswer = 8,         /* of an answer */
  kFleetEvaluateBytes = 12, /* of a request */
  kFleetStateBytes = 24,    /* of an answer */
  kFleetDifferences = 28,   /* in an answer */
};

static bool is_same(const zo_fleet_state* a, const zo_fleet_state* b) {
  return a->step == b->step && a->checksum == b->checksum;
}

static zo_fleet_state state_of(const zo_fleet* self) {
  zo_fleet_state state;
  self->does->state(self->trainer, &state);
  return state;
}

static zo_status say_state(const zo_fleet* self, uint8_t* bytes, uint32_t* answer) {
  uint32_t weights;
  const zo_status status = self->does->weights(self->trainer, &weights);
  if (status != ZO_OK) return status;
  const zo_fleet_state now = state_of(self);
  const bool is_known = self->answer.samples != 0u && is_same(&self->answer.at, &now);
  zo_write_u32(bytes + kFleetAnswer, now.step);
  zo_write_u32(bytes + kFleetAnswer + 4, now.checksum);
  zo_write_u32(bytes + kFleetAnswer + 8, weights);
  zo_write_u32(bytes + kFleetAnswer + 12, (self->is_evaluating ? 1u : 0u) | (is_known ? 2u : 0u));
  *answer = kFleetStateBytes;
  return ZO_OK;
}

static zo_status answer_evaluation(zo_fleet* self, uint32_t count, uint8_t* bytes, uint32_t* answer) {
  const zo_fleet_state now = state_of(self);
  const zo_fleet_state asked = {zo_read_u32(bytes + kFleetRequest), zo_read_u32(bytes + kFleetRequest + 4)};
  if (count != kFleetEvaluateBytes) return ZO_ERROR_ARGUMENT;
  if (!is_same(&asked, &now)) return ZO_ERROR_ORDER;
  const zo_status failure = self->failure;
  self->failure = ZO_OK;
  if (failure != ZO_OK) return failure; /* reported once: a repeated request tries again */
  const zo_fleet_answer* known = &self->answer;
  if (known->samples == 0u || !is_same(&known->at, &now)) {
    self->is_evaluating = true;
    return ZO_OK;
  }
  zo_write_u32(bytes + kFleetAnswer, known->at.step);
  zo_write_u32(bytes + kFleetAnswer + 4, known->at.checksum);
  zo_write_u32(bytes + kFleetAnswer + 8, known->samples);
  zo_write_u64(bytes + kFleetAnswer + 12, (uint64_t)known->loss);
  for (uint32_t q = 0; q < known->queries; ++q) {
    zo_write_u64(bytes + kFleetDifferences + 8u * q, (uint64_t)known->difference[q]);
  }
  *answer = kFleetDifferences + 8u * known->queries;
  return ZO_OK;
}

static zo_status take_records(zo_fleet* self, uint32_t count, uint8_t* bytes, uint32_t* answer) {
  const uint32_t size = self->record_bytes;
  const uint32_t end = count - kFleetRequest;
  if (end == 0u || end % size != 0u) return ZO_ERROR_ARGUMENT;
  for (uint32_t at = 0; at < end; at += size) {
    const zo_fleet_state before = state_of(self);
    const zo_status status = self->does->take(self->trainer, bytes + kFleetRequest + at, size);
    if (status != ZO_OK) return status;
    const zo_fleet_state now = state_of(self);
    /* The evaluation in progress is of an earlier step. */
    if (!is_same(&before, &now)) {
      self->is_evaluating = false;
      self->failure = ZO_OK;
    }
  }
  return say_state(self, bytes, answer);
}

/* Does a request of `count` bytes in the link's buffer. */
static zo_status serve_fleet(const zo_link* link, uint32_t count, uint32_t* answer) {
  zo_fleet* self = link->fleet;
  uint8_t* bytes = link->buffer;
  switch (bytes[kFleetOperation]) {
    case ZO_LINK_FLEET_STATE:
      return say_state(self, bytes, answer);
    case ZO_LINK_FLEET_EVALUATE:
      return answer_evaluation(self, count, bytes, answer);
    case ZO_LINK_FLEET_RECORDS:
      return take_records(self, count, bytes, answer);
    default:
      return ZO_ERROR_OPCODE;
  }
}

zo_status zo_link_add_fleet(zo_link* link, zo_fleet* fleet) {
  if (link == NULL || fleet == NULL || fleet->does == NULL || fleet->record_bytes == 0u) {
    return ZO_ERROR_ARGUMENT;
  }
  /* A record has 20 bytes and 4 for each query, so this is an answer and its checksum. */
  const uint32_t answer = kFleetDifferences + 2u * (fleet->record_bytes - 20u);
  if (link->buffer_bytes < answer + ZO_FRAME_CHECKSUM_BYTES) return ZO_ERROR_ARGUMENT;
  link->fleet = fleet;
  link->serve_fleet = serve_fleet;
  return ZO_OK;
}

bool zo_fleet_is_evaluating(const zo_fleet* self) { return self->is_evaluating; }

void zo_fleet_work(zo_fleet* self) {
  if (!self->is_evaluating) return;
  self->answer.samples = 0;
  self->failure = self->does->evaluate(self->trainer, &self->answer);
  self->is_evaluating = self->failure == ZO_OK && self->answer.samples == 0u;
}
