/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The control unit of weight perturbation: any settings, losses and order of calls. Its requests
 * are executed on a tensor, as an op would; every command passes the op's own check, and whenever
 * nothing is in force the weights follow from the coefficients alone.
 */
#include "fuzz_input.h"
#include "ops/core/graph/zo_command.h"
#include "ops/core/random/zo_stream.h"
#include "ops/core/run/zo_control.h"
#include "ops/core/weights/zo_update.h"

enum { kMostSize = 40, kMostWords = 160 };

typedef struct world {
  zo_control_settings settings;
  zo_control control;
  zo_tensor tensor, expected;
  zo_limits limits;
  int32_t* words;
  uint32_t capacity;
} world;

static void take_settings(fuzz_input* in, zo_control_settings* s) {
  memset(s, 0, sizeof *s);
  s->run_seed = take_u8(in);
  s->steps = take_between(in, 1, 4);
  s->samples = take_between(in, 1, 9);
  s->batch = take_between(in, 1, 2);
  s->parts = take_between(in, 1, 2);
  s->queries = take_between(in, 1, 3);
  s->estimator = (uint32_t)take_flag(in);
  s->rule = take_between(in, 0, 2);
  s->distribution.kind = (uint8_t)take_between(in, 0, 3);
  s->distribution.mu =
      (uint16_t)(s->distribution.kind == ZO_GAUSSIAN ? take_between(in, 1, 400) : take_between(in, 1, 9));
  s->rate = take_flag(in) ? take_between(in, 1, UINT32_C(1) << 20) : take_any(in);
  s->final_rate = take_flag(in) ? 0u : take_any(in);
  s->schedule = take_between(in, 0, ZO_SCHEDULE_STEP);
  s->warmup_steps = take_between(in, 0, 3);
  s->decay = take_between(in, 0, 65536);
  s->decay_steps = take_between(in, 0, 3);
  s->clip = take_flag(in) ? 0u : take_any(in);
  s->gradient_norm = take_flag(in) ? 0u : take_any(in);
  s->blocks = take_between(in, 0, 2);
  if (take_flag(in)) {
    s->stage_steps[0] = take_between(in, 1, 3);
    s->stage_steps[1] = take_between(in, 0, 4);
    const uint32_t p_zero = take_between(in, 0, 65535);
    s->stage_p_zero[0] = p_zero & 255u;
    s->stage_p_zero[1] = p_zero >> 8;
  }
  for (uint32_t damaged = take_u8(in); damaged > 200u; damaged = take_u8(in)) {
    ((uint32_t*)s)[take_between(in, 0, sizeof *s / 4u - 1u)] = take_any(in);
  }
}

static void execute(world* w) {
  static const zo_opcode order[4] = {ZO_OP_RESTORE, ZO_OP_REPLAY, ZO_OP_UPDATE, ZO_OP_PERTURB};
  HOLDS(zo_command_check(w->words, w->capacity, &w->limits) == ZO_OK);
  for (uint32_t i = 0; i < 4u; ++i) {
    uint32_t saturated = 0;
    HOLDS(zo_command_execute(w->words, order[i], &w->tensor, 0, NULL, &saturated) == ZO_OK);
  }
}

/* Applies the coefficients of the step that has just ended. */
static void follow(world* w) {
  const uint32_t step = w->control.step - 1u;
  int32_t coefficients[ZO_MAX_QUERIES];
  zo_query items[ZO_MAX_QUERIES];
  for (uint32_t q = 0; q < w->settings.queries; ++q) {
    coefficients[q] = w->control.queries[q].coefficient;
  }
  const uint32_t count = zo_control_items(&w->settings, step, coefficients, items);
  HOLDS(count >= 1u && count <= ZO_MAX_QUERIES);
  if (w->settings.blocks > 0u && step % w->settings.blocks != 0u) return; /* another block's */
  HOLDS(zo_update_s8(&w->expected, zo_control_distribution(&w->settings, step), NULL, items, count, NULL) == ZO_OK);
}

static void check_weights(const world* w) {
  HOLDS(memcmp(w->tensor.weights, w->expected.weights, w->tensor.size) == 0);
  if (w->tensor.fraction != NULL) {
    HOLDS(memcmp(w->tensor.fraction, w->expected.fraction, w->tensor.size) == 0);
  }
  HOLDS(is_within(w->tensor.weights, w->tensor.size, w->tensor.limit));
}

static void run(fuzz_input* in, world* w) {
  for (uint32_t calls = 0; calls < 300u; ++calls) {
    zo_request request;
    zo_report report;
    const uint32_t chosen = in->left == 0u ? 0u : take_u8(in);
    const zo_status status = zo_control_next(&w->control, w->words, w->capacity, &request);
    HOLDS(status == ZO_OK);
    if (chosen > 250u) { /* the command was written, perhaps executed, and then nothing more */
      const uint32_t executed = request.action == ZO_ACTION_INVOKE ? (uint32_t)take_flag(in) : 0u;
      if (executed) execute(w);
      HOLDS(zo_control_abandon(&w->control, executed, w->words, w->capacity) == ZO_OK);
      execute(w);
      check_weights(w);
      continue;
    }
    if (chosen > 240u) {
      uint32_t pending = 0;
      const zo_status settled = zo_control_settle(&w->control, w->words, w->capacity, &pending);
      if (settled == ZO_OK) {
        execute(w);
        check_weights(w);
      }
      continue;
    }
    zo_moves moves;
    const zo_status suspended = zo_control_suspend_moves(&w->control, 0, &moves);
    HOLDS(suspended == (zo_control_is_in_step(&w->control) ? ZO_OK : ZO_ERROR_ORDER));
    if (suspended == ZO_OK && chosen % 3u == 0u) { /* there, and back */
      HOLDS(zo_moves_write(&moves, 0, w->words, w->capacity) == ZO_OK);
      execute(w);
      check_weights(w);
      HOLDS(zo_control_suspend_moves(&w->control, 1, &moves) == ZO_OK);
      HOLDS(zo_moves_write(&moves, 0, w->words, w->capacity) == ZO_OK);
      execute(w);
    }
    HOLDS(zo_control_next(&w->control, w->words, w->capacity, &request) == ZO_OK);
    if (request.action == ZO_ACTION_DONE) break;
    for (uint32_t i = 0; i < w->settings.batch; ++i) {
      HOLDS(zo_sample_at(&w->settings, request.first_sample + i) < w->settings.samples);
    }
    execute(w);
    int32_t* losses = (int32_t*)fuzz_allocate(sizeof(int32_t) * w->settings.batch);
    for (uint32_t i = 0; i < w->settings.batch; ++i) {
      losses[i] = (int32_t)(chosen % 4u == 0u ? take_any(in) >> 1 : chosen << take_between(in, 0, 20));
    }
    HOLDS(zo_control_report(&w->control, losses, w->settings.batch, &report) == ZO_OK);
    HOLDS(zo_control_report(&w->control, losses, w->settings.batch + 1u, &report) != ZO_OK);
    free(losses);
    if (report.step_done != 0u) follow(w);
  }
  uint32_t pending = 0;
  if (zo_control_settle(&w->control, w->words, w->capacity, &pending) == ZO_OK) {
    execute(w);
    check_weights(w);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_input in = {data, size};
  world w;
  memset(&w, 0, sizeof w);
  take_settings(&in, &w.settings);
  static const uint8_t segments[256] = {0};
  const zo_status status =
      zo_control_init(&w.control, &w.settings, take_flag(&in) && w.settings.blocks < 256u ? segments : NULL);
  HOLDS((status == ZO_OK) == (zo_control_settings_check(&w.settings) == ZO_OK));
  const int32_t reach = status == ZO_OK ? zo_distribution_reach(w.settings.distribution) : 0;
  /* No model has so large a perturbation, so large a batch here, or so many blocks. */
  if (status != ZO_OK || reach > 120 || w.settings.batch > 8u || w.settings.blocks > 0xFFFFu) {
    return 0;
  }
  const uint32_t weights = take_between(&in, 1, kMostSize);
  const int sixteen = take_flag(&in);
  w.tensor.limit = 127 - reach;
  w.tensor.size = weights;
  w.tensor.channels = w.tensor.inner = 1;
  w.tensor.weights = make_int8(&in, weights, w.tensor.limit);
  w.tensor.fraction = sixteen ? make_int8(&in, weights, 0) : NULL;
  w.tensor.type = ZO_TENSOR_INT8;
  w.expected = w.tensor;
  w.expected.weights = (int8_t*)copy_of(w.tensor.weights, weights);
  w.expected.fraction = sixteen ? (int8_t*)copy_of(w.tensor.fraction, weights) : NULL;
  w.limits.headroom = (uint32_t)reach;
  w.limits.max_queries = ZO_MAX_QUERIES;
  w.limits.blocks = w.settings.blocks > 0u ? w.settings.blocks : 1u;
  w.capacity = zo_control_words(&w.settings);
  HOLDS(w.capacity <= kMostWords);
  w.words = (int32_t*)fuzz_allocate(sizeof(int32_t) * w.capacity);
  (void)zo_control_resume(&w.control, 0, (int64_t)((uint64_t)(take_flag(&in) ? take_any(&in) : 0u) << 20));
  run(&in, &w);
  free(w.tensor.weights);
  free(w.tensor.fraction);
  free(w.expected.weights);
  free(w.expected.fraction);
  free(w.words);
  return 0;
}
