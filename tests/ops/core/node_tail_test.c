/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* An exact tail of dense layers. */
#include "core_test.h"
#include "ops/core/run/zo_node_backward.h"

/* A tail of two layers that is trained by its exact gradient, errors coming back through the last
 * one by a program, in buffers of exact size. */
void test_node_tail(void) {
  enum { kBatch = 3, kParts = 2, kWhole = kBatch * kParts, kFirst = 5, kNodes = 7, kClasses = 4 };
  for (int round = 0; round < 50; ++round) {
    zo_node_task tasks[2];
    memset(tasks, 0, sizeof tasks);
    const uint32_t in[2] = {kFirst, kNodes}, out[2] = {kNodes, kClasses};
    array weights[2], inputs[2], outputs[2];
    for (uint32_t t = 0; t < 2u; ++t) {
      zo_node_layer* l = &tasks[t].layer;
      l->in_h = l->in_w = l->k_h = l->k_w = l->stride_h = l->stride_w = 1;
      l->dilation_h = l->dilation_w = l->out_h = l->out_w = l->node_h = l->node_w = 1;
      l->in_c = in[t];
      l->out_c = out[t];
      l->low = t == 0u ? random_between(-129, 0) : -129;
      l->high = 128;
      tasks[t].mu = 1;
      tasks[t].rate = 65536;
      tasks[t].in_tail = t == 0u;
      tasks[t].inputs = (int8_t*)allocate((size_t)kWhole * in[t]);
      tasks[t].errors = (int16_t*)allocate(sizeof(int16_t) * kWhole * out[t]);
      tasks[t].exponents = (int8_t*)allocate(kWhole);
      weights[t] = make_array(in[t] * out[t], 1, 120);
      inputs[t] = make_array(kBatch * in[t], 1, 127);
      outputs[t] = make_array(kBatch * out[t], 3, 127);
    }
    /* Nothing of the outputs of the first one is kept. */
    tasks[1].routes = (uint8_t*)allocate((size_t)kWhole * kClasses);
    tasks[1].nodes = (int8_t*)allocate((size_t)kBatch * kClasses);
    uint32_t values = zo_node_scratch_values(&tasks[0].layer);
    if (zo_node_scratch_values(&tasks[1].layer) > values) values = zo_node_scratch_values(&tasks[1].layer);
    int32_t* scratch = (int32_t*)allocate(sizeof(int32_t) * values);
    int16_t* scales = (int16_t*)allocate(sizeof(int16_t) * kClasses);
    for (uint32_t i = 0; i < kClasses; ++i) scales[i] = (int16_t)random_below(32768);
    zo_backward_step steps[2];
    memset(steps, 0, sizeof steps);
    steps[0].kind = ZO_BACKWARD_LAYER;
    steps[0].layer = &tasks[1].layer;
    steps[0].mantissas = scales;
    steps[1].kind = ZO_BACKWARD_MASK;
    steps[0].to = steps[1].from = steps[1].to = 1;
    steps[1].low = tasks[0].layer.low;
    steps[1].high = tasks[0].layer.high;
    const zo_error_field fields[2] = {{tasks[1].errors, tasks[1].exponents, kClasses, 1},
                                      {tasks[0].errors, tasks[0].exponents, kNodes, 1}};
    uint32_t norms[2];
    int32_t* sums = (int32_t*)allocate(sizeof(int32_t) * kNodes);
    const zo_backward program = {steps, fields, 2, 2, norms, sums};
    CHECK(zo_backward_scratch_values(steps, 2) == kNodes && zo_backward_check(&program) == ZO_OK);
    const int8_t* sources[2] = {weights[1].at, outputs[0].at};
    const zo_model_loss loss = {ZO_LOSS_CROSS_ENTROPY, 0, scale_of(0.1), 1, NULL};
    int32_t labels[kBatch] = {0, -1, kClasses - 1}, losses[kBatch] = {1, 2, 3};

    zo_node_settings settings;
    memset(&settings, 0, sizeof settings);
    settings.common.steps = 1;
    settings.common.samples = 9;
    settings.common.batch = kBatch;
    settings.common.parts = kParts;
    settings.common.queries = 1;
    settings.common.distribution.mu = 1;
    settings.common.rate = 65536;
    settings.common.clip = 4 * 65536;
    settings.tasks = 2;
    zo_node_run run;
    zo_report report;
    zo_node_request request;
    /* A program needs room for its exponents, a head routes and nodes. */
    int8_t* exponents = tasks[0].exponents;
    tasks[0].exponents = NULL;
    CHECK(zo_node_run_init(&run, &settings, tasks) == ZO_ERROR_ARGUMENT);
    tasks[0].exponents = exponents;
    tasks[0].in_tail = 0;
    CHECK(zo_node_run_init(&run, &settings, tasks) == ZO_ERROR_ARGUMENT);
    tasks[0].in_tail = 1;
    CHECK(zo_node_run_init(&run, &settings, tasks) == ZO_OK);

    for (uint32_t part = 0; part < kParts; ++part) {
      CHECK(zo_node_run_next(&run, &request) == ZO_OK && request.action == ZO_NODE_FORWARD);
      CHECK(zo_node_run_capture_head(&run, 0, inputs[0].at, outputs[0].at, &loss, labels) == ZO_ERROR_ARGUMENT);
      CHECK(zo_node_run_capture(&run, 1, inputs[1].at, outputs[1].at, outputs[1].at) == ZO_ERROR_ARGUMENT);
      CHECK(zo_node_run_capture(&run, 0, NULL, NULL, NULL) == ZO_ERROR_ARGUMENT);
      CHECK(zo_node_run_capture(&run, 0, inputs[0].at, NULL, NULL) == ZO_OK);
      CHECK(zo_node_run_capture_head(&run, 1, inputs[1].at, outputs[1].at, &loss, labels) == ZO_OK);
      CHECK(zo_node_run_backward(&run, &program, 0, 3, sources) == ZO_ERROR_ARGUMENT);
      CHECK(zo_node_run_backward(&run, &program, 0, 2, NULL) == ZO_ERROR_ARGUMENT);
      CHECK(zo_node_run_backward(&run, &program, 0, 1, sources) == ZO_OK);
      CHECK(zo_node_run_backward(&run, &program, 1, 2, sources) == ZO_OK);
      for (uint32_t i = 0; i < kBatch * kNodes; ++i) {
        const uint32_t at = part * kBatch * kNodes + i;
        CHECK(outputs[0].at[i] > tasks[0].layer.low || tasks[0].errors[at] == 0);
        CHECK(i / kNodes != 1u || tasks[0].errors[at] == 0); /* unlabelled */
      }
      CHECK(zo_node_run_report(&run, losses, kBatch, &report) == ZO_OK);
    }
    /* Steps of a minibatch of several samples are done before any update. */
    CHECK(zo_node_run_backward(&run, &program, 0, 2, sources) == ZO_ERROR_ARGUMENT);
    for (uint32_t t = 2; t-- > 0u;) {
      zo_tensor tensor = tensor_of(&weights[t], NULL, t);
      CHECK(zo_node_run_next(&run, &request) == ZO_OK && request.action == ZO_NODE_UPDATE && request.task == t);
      CHECK(zo_node_run_update(&run, &tensor, 1, scratch, NULL, &report) == ZO_OK);
      for (uint32_t i = 0; i < tensor.size; ++i) {
        digest = digest * 31u + (uint8_t)weights[t].at[i];
      }
    }
    CHECK(report.step_done == 1u && report.mean_loss == 2);
    for (uint32_t t = 0; t < 2u; ++t) {
      free(tasks[t].inputs);
      free(tasks[t].routes);
      free(tasks[t].nodes);
      free(tasks[t].errors);
      free(tasks[t].exponents);
      free(weights[t].memory);
      free(inputs[t].memory);
      free(outputs[t].memory);
    }
    free(scratch);
    free(scales);
    free(sums);
  }
}
