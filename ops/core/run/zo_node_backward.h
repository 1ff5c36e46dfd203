/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The exact tail of a run of zo_node_run.h that goes further back than dense layers that feed each
 * other: a backward program leads errors to its tasks.
 */
#ifndef TFLM_ZO_OPS_CORE_RUN_ZO_NODE_BACKWARD_H_
#define TFLM_ZO_OPS_CORE_RUN_ZO_NODE_BACKWARD_H_

#include "ops/core/backward/zo_backward.h"
#include "ops/core/run/zo_node_run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* After all tasks of a part have been captured: errors of the tasks of ZO_NODE_TAIL, whose errors
 * and exponents are those of the program's fields.
 *
 *   program  that zo_backward_check has checked; field 0 is the head's, fields that are kept have
 *            room for the minibatch
 *   sources  see zo_backward_run, of the part's samples
 *
 * Errors: ZO_ERROR_ARGUMENT: no part is being captured; those of zo_backward_run. */
zo_status zo_node_run_backward(const zo_node_run* run, const zo_backward* program, const int8_t* const* sources);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_RUN_ZO_NODE_BACKWARD_H_ */
