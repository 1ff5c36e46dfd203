/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/run/zo_control.h"

#include <string.h>

#include "ops/core/graph/zo_command.h"
#include "ops/core/math/zo_fixed_point.h"
#include "ops/core/random/zo_stream.h"
#include "ops/core/weights/zo_update.h"
#include "ops/core/zo_features.h"

static const zo_control_settings* settings_of(const zo_control* control) { return zo_settings_of(control->settings); }

uint32_t zo_control_words(const zo_control_settings* s) {
  /* An update that restores the perturbation in force, and a new perturbation: no other command has
   * more. */
  return ZO_COMMAND_HEADER_WORDS + 2u * ZO_INSTRUCTION_HEADER_WORDS + 2u * (zo_queries_of(s) + 2u);
}

/* --- Directions ------------------------------------------------------------- */

uint32_t zo_control_items(const zo_control_settings* settings, uint32_t step, const int32_t* coefficients,
                          zo_query* items) {
  const zo_control_settings* s = zo_settings_of(settings);
  for (uint32_t q = 0; q < zo_queries_of(s); ++q) {
    items[q].seed = zo_query_seed(s->run_seed, step, q);
    items[q].coefficient = coefficients[q];
  }
  return zo_queries_of(s);
}

zo_status zo_control_init(zo_control* control, const zo_control_settings* settings, const uint8_t* block_segments) {
#if ZO_WITH_CHECKS
  if (control == NULL || settings == NULL) return ZO_ERROR_ARGUMENT;
  const zo_status status = zo_control_settings_check(settings);
  if (status != ZO_OK) return status;
#endif
  memset(control, 0, sizeof *control);
  control->settings = settings;
  control->block_segments = block_segments;
  return ZO_OK;
}

zo_status zo_control_resume(zo_control* control, uint32_t step, int64_t mean_square) {
  if (control == NULL || step > settings_of(control)->steps || mean_square < 0) {
    return ZO_ERROR_ARGUMENT;
  }
  const zo_status status = zo_control_init(control, control->settings, control->block_segments);
  if (status != ZO_OK) return status;
  control->step = step;
  control->mean_square = mean_square;
  return ZO_OK;
}

/* --- The next request ------------------------------------------------------ */

static uint32_t block_of(const zo_control* control, uint32_t step) {
  const uint32_t blocks = zo_blocks_of(settings_of(control));
  return blocks > 0u ? step % blocks : ZO_ALL_BLOCKS;
}

static uint32_t segment_of(const zo_control* control, uint32_t step) {
  const uint32_t blocks = zo_blocks_of(settings_of(control));
  return blocks > 0u && control->block_segments != NULL ? control->block_segments[step % blocks] : 0u;
}

static void add_direction(zo_term_list* list, const zo_control* control, uint32_t step, uint32_t query, int32_t k) {
  list->terms[list->count].seed = zo_query_seed(settings_of(control)->run_seed, step, query);
  list->terms[list->count++].k = k;
}

/* Undoes the perturbation of a query's last evaluation. */
static void add_restoration(zo_term_list* list, const zo_control* control, uint32_t step, uint32_t query) {
  add_direction(list, control, step, query, zo_is_one_sided(settings_of(control)->estimator) ? -1 : 1);
}

static int evaluates_base(const zo_control* control) {
  return zo_is_one_sided(settings_of(control)->estimator) && control->based == 0u;
}

/* No moves yet. */
static void begin_moves(const zo_control* control, zo_moves* moves) {
  const zo_control_settings* s = settings_of(control);
  moves->items = moves->restore.count = moves->perturb.count = 0;
  moves->block = block_of(control, control->step);
  moves->distribution = zo_distribution_of_step(s, control->step);
}

static void add_pending(const zo_control* control, zo_moves* moves) {
  if (control->pending == 0u) return;
  const zo_control_settings* s = settings_of(control);
  const uint32_t step = control->step - 1u;
  add_restoration(&moves->restore, control, step, zo_queries_of(s) - 1u);
  int32_t coefficients[ZO_MAX_QUERIES];
  for (uint32_t q = 0; q < zo_queries_of(s); ++q) coefficients[q] = control->queries[q].coefficient;
  moves->items = zo_control_items(control->settings, step, coefficients, moves->queries);
  moves->update_block = block_of(control, step);
  moves->update_distribution = zo_distribution_of_step(s, step);
}

/* The perturbation that an evaluation starts with. */
static void add_perturbation(const zo_control* control, zo_term_list* list) {
  if (evaluates_base(control)) return;
  const uint32_t step = control->step;
  const uint32_t query = control->query;
  if (control->phase == 0u && query > 0u) add_restoration(list, control, step, query - 1u);
  add_direction(list, control, step, query, control->phase == 0u ? 1 : -2);
}

static int is_first_invoke(const zo_control* control) {
  return control->query == 0u && control->phase == 0u && control->part == 0u &&
         (!zo_is_one_sided(settings_of(control)->estimator) || control->based == 0u);
}

zo_status zo_control_next_moves(const zo_control* control, zo_moves* moves, zo_request* request) {
  if (ZO_WITH_CHECKS && (control == NULL || moves == NULL || request == NULL)) {
    return ZO_ERROR_ARGUMENT;
  }
  const zo_control_settings* s = settings_of(control);
  memset(request, 0, sizeof *request);
  request->step = control->step;
  if (control->step == s->steps) return ZO_OK;

  begin_moves(control, moves);
  if (is_first_invoke(control)) add_pending(control, moves);
  if (control->part == 0u) add_perturbation(control, &moves->perturb);
  request->action = ZO_ACTION_INVOKE;
  request->first_sample = control->step * zo_minibatch_of(s) + control->part * s->batch;
  /* The prefix of a block keeps weights and, in a minibatch of one part, inputs within a step. */
  if (!is_first_invoke(control) && s->parts == 1u) {
    request->start_segment = segment_of(control, control->step);
  }
  return ZO_OK;
}

zo_status zo_control_next(zo_control* control, int32_t* words, uint32_t capacity, zo_request* request) {
  if (words == NULL) return ZO_ERROR_ARGUMENT;
  zo_moves moves;
  zo_status status = zo_control_next_moves(control, &moves, request);
  if (status != ZO_OK || request->action == ZO_ACTION_DONE) return status;
  status = zo_moves_write(&moves, ZO_FLAG_LOSS, words, capacity);
  if (status != ZO_OK) request->action = ZO_ACTION_DONE;
  return status;
}

/* --- Giving a step up ------------------------------------------------------- */

/* The term that undoes the perturbation in force, `executed` as in zo_control_abandon. */
static void add_undoing(const zo_control* control, zo_term_list* list, uint32_t executed) {
  const uint32_t step = control->step;
  const uint32_t query = control->query;
  const int is_in = executed != 0u || control->part > 0u; /* this evaluation's is in force */
  if (evaluates_base(control)) return;
  if (control->phase == 0u && !is_in) { /* that of the query before */
    if (query > 0u) add_restoration(list, control, step, query - 1u);
    return;
  }
  const uint32_t phase = is_in ? control->phase : control->phase - 1u;
  add_direction(list, control, step, query, phase == 0u ? -1 : 1);
}

void zo_control_abandon_moves(zo_control* control, uint32_t executed, zo_moves* moves) {
  begin_moves(control, moves);
  if (executed == 0u) add_pending(control, moves);
  if (control->step < settings_of(control)->steps) add_undoing(control, &moves->perturb, executed);
  control->pending = 0;
  control->query = control->phase = control->part = control->based = 0;
  control->base = control->plus = control->minus = control->total = 0;
}

zo_status zo_control_abandon(zo_control* control, uint32_t executed, int32_t* words, uint32_t capacity) {
  if (control == NULL || words == NULL) return ZO_ERROR_ARGUMENT;
  zo_moves moves;
  zo_control after = *control;
  zo_control_abandon_moves(&after, executed, &moves);
  const zo_status status = zo_moves_write(&moves, ZO_FLAG_CHECKSUM, words, capacity);
  if (status == ZO_OK) *control = after;
  return status;
}

zo_status zo_control_settle(zo_control* control, int32_t* words, uint32_t capacity, uint32_t* pending) {
  if (control == NULL || pending == NULL) return ZO_ERROR_ARGUMENT;
  if (zo_control_is_in_step(control)) return ZO_ERROR_ORDER;
  const uint32_t found = control->pending;
  const zo_status status = zo_control_abandon(control, 0, words, capacity);
  if (status == ZO_OK) *pending = found;
  return status;
}

int zo_control_is_in_step(const zo_control* control) {
  return control->query != 0u || control->phase != 0u || control->part != 0u || control->based != 0u;
}

zo_status zo_control_suspend_moves(const zo_control* control, uint32_t back, zo_moves* moves) {
  if (ZO_WITH_CHECKS && (control == NULL || moves == NULL)) return ZO_ERROR_ARGUMENT;
  if (!zo_control_is_in_step(control)) return ZO_ERROR_ORDER;
  begin_moves(control, moves);
  zo_term_list* list = &moves->perturb;
  add_undoing(control, list, 0);
  for (uint32_t i = 0; back != 0u && i < list->count; ++i) {
    list->terms[i].k = -list->terms[i].k;
  }
  return ZO_OK;
}

/* --- Steps that are formed elsewhere --------------------------------- */

/* Whether the update of the step that has just ended is still to be applied. */
static int has_just_ended(const zo_control* control) {
  return control->pending != 0u && !zo_control_is_in_step(control);
}

zo_status zo_control_withdraw_moves(zo_control* control, int64_t mean_square, zo_moves* moves) {
  if (control == NULL || moves == NULL || mean_square < 0) return ZO_ERROR_ARGUMENT;
  if (!has_just_ended(control)) return ZO_ERROR_ORDER;
  control->step -= 1u;
  control->pending = 0;
  control->mean_square = mean_square;
  begin_moves(control, moves);
  add_restoration(&moves->perturb, control, control->step, zo_queries_of(settings_of(control)) - 1u);
  return ZO_OK;
}

zo_status zo_control_withdraw(zo_control* control, int64_t mean_square, int32_t* words, uint32_t capacity) {
  if (control == NULL || words == NULL) return ZO_ERROR_ARGUMENT;
  zo_moves moves;
  zo_control before = *control;
  zo_status status = zo_control_withdraw_moves(&before, mean_square, &moves);
  if (status == ZO_OK) status = zo_moves_write(&moves, ZO_FLAG_CHECKSUM, words, capacity);
  if (status == ZO_OK) *control = before;
  return status;
}

/* --- Reports --------------------------------------------------------------- */

/* Makes the step's record of d, [queries]. */
static void finish_step(zo_control* control, const int64_t* d, int64_t mean_loss, zo_report* report) {
  const zo_control_settings* s = settings_of(control);
  const uint32_t rate = zo_control_rate(control->settings, control->step, ZO_DECAYS_OF(control));
  const zo_step_size size = {s->estimator, s->rule, zo_distribution_of_step(s, control->step), zo_queries_of(s),
                             s->clip};
  int64_t mean_square = control->mean_square;
  for (uint32_t q = 0; q < zo_queries_of(s); ++q) {
    mean_square = zo_track_mean_square(mean_square, d[q]);
  }
  control->mean_square = mean_square;
  for (uint32_t q = 0; q < zo_queries_of(s); ++q) {
    control->queries[q].seed = zo_query_seed(s->run_seed, control->step, q);
    control->queries[q].coefficient = zo_step_coefficient(&size, d[q], rate, mean_square);
  }
  report->step_done = 1;
  report->step = control->step;
  report->rate = rate;
  report->mean_loss = (int32_t)mean_loss;
  control->step += 1u;
  control->query = 0;
  control->phase = 0;
  control->based = 0;
  control->total = 0;
  control->pending = 1;
}

/* Samples that have passed forward in a complete step, those of each evaluation counted. */
static int64_t samples_of_step(const zo_control_settings* s) {
  const int64_t evaluations =
      zo_is_one_sided(s->estimator) ? (int64_t)zo_queries_of(s) + 1 : 2 * (int64_t)zo_queries_of(s);
  return evaluations * zo_minibatch_of(s);
}

/* All queries have been evaluated. */
static void finish_queries(zo_control* control, zo_report* report) {
  const zo_control_settings* s = settings_of(control);
  int64_t d[ZO_MAX_QUERIES];
  for (uint32_t q = 0; q < zo_queries_of(s); ++q) {
    d[q] = zo_mean_difference(control->difference[q], zo_minibatch_of(s));
  }
  finish_step(control, d, zo_divide(control->total, samples_of_step(s)), report);
}

/* An evaluation (all parts of one side of a query, or of the base) is complete. */
static void finish_evaluation(zo_control* control, zo_report* report) {
  const zo_control_settings* s = settings_of(control);
  if (evaluates_base(control)) {
    control->base = control->plus;
    control->based = 1;
    control->plus = 0;
    return;
  }
  if (!zo_is_one_sided(s->estimator) && control->phase == 0u) {
    control->phase = 1;
    return;
  }
  const int64_t difference = control->plus - (zo_is_one_sided(s->estimator) ? control->base : control->minus);
  /* As bytes: compilers keep a zero of 64 bits in a register of the floating-point unit. */
  memset(&control->plus, 0, sizeof control->plus);
  memset(&control->minus, 0, sizeof control->minus);
  control->difference[control->query] = difference;
  control->phase = 0;
  control->query += 1u;
  if (control->query == zo_queries_of(s)) finish_queries(control, report);
}

zo_status zo_control_report(zo_control* control, const int32_t* losses, uint32_t count, zo_report* report) {
  if (ZO_WITH_CHECKS && (control == NULL || losses == NULL || report == NULL || count != settings_of(control)->batch)) {
    return ZO_ERROR_ARGUMENT;
  }
  if (control->step == settings_of(control)->steps) return ZO_ERROR_ARGUMENT;
  memset(report, 0, sizeof *report);
  int64_t sum = 0;
  for (uint32_t i = 0; i < count; ++i) sum += losses[i];
  control->total += sum;
  if (control->phase == 0u) {
    control->plus += sum;
  } else {
    control->minus += sum;
  }
  /* The first invoke of the step has applied the pending update. */
  control->pending = 0;
  control->part += 1u;
  if (control->part == settings_of(control)->parts) {
    control->part = 0;
    finish_evaluation(control, report);
  }
  return ZO_OK;
}

zo_status zo_control_report_all(zo_control* control, uint32_t parts, const int32_t* losses, zo_report* report) {
  if (control == NULL || losses == NULL || parts == 0u || parts > settings_of(control)->parts - control->part) {
    return ZO_ERROR_ARGUMENT;
  }
  const uint32_t batch = settings_of(control)->batch;
  for (uint32_t i = 0; i < parts; ++i) {
    const zo_status status = zo_control_report(control, losses + (size_t)i * batch, batch, report);
    if (status != ZO_OK) return status;
  }
  return ZO_OK;
}

zo_status zo_control_decide(zo_control* control, const int64_t* d, int32_t mean_loss, zo_report* report) {
  if (control == NULL || d == NULL || report == NULL) return ZO_ERROR_ARGUMENT;
  const zo_control_settings* s = settings_of(control);
  if (control->step == s->steps) return ZO_ERROR_ARGUMENT;
  if (control->pending != 0u || zo_control_is_in_step(control)) return ZO_ERROR_ORDER;
  for (uint32_t q = 0; q < zo_queries_of(s); ++q) {
    if (d[q] > ZO_MEAN_DIFFERENCE_MAX || d[q] < -ZO_MEAN_DIFFERENCE_MAX) return ZO_ERROR_ARGUMENT;
  }
  memset(report, 0, sizeof *report);
  finish_step(control, d, mean_loss, report);
  control->pending = 0;
  return ZO_OK;
}
