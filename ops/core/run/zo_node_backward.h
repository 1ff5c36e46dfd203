/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The exact tail of a run of zo_node_run.h: a backward program leads errors from the head to the
 * exact tasks before it.
 */
#ifndef TFLM_ZO_OPS_CORE_RUN_ZO_NODE_BACKWARD_H_
#define TFLM_ZO_OPS_CORE_RUN_ZO_NODE_BACKWARD_H_

#include "ops/core/backward/zo_backward.h"
#include "ops/core/run/zo_node_run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Does steps [begin, end) of a program: errors of the tasks that are in_tail, whose errors and
 * exponents are those of the program's fields. All steps are done once for each part, in order.
 *
 * After all tasks of a part have been captured, it does them for the part's samples. A minibatch of
 * one sample can also do them while tasks are updated, each before the first update of a task that
 * has its target as errors, or whose weights it reads. A field that is not kept has room then for a
 * layer's errors until its update, and no longer.
 *
 *   program  that zo_backward_check has checked; field 0 is the head's, fields that are kept have
 *            room for the minibatch
 *   sources  see zo_backward_run, of the part's samples
 *
 * Errors: ZO_ERROR_ARGUMENT: no part is being captured, or tasks are updated with several samples;
 * those of zo_backward_run. */
zo_status zo_node_run_backward(const zo_node_run* run, const zo_backward* program, uint32_t begin, uint32_t end,
                               const int8_t* const* sources);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_RUN_ZO_NODE_BACKWARD_H_ */
