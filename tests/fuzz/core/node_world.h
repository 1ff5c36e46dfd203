/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* A run of tasks over small tensors, with all the buffers that its tasks need, each of the exact
 * size; and an interpreter that answers its requests. */
#ifndef TFLM_ZO_TESTS_FUZZ_CORE_NODE_WORLD_H_
#define TFLM_ZO_TESTS_FUZZ_CORE_NODE_WORLD_H_

#include "fuzz_input.h"
#include "ops/core/random/zo_stream.h"
#include "ops/core/run/zo_node_run.h"

enum { kWorldTasks = 3, kWorldTensors = 2, kWorldMinibatch = 8 };

typedef struct node_world {
  zo_node_settings settings;
  zo_node_task tasks[ZO_NODE_TASKS_MAX];
  zo_node_run run;
  uint32_t sizes[kWorldTasks][kWorldTensors]; /* 0: no such tensor */
  int8_t* weights[kWorldTasks][kWorldTensors];
  int8_t* before[kWorldTasks][kWorldTensors]; /* at the beginning of the step */
  int8_t* fractions[kWorldTasks];             /* of the first tensor; not for every task */
  int8_t *inputs[kWorldTasks], *outputs[kWorldTasks], *nodes[kWorldTasks];
  int32_t *scratch, *losses, *labels;
  int32_t limit;
} node_world;

static inline uint32_t world_minibatch(const node_world* w) {
  return w->settings.common.batch * w->settings.common.parts;
}

/* Layer, buffers and tensors of a task whose kind and queries are set. */
static inline void world_make_task(fuzz_input* in, node_world* w, uint32_t t) {
  zo_node_task* task = &w->tasks[t];
  zo_node_layer* l = &task->layer;
  const uint32_t batch = w->settings.common.batch, all = world_minibatch(w);
  const uint32_t queries = task->queries <= ZO_MAX_QUERIES ? task->queries : ZO_MAX_QUERIES;
  memset(l, 0, sizeof *l);
  l->in_h = l->in_w = l->k_h = l->k_w = l->out_h = l->out_w = l->node_h = l->node_w = 1;
  l->stride_h = l->stride_w = l->dilation_h = l->dilation_w = 1;
  l->in_c = take_between(in, 1, 9);
  l->out_c = take_between(in, 2, 9);
  if (task->kind == ZO_TASK_NODES && task->queries > 0u && take_flag(in)) {
    l->form = ZO_NODES_MEAN; /* a 2 x 2 convolution behind which the mean is taken */
    l->in_h = l->in_w = 3;
    l->k_h = l->k_w = l->out_h = l->out_w = 2;
  }
  l->input_zero_point = (int32_t)take_between(in, 0, 255) - 128;
  l->low = take_flag(in) ? -128 : -129;
  l->high = take_flag(in) ? 127 : 128;
  const uint32_t size = l->k_h * l->k_w * l->in_c * l->out_c;
  w->sizes[t][0] = size;
  w->sizes[t][1] = task->kind == ZO_TASK_WEIGHTS && take_flag(in) ? take_between(in, 1, 40) : 0u;
  for (uint32_t i = 0; i < kWorldTensors; ++i) {
    w->weights[t][i] = make_int8(in, w->sizes[t][i], w->limit);
    w->before[t][i] = (int8_t*)copy_of(w->weights[t][i], w->sizes[t][i]);
  }
  w->fractions[t] = take_flag(in) ? make_int8(in, size, 0) : NULL;
  const uint32_t nodes = task->kind == ZO_TASK_WEIGHTS ? take_between(in, 0, 9) : zo_node_count(l);
  if (task->kind == ZO_TASK_WEIGHTS) task->boundary_bytes = nodes;
  w->inputs[t] = make_int8(in, (size_t)batch * zo_node_input_bytes(l), 127);
  w->outputs[t] = make_int8(in, (size_t)batch * l->out_h * l->out_w * l->out_c, 127);
  w->nodes[t] = make_int8(in, (size_t)batch * nodes, 127);
  task->inputs = make_int8(in, (size_t)all * zo_node_input_bytes(l), 127);
  task->routes = (uint8_t*)make_int8(in, (size_t)all * zo_node_route_bytes(l), 127);
  task->nodes = make_int8(in, (size_t)batch * nodes, 127);
  task->differences = (int32_t*)fuzz_allocate(sizeof(int32_t) * all * queries);
  memset(task->differences, 0, sizeof(int32_t) * all * queries);
  task->errors = (int16_t*)fuzz_allocate(sizeof(int16_t) * all * zo_node_count(l));
  memset(task->errors, 0, sizeof(int16_t) * all * zo_node_count(l));
  task->exponents = (int8_t*)fuzz_allocate(all);
  memset(task->exponents, 0, all);
  task->sums = (int64_t*)fuzz_allocate(sizeof(int64_t) * queries);
  memset(task->sums, 0, sizeof(int64_t) * queries);
}

/* Whether the tasks' buffers can be had for the settings, which may be anybody's. */
static inline int world_is_small(const zo_node_settings* s) {
  return s->tasks >= 1u && s->tasks <= kWorldTasks && s->common.batch >= 1u && s->common.parts >= 1u &&
         s->common.batch <= kWorldMinibatch && s->common.parts <= kWorldMinibatch / s->common.batch;
}

/* Settings and the tasks' own fields are set: the rest. */
static inline void world_make(fuzz_input* in, node_world* w) {
  w->limit = 127 - (int32_t)take_between(in, 0, 20);
  for (uint32_t t = 0; t < w->settings.tasks; ++t) world_make_task(in, w, t);
  w->scratch = (int32_t*)fuzz_allocate(sizeof(int32_t) * 64u);
  w->losses = (int32_t*)fuzz_allocate(sizeof(int32_t) * w->settings.common.batch);
  w->labels = (int32_t*)fuzz_allocate(sizeof(int32_t) * w->settings.common.batch);
}

static inline void world_free(node_world* w) {
  for (uint32_t t = 0; t < w->settings.tasks; ++t) {
    for (uint32_t i = 0; i < kWorldTensors; ++i) {
      free(w->weights[t][i]);
      free(w->before[t][i]);
    }
    free(w->fractions[t]);
    free(w->inputs[t]);
    free(w->outputs[t]);
    free(w->nodes[t]);
    free(w->tasks[t].inputs);
    free(w->tasks[t].routes);
    free(w->tasks[t].nodes);
    free(w->tasks[t].differences);
    free(w->tasks[t].errors);
    free(w->tasks[t].exponents);
    free(w->tasks[t].sums);
  }
  free(w->scratch);
  free(w->losses);
  free(w->labels);
}

static inline zo_tensor world_tensor(const node_world* w, uint32_t t, uint32_t i) {
  zo_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.weights = w->weights[t][i];
  tensor.fraction = i == 0u ? w->fractions[t] : NULL;
  tensor.size = w->sizes[t][i];
  tensor.channels = w->tasks[t].layer.out_c;
  tensor.inner = 1;
  tensor.stream = 2u * t + i;
  tensor.limit = w->limit;
  return tensor;
}

static inline uint32_t world_tensors(const node_world* w, uint32_t t, zo_tensor* tensors) {
  uint32_t count = 0;
  while (count < kWorldTensors && w->sizes[t][count] > 0u) {
    tensors[count] = world_tensor(w, t, count);
    ++count;
  }
  return count;
}

static inline void world_begin_step(node_world* w) {
  for (uint32_t t = 0; t < w->settings.tasks; ++t) {
    for (uint32_t i = 0; i < kWorldTensors; ++i) {
      memcpy(w->before[t][i], w->weights[t][i], w->sizes[t][i]);
    }
  }
}

static inline void world_check_unmoved(const node_world* w) {
  for (uint32_t t = 0; t < w->settings.tasks; ++t) {
    for (uint32_t i = 0; i < kWorldTensors; ++i) {
      HOLDS(memcmp(w->before[t][i], w->weights[t][i], w->sizes[t][i]) == 0);
    }
  }
}

/* Any errors of the part, as a program may lead them to a task of an exact tail. */
static inline void world_lead_back(fuzz_input* in, const node_world* w, zo_node_task* task) {
  const uint32_t batch = w->settings.common.batch, nodes = zo_node_count(&task->layer);
  const size_t first = (size_t)w->run.part * batch;
  int16_t* errors = task->errors + first * nodes;
  fill_bytes(in, errors, sizeof(int16_t) * batch * nodes);
  for (uint32_t i = 0; i < batch * nodes; ++i) {
    if (errors[i] == INT16_MIN) errors[i] = -INT16_MAX;
  }
  fill_bytes(in, task->exponents + first, batch);
}

static inline void world_capture(fuzz_input* in, node_world* w, const zo_node_request* request) {
  const zo_model_loss loss = {ZO_LOSS_CROSS_ENTROPY, 0, {2420406, 1677722}, 1, 0}; /* scale 0.1 */
  for (uint32_t i = 0; i < w->settings.common.batch; ++i) {
    w->labels[i] = (int32_t)take_between(in, 0, 2) - 1;
    HOLDS(zo_sample_at(&w->settings.common, request->first_sample + i) < w->settings.common.samples);
  }
  for (uint32_t t = 0; t < w->settings.tasks; ++t) {
    zo_node_task* task = &w->tasks[t];
    if (task->kind == ZO_TASK_WEIGHTS) {
      const zo_status status = zo_node_run_capture_boundary(&w->run, t, w->nodes[t]);
      HOLDS((status == ZO_OK) == (task->boundary_bytes != 0u));
    } else if (task->queries == 0u && task->in_tail == 0u) {
      HOLDS(zo_node_run_capture_head(&w->run, t, w->inputs[t], w->outputs[t], &loss, w->labels) == ZO_OK);
    } else {
      HOLDS(zo_node_run_capture(&w->run, t, w->inputs[t], w->outputs[t], w->nodes[t]) == ZO_OK);
      if (task->queries == 0u) world_lead_back(in, w, task);
    }
  }
}

/* Executes a request. Returns ZO_OK, or the error that ends the run. */
static inline zo_status world_answer(fuzz_input* in, node_world* w, const zo_node_request* request, zo_report* report) {
  const uint32_t batch = w->settings.common.batch;
  const zo_node_task* task = &w->tasks[request->task];
  zo_tensor tensors[kWorldTensors];
  uint32_t saturated = 0;
  memset(report, 0, sizeof *report);
  for (uint32_t i = 0; i < batch; ++i) w->losses[i] = (int32_t)(take_any(in) >> 1);
  if (request->action == ZO_NODE_FORWARD) {
    world_capture(in, w, request);
    return zo_node_run_report(&w->run, w->losses, batch, report);
  }
  const uint32_t count = world_tensors(w, request->task, tensors);
  const int weights = task->kind == ZO_TASK_WEIGHTS;
  if (request->action == ZO_NODE_QUERY) {
    if (!weights || task->boundary_bytes > 0u) {
      HOLDS(zo_node_run_perturb(&w->run, w->nodes[request->task]) == ZO_OK);
    }
    if (weights) {
      const zo_status status = zo_node_run_perturb_weights(&w->run, tensors, count);
      if (status != ZO_OK) return status;
    }
    return zo_node_run_report(&w->run, w->losses, batch, report);
  }
  if (request->action == ZO_NODE_RESTORE) {
    const zo_status status = zo_node_run_perturb_weights(&w->run, tensors, count);
    if (status == ZO_OK) world_check_unmoved(w);
    return status;
  }
  const zo_status status = weights ? zo_node_run_update_weights(&w->run, tensors, count, &saturated, report)
                                   : zo_node_run_update(&w->run, tensors, 1, w->scratch, &saturated, report);
  for (uint32_t i = 0; status == ZO_OK && i < count; ++i) {
    HOLDS(is_within(tensors[i].weights, tensors[i].size, w->limit));
  }
  return status;
}

#endif /* TFLM_ZO_TESTS_FUZZ_CORE_NODE_WORLD_H_ */
