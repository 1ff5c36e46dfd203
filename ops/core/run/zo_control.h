/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The control unit: a state machine that returns the next request, until a run is done.
 *
 * The owner of the interpreter (Python, a firmware's main, a test) runs this loop:
 *
 *   zo_control_init(&control, &settings);
 *   while (zo_control_next(&control, words, capacity, &request) == ZO_OK &&
 *          request.action == ZO_ACTION_INVOKE) {
 *     feed samples zo_sample_at(&settings, request.first_sample + i), i < batch;
 *     copy words to zo_command; run from segment request.start_segment;
 *     zo_control_report(&control, losses, batch, &report);
 *     if (report.step_done) append report's record to the seed log;
 *   }
 *
 * A step takes two invokes per query and part of the minibatch (antithetic), or one and one more for the step
 * (one-sided), and no others: its update and the restoration of a query ride on the next invoke. If the weights are
 * needed between steps, zo_control_settle applies the pending update; it changes no later bit. zo_step_size.h says how
 * losses become coefficients.
 */
#ifndef TFLM_ZO_OPS_CORE_RUN_ZO_CONTROL_H_
#define TFLM_ZO_OPS_CORE_RUN_ZO_CONTROL_H_

#include "ops/core/run/zo_moves.h"
#include "ops/core/run/zo_run_settings.h"
#include "ops/core/run/zo_samples.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zo_action {
  ZO_ACTION_DONE = 0, /* nothing to do: the run is over and nothing is pending */
  ZO_ACTION_INVOKE = 1,
} zo_action;

/* The next request. */
typedef struct zo_request {
  uint32_t action;
  uint32_t step;
  uint32_t first_sample;  /* position of the first sample; see zo_sample_at */
  uint32_t start_segment; /* segments before it need not run: their inputs and weights are those
                             of the invoke before */
} zo_request;

/* The consequence of a reported loss. */
typedef struct zo_report {
  uint32_t step_done; /* 1: the fields below describe a complete step */
  uint32_t step;
  int32_t mean_loss; /* of the minibatch over the step's invokes, unit 2^-16 */
  uint32_t rate;     /* in force, unit 2^-16 */
} zo_report;

/* The state of a run. All fields may be read, none may be written. */
typedef struct zo_control {
  const zo_control_settings* settings; /* the caller keeps it: on a device, in flash */
  const uint8_t* block_segments;       /* [settings->blocks] or null: all 0; the caller keeps it */
  uint32_t step;                       /* in progress; settings->steps when all are done */
  uint32_t query;
  uint32_t phase; /* of the query: 0 plus (or base), 1 minus */
  uint32_t part;
  uint32_t pending; /* queries[] of step - 1 still to be applied */
  uint32_t based;   /* one-sided: the base loss of this step is known */
  int64_t base;     /* sum of losses at w */
  int64_t plus;     /* sums of losses of the query in progress */
  int64_t minus;
  int64_t total;       /* of all losses of the step */
  int64_t mean_square; /* running mean of d^2, unit 2^-32; 0: no step yet */
  int64_t difference[ZO_MAX_QUERIES];
  zo_query queries[ZO_MAX_QUERIES]; /* of the last finished step: own seeds, as the log has them */
#if ZO_WITH_SCHEDULES
  zo_decays decays; /* of the rate of the last step */
#endif
} zo_control;

/* Checks the settings and sets the state before the first step. The settings must stay unchanged
 * for as long as the run is used.
 * Errors: those of zo_control_settings_check. */
zo_status zo_control_init(zo_control* control, const zo_control_settings* settings, const uint8_t* block_segments);

/* Sets the state after `step` complete steps without a pending update, to resume from a seed log:
 * mean_square is that of the log's last record. */
zo_status zo_control_resume(zo_control* control, uint32_t step, int64_t mean_square);

/* Returns the next request and writes its command, zero padded to the capacity. Errors:
 * ZO_ERROR_CAPACITY (state untouched). */
zo_status zo_control_next(zo_control* control, int32_t* words, uint32_t capacity, zo_request* request);

/* The same for a program that has the weights at hand: it applies the moves to each tensor
 * (zo_moves_apply), then invokes with a command of ZO_FLAG_LOSS alone. */
zo_status zo_control_next_moves(const zo_control* control, zo_moves* moves, zo_request* request);

/* Takes the losses of the invoke that was asked for.
 * Errors: ZO_ERROR_ARGUMENT if count is not settings.batch. */
zo_status zo_control_report(zo_control* control, const int32_t* losses, uint32_t count, zo_report* report);

/* Takes the losses of several parts of the minibatch, which have the same weights: of one invoke
 * that passed all their samples forward, with the request of the first part.
 *
 *   parts   1 or more, at most the remaining ones of the minibatch
 *   losses  [parts * settings.batch]
 *
 * Errors: those of zo_control_report; ZO_ERROR_ARGUMENT if there are not so many parts. */
zo_status zo_control_report_all(zo_control* control, uint32_t parts, const int32_t* losses, zo_report* report);

/* Writes the command that applies a pending step, with ZO_FLAG_CHECKSUM, without a perturbation;
 * *pending is 0 and the command empty if there is none. Only between steps.
 * Errors: ZO_ERROR_ORDER within a step, ZO_ERROR_CAPACITY. */
zo_status zo_control_settle(zo_control* control, int32_t* words, uint32_t capacity, uint32_t* pending);

/* For a step that cannot go on, because a sample is unavailable or the interpreter has failed:
 * writes the command that restores the weights of the last complete step, with ZO_FLAG_CHECKSUM.
 * The step in progress then begins anew, with the same seeds and samples.
 *
 *   executed  1: the command of the last zo_control_next was executed, but its losses were not
 *             reported; 0: it was not
 *
 * Errors: ZO_ERROR_CAPACITY (state untouched). */
zo_status zo_control_abandon(zo_control* control, uint32_t executed, int32_t* words, uint32_t capacity);

/* The same as moves; between steps, those of zo_control_settle. */
void zo_control_abandon_moves(zo_control* control, uint32_t executed, zo_moves* moves);

/* Whether a step has begun: the weights may be those of one of its queries. */
int zo_control_is_in_step(const zo_control* control);

/* For a use of the network within a step: gives the moves from the weights after the last report to
 * those of the last complete step, or, with `back`, the reverse. The state stays unchanged; between
 * the two moves it takes no other. Errors: ZO_ERROR_ORDER if no step has begun. */
zo_status zo_control_suspend_moves(const zo_control* control, uint32_t back, zo_moves* moves);

/* For a step that combines this run's differences with those of others on other data: right after
 * the report that has ended the step, gives the moves back to the weights before it, and restores
 * the state before it. The measurement stays in control->difference, sums over the minibatch, until
 * the next step ends.
 *
 *   mean_square  control->mean_square before the step
 *
 * Errors: ZO_ERROR_ORDER if no step has just ended; ZO_ERROR_ARGUMENT. */
zo_status zo_control_withdraw_moves(zo_control* control, int64_t mean_square, zo_moves* moves);

/* The same as a command, with ZO_FLAG_CHECKSUM. Errors: those, and ZO_ERROR_CAPACITY (state
 * untouched). */
zo_status zo_control_withdraw(zo_control* control, int64_t mean_square, int32_t* words, uint32_t capacity);

/* Forms a step of differences that others have measured, like the end of a step in
 * zo_control_report, without its invokes. Nothing is pending then: the record moves the weights.
 *
 *   d          [queries], the mean over all samples, see zo_mean_difference; within +-2^30
 *   mean_loss  of the step, unit 2^-16
 *
 * Errors: ZO_ERROR_ORDER within a step, and if an update is pending; ZO_ERROR_ARGUMENT: a d out
 * of range, or the run is over. The state is unchanged then. */
zo_status zo_control_decide(zo_control* control, const int64_t* d, int32_t mean_loss, zo_report* report);

/* Words that a command of this run takes at most. */
uint32_t zo_control_words(const zo_control_settings* settings);

/* The moves of a step with these coefficients: queries of an update.
 *
 *   coefficients  [queries], as the log has them
 *   items         [ZO_MAX_QUERIES]; their number, the queries', is returned */
uint32_t zo_control_items(const zo_control_settings* settings, uint32_t step, const int32_t* coefficients,
                          zo_query* items);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_RUN_ZO_CONTROL_H_ */
