/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A device's part in a fleet: many devices train one model together, each on samples of its own. A
 * gateway (`tflm-zo gateway`) asks each of them over its link (zo_link.h) to evaluate a step, and
 * sends them the record of the fleet's decision. Weights never cross the line.
 *
 * The program's loop serves the link, and does a part of the work that was asked for whenever there
 * is any:
 *
 *   zo_link_serve(&link, received, count);
 *   if (zo_fleet_is_evaluating(&fleet)) zo_fleet_work(&fleet);
 *
 * A device's state is identified by the number of its steps and the checksum from which the log's
 * next record continues (zo_log.h). So a request of another run, or a late one, is refused, and a
 * repeated one has the same outcome. After a power failure a device resumes from its log, and
 * receives the missing records.
 */
#ifndef TFLM_ZO_OPS_CORE_LINK_ZO_FLEET_H_
#define TFLM_ZO_OPS_CORE_LINK_ZO_FLEET_H_

#include "ops/core/link/zo_link.h"
#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The state of a device's run. */
typedef struct zo_fleet_state {
  uint32_t step;     /* complete steps */
  uint32_t checksum; /* from which the record of the next one continues */
} zo_fleet_state;

/* A device's measurements of a step. */
typedef struct zo_fleet_answer {
  zo_fleet_state at;
  uint32_t samples; /* of the minibatch; 0: there is no answer */
  uint32_t queries;
  int64_t loss;                       /* sum of all losses of the step, unit 2^-16 */
  int64_t difference[ZO_MAX_QUERIES]; /* of each query, summed over the minibatch, unit 2^-16 */
} zo_fleet_answer;

/* A trainer's functions for a fleet; their errors are answered to the gateway. */
typedef struct zo_fleet_trainer {
  void (*state)(void* trainer, zo_fleet_state* state);
  /* Checksum of the weights after the last complete step (zo_checksum.h). */
  zo_status (*weights)(void* trainer, uint32_t* checksum);
  /* A part of the step's evaluation; answer->samples stays 0 until it is done. */
  zo_status (*evaluate)(void* trainer, zo_fleet_answer* answer);
  /* Takes the record of a step, which is logged and moves the weights. */
  zo_status (*take)(void* trainer, const uint8_t* record, uint32_t bytes);
} zo_fleet_trainer;

/* A device's part in a fleet. WeightTrainer::JoinFleet sets it up. */
typedef struct zo_fleet {
  const zo_fleet_trainer* does;
  void* trainer;
  uint32_t record_bytes; /* zo_log_record_bytes of the run */
  bool is_evaluating;
  zo_status failure;      /* of the last requested evaluation */
  zo_fleet_answer answer; /* the last one */
} zo_fleet;

/* Lets the link serve a fleet. Call it after zo_link_begin or zo_link_begin_with_places. The linker
 * drops its code if a program does not call it.
 *   fleet  the caller keeps it at this address
 * Errors: ZO_ERROR_ARGUMENT: a null pointer, or the link's buffer does not hold an answer of so
 * many queries, for which it takes 40 bytes and 8 for each query. */
zo_status zo_link_add_fleet(zo_link* link, zo_fleet* fleet);

/* Whether there is work to do. */
bool zo_fleet_is_evaluating(const zo_fleet* fleet);

/* Does a part of it: one invoke of each segment. An error is kept for the gateway's next request.
 */
void zo_fleet_work(zo_fleet* fleet);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_LINK_ZO_FLEET_H_ */
