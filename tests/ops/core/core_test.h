/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the C core without any runtime, to be run under the address and undefined-behaviour
 * sanitizers: every function, edge sizes, weights at odd addresses, nodes over fake tensors,
 * damaged commands and options. Every buffer is allocated at its exact size, so that the sanitizers
 * see a read or write past its end. Results are tested from Python (tests/core) against an oracle;
 * here functions are checked against each other.
 */
#ifndef TFLM_ZO_TESTS_OPS_CORE_CORE_TEST_H_
#define TFLM_ZO_TESTS_OPS_CORE_CORE_TEST_H_

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/core/graph/zo_command.h"
#include "ops/core/graph/zo_op.h"
#include "ops/core/log/zo_crc32.h"
#include "ops/core/log/zo_log.h"
#include "ops/core/log/zo_snapshot_log.h"
#include "ops/core/loss/zo_calibration.h"
#include "ops/core/loss/zo_loss.h"
#include "ops/core/nodes/zo_node_layer.h"
#include "ops/core/nodes/zo_node_update.h"
#include "ops/core/papers/zo_floor_log2_loss.h"
#include "ops/core/papers/zo_pseudo_stochastic.h"
#include "ops/core/papers/zo_update_bits.h"
#include "ops/core/random/zo_stream.h"
#include "ops/core/run/zo_control.h"
#include "ops/core/run/zo_node_run.h"
#include "ops/core/weights/zo_checksum.h"
#include "ops/core/weights/zo_perturb.h"
#include "ops/core/weights/zo_update.h"
#include "ops/core/zo_little_endian.h"
#include "tests/ops/check.h"

/* Every how many-th round is run: 1 on a host, more if a core is emulated. */
#ifndef CORE_TEST_THIN
#define CORE_TEST_THIN 1
#endif
#define ROUNDS(count) (((count) + CORE_TEST_THIN - 1) / CORE_TEST_THIN)

/* Of every result that depends on a code path: the same in every build. */
extern uint32_t digest;

/* int8 values that end where their memory ends and start `shift` bytes after its start. */
typedef struct array {
  char* memory;
  int8_t* at;
  uint32_t size;
} array;

enum { SIZES = 19, DISTRIBUTIONS = 9, BAD_DISTRIBUTIONS = 12 };
extern const uint32_t sizes[SIZES];
extern const zo_distribution distributions[DISTRIBUTIONS];
extern const zo_distribution bad_distributions[BAD_DISTRIBUTIONS];

uint32_t random_u32(void);
uint32_t random_below(uint32_t bound);
uint32_t random_shifted(uint32_t least, uint32_t most);
void flip_a_bit(void* bytes, uint32_t count);
int32_t random_between(int32_t low, int32_t high);
void* allocate(size_t bytes);
array make_array(uint32_t size, uint32_t shift, int32_t limit);
array copy_array(const array* from, uint32_t shift);
array part_of(const array* whole, uint32_t offset, uint32_t size);
int same(const array* a, const array* b);
zo_tensor tensor_of(const array* weights, const array* fraction, uint32_t stream);

/* Words of a command, and a model's limit of it. */
enum { kCapacity = 64 };
extern const zo_limits limits;

/* Tensors and options of a fake node of a graph. */
enum { kMaxTensors = 4, kMaxInputs = 2 + 4 * kMaxTensors };

typedef struct graph {
  zo_buffer inputs[kMaxInputs];
  int32_t input_count;
  zo_buffer outputs[1];
  uint8_t* options; /* exact size, odd address */
  size_t options_bytes;
  char* options_memory;
} graph;

enum { kMostTasks = 3 };

/* A run with buffers of exact size. The interpreter's results are random. */
typedef struct node_run {
  zo_node_settings settings;
  zo_node_task tasks[kMostTasks];
  array weights[kMostTasks], fractions[kMostTasks];
  array inputs[kMostTasks], outputs[kMostTasks], nodes[kMostTasks];
  int32_t* multipliers[kMostTasks]; /* of every other task */
  int32_t* scratch;
} node_run;

zo_status perturb(const zo_tensor* tensor, zo_distribution distribution, const zo_perturb_term* terms, uint32_t count);
void random_queries(zo_query* queries, uint32_t count, int32_t largest);
zo_logit_scale scale_of(double scale);
int32_t* random_command(uint32_t* length, uint32_t flags);
zo_buffer graph_source(void* context, int32_t index);
void put_u16(uint8_t* at, uint32_t value);
void put_u32(uint8_t* at, uint32_t value);
void set_options(graph* g, size_t bytes);
zo_buffer buffer_of(void* data, size_t bytes);
zo_control_settings random_settings(void);
zo_node_layer random_layer(void);
void make_node_run(node_run* r);
void free_node_run(node_run* r);
zo_tensor task_tensor(const node_run* r, uint32_t t);
zo_report answer(node_run* r, zo_node_run* run, const zo_node_request* request);

void test_stream(void);
void test_perturb(void);
void test_a_million_restores(void);
void test_update(void);
void test_update_errors(void);
void test_losses(void);
void test_calibration(void);
void test_sum_losses(void);
void test_commands(void);
void test_weight_op(uint32_t tensors, uint32_t flags);
void test_loss_op(void);
void test_sum_loss_op(void);
void test_control(void);
void test_log_header(void);
void test_many_blocks(void);
void test_measurements(void);
void test_bits(void);
void test_nodes(void);
void test_node_tail(void);
void test_snapshot_log(const node_run* r, const zo_node_run* run);
void test_node_sizes_that_wrap(void);
void test_a_command_of_many_items(void);
void test_snapshot_sizes(void);
void test_flash_store(void);
void test_fleet(void);
void test_link(void);
void test_node_run(void);
void test_weight_task(void);

#endif /* TFLM_ZO_TESTS_OPS_CORE_CORE_TEST_H_ */
