/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/run/zo_node_settings.h"

#include "ops/core/random/zo_stream.h"
#include "ops/core/zo_features.h"

static int buffers_are_valid(const zo_node_task* t) {
  if (zo_task_is_weights(t)) return t->sums != NULL && (t->boundary_bytes == 0u || t->nodes != NULL);
  if (zo_task_is_in_tail(t)) {
    return t->errors != NULL && t->exponents != NULL && t->layer.form == ZO_NODES_PLAIN;
  }
  if (t->routes == NULL) return 0;
  if (t->kind == ZO_TASK_SHARED_NODES) return 1;
  return t->nodes != NULL &&
         (t->queries == 0u ? t->errors != NULL && t->layer.form == ZO_NODES_PLAIN : t->differences != NULL);
}

zo_status zo_node_task_check(uint32_t kind, uint32_t queries, uint32_t mu, uint32_t rate, zo_scale gain) {
  if (kind > ZO_TASK_SHARED_NODES) return ZO_ERROR_ARGUMENT;
  const int weights = kind == ZO_TASK_WEIGHTS;
  if (queries > ZO_MAX_QUERIES || (weights && queries == 0u) || (kind == ZO_TASK_SHARED_NODES && queries > 0u)) {
    return ZO_ERROR_QUERIES;
  }
  const int valid = (weights || (mu >= 1u && mu <= 127u)) && rate < UINT32_C(1) << 24 &&
                    gain.exponent >= -ZO_NODE_GAIN_EXPONENT_MAX && gain.exponent <= ZO_NODE_GAIN_EXPONENT_MAX;
  return valid ? ZO_OK : ZO_ERROR_ARGUMENT;
}

static zo_status check_task(const zo_node_task* t) {
  if (t->kind > ZO_TASK_SHARED_NODES) return ZO_ERROR_ARGUMENT;
  zo_status status = zo_task_is_weights(t) ? ZO_OK : zo_node_layer_check(&t->layer);
  if (status == ZO_OK) {
    status = zo_node_task_check(t->kind, t->queries, t->mu, t->rate, t->gain);
  }
  if (status != ZO_OK) return status;
  return buffers_are_valid(t) ? ZO_OK : ZO_ERROR_ARGUMENT;
}

/* The nodes of a task that shares them are those of the task before it, channel by channel. */
static zo_status check_shared(const zo_node_task* tasks, uint32_t task) {
  if (tasks[task].kind != ZO_TASK_SHARED_NODES) return ZO_OK;
  if (task == 0u) return ZO_ERROR_ARGUMENT;
  const zo_node_task* before = &tasks[task - 1u];
  const int valid = !zo_task_is_weights(before) && !zo_task_is_exact(before) &&
                    before->layer.out_c == tasks[task].layer.out_c &&
                    zo_node_count(&before->layer) == zo_node_count(&tasks[task].layer);
  return valid ? ZO_OK : ZO_ERROR_ARGUMENT;
}

/* Bits of an update, or the byte that the log has if no rule needs them. */
static int bits_are_valid(uint32_t bits, int needed) {
  return needed ? ZO_WITH_BITS && bits >= 1u && bits <= ZO_UPDATE_BITS_MAX : bits <= 255u;
}

static int rules_are_valid(const zo_node_settings* s) {
  int valid = s->rule <= ZO_NODE_FIXED && s->exact_rule <= ZO_RUN_RMS && s->exact_rule != ZO_NODE_FIXED &&
              s->rows_least <= s->rows_most && s->rows_most <= 65535u &&
              bits_are_valid(s->weight_bits, s->common.rule == ZO_RUN_BITS);
  for (uint32_t stage = 0; stage < 3u; ++stage) {
    valid &= bits_are_valid(s->exact_bits[stage], s->exact_rule == ZO_NODE_BITS);
  }
  return valid;
}

zo_status zo_node_settings_check(const zo_node_settings* settings) {
  if (settings == NULL || settings->tasks < 1u || settings->tasks > ZO_NODE_TASKS_MAX || settings->common.clip < 1u ||
      settings->common.clip > UINT32_C(1) << 24) {
    return ZO_ERROR_ARGUMENT;
  }
  const zo_control_settings* common = &settings->common;
  zo_control_settings known = *common;
  if (known.rule == ZO_RUN_BITS) known.rule = ZO_STEP_SIGN; /* a rule of this control unit alone */
  const zo_status status = zo_control_settings_check(&known);
  if (status != ZO_OK) return status;
  if (common->rule == ZO_RUN_BITS && zo_is_coordinate(common->distribution)) {
    return ZO_ERROR_DISTRIBUTION; /* zo_update_bits_s8 does not take it */
  }
  const int valid = common->gradient_norm == 0u && common->blocks == 0u && rules_are_valid(settings);
  return valid ? ZO_OK : ZO_ERROR_ARGUMENT;
}

zo_status zo_node_tasks_check(const zo_node_settings* settings, const zo_node_task* tasks) {
  zo_status status = zo_node_settings_check(settings);
  for (uint32_t t = 0; status == ZO_OK && t < settings->tasks; ++t) {
    status = check_task(&tasks[t]);
  }
  for (uint32_t t = 0; status == ZO_OK && t < settings->tasks; ++t) {
    status = check_shared(tasks, t);
  }
  return status;
}

/* Of a weight task, the highest of its 64 bits is the exponent's: they are not negative. */
int zo_task_mean_square_is_valid(uint32_t kind, zo_scale mean_square) {
  return kind == ZO_TASK_WEIGHTS ? mean_square.exponent >= 0 : zo_scale_is_valid(mean_square);
}
