/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The external delegate over a runtime of the test's own, to be run under the address and
 * undefined-behaviour sanitizers: invalid options, an invalid directory, and nodes whose tensors
 * are absent, of other types, sizes and scales. Results of whole graphs are tested in the real
 * runtimes, from Python (tests/runtime).
 */
#include <inttypes.h>
#include <math.h>

#include "check.h"
#include "fake_runtime.h"
#include "ops/core/graph/zo_op.h"
#include "ops/core/loss/zo_loss.h"
#include "ops/core/zo_little_endian.h"

unsigned long checks;

static char reported[200];
static void keep_error(const char* message) { (void)snprintf(reported, sizeof reported, "%s", message); }

static TfLiteDelegate* create(const char* key, const char* value) {
  reported[0] = '\0';
  return tflite_plugin_create_delegate(&key, &value, 1, keep_error);
}

static void refuse(const char* key, const char* value, const char* reason) {
  CHECK(create(key, value) == NULL);
  CHECK(strstr(reported, reason) != NULL);
  CHECK(tflite_plugin_create_delegate(&key, &value, 1, NULL) == NULL);
}

static void test_options(void) {
  TfLiteDelegate* plain = tflite_plugin_create_delegate(NULL, NULL, 0, NULL);
  CHECK(plain != NULL);
  tflite_plugin_destroy_delegate(plain);
  refuse("exact", NULL, "exact is 0 or 1");
  refuse("exact", "", "exact is 0 or 1");
  refuse("exact", "true", "exact is 0 or 1");
  refuse("exact", "01", "exact is 0 or 1");
  refuse("kernels", NULL, "kernels is not the name");
  refuse("kernels", "abacus", "kernels is not the name");
  TfLiteDelegate* portable = create("kernels", "portable");
  CHECK(portable != NULL);
  tflite_plugin_destroy_delegate(portable);
  refuse("speed", "1", "unknown option");
  refuse(NULL, "1", "unknown option");

  const char* none = "decimal address of a zo_directory";
  zo_directory_entry entries[2];
  zo_directory directory = {ZO_DIRECTORY_MAGIC, 2, 0, entries, NULL};
  char address[40], changed[42];
  (void)snprintf(address, sizeof address, "%" PRIuPTR, (uintptr_t)&directory);
  TfLiteDelegate* delegate = create("directory", address);
  CHECK(delegate != NULL);
  tflite_plugin_destroy_delegate(delegate);
  refuse("directory", NULL, none);
  refuse("directory", "", none);
  refuse("directory", "0", none);
  refuse("directory", "directory", none);
  refuse("directory", "99999999999999999999999999", none);
  (void)snprintf(changed, sizeof changed, "-%s", address);
  refuse("directory", changed, none);
  (void)snprintf(changed, sizeof changed, " %s", address);
  refuse("directory", changed, none);
  (void)snprintf(changed, sizeof changed, "%sx", address);
  refuse("directory", changed, none);
  (void)snprintf(changed, sizeof changed, "%" PRIuPTR, (uintptr_t)&directory + 1u);
  refuse("directory", changed, none);
  directory.magic ^= 1u;
  refuse("directory", address, none);
  directory.magic = ZO_DIRECTORY_MAGIC;
  directory.entries = NULL;
  refuse("directory", address, none);
}

/* --- FULLY_CONNECTED ----------------------------------------------------------------- */

enum { kSamples = 2, kDepth = 3, kUnits = 4 };

/* x, weights, bias and y, in that order, and how to undo a test's change: by making it again. */
typedef struct layer {
  fake_runtime runtime;
  TfLiteDelegate* delegate;
  int8_t *x, *weights, *y;
  int32_t* bias;
} layer;

static void* allocate(size_t bytes) {
  void* memory = malloc(bytes);
  if (memory == NULL) abort();
  memset(memory, 1, bytes);
  return memory;
}

static void make_layer(layer* l) {
  fake_runtime* r = &l->runtime;
  fake_begin(r);
  l->delegate = create("exact", "1");
  CHECK(l->delegate != NULL);
  l->x = (int8_t*)allocate(kSamples * kDepth);
  l->weights = (int8_t*)allocate(kUnits * kDepth);
  l->bias = (int32_t*)allocate(sizeof(int32_t) * kUnits);
  l->y = (int8_t*)allocate(kSamples * kUnits);
  memset(l->bias, 0, sizeof(int32_t) * kUnits);
  const int node = fake_add(r, NULL, NULL, 0);
  fake_input(r, node, fake_tensor(r, kTfLiteInt8, l->x, kSamples * kDepth));
  fake_input(r, node, fake_tensor(r, kTfLiteInt8, l->weights, kUnits * kDepth));
  fake_input(r, node, fake_tensor(r, kTfLiteInt32, l->bias, sizeof(int32_t) * kUnits));
  fake_output(r, node, fake_tensor(r, kTfLiteInt8, l->y, kSamples * kUnits));
  r->dims[1].size = 2;
  r->dims[1].data[0] = kUnits;
  r->dims[1].data[1] = kDepth;
}

/* Applies, invokes and frees; whether the layer was claimed, prepared and run. */
typedef struct outcome {
  int claimed, prepared, run;
} outcome;

static outcome end_layer(layer* l) {
  outcome o = {0, 0, 0};
  fake_runtime* r = &l->runtime;
  o.prepared = r->claims > 0u || fake_apply(r, l->delegate) == kTfLiteOk;
  o.claimed = r->claims > 0u;
  if (o.claimed) o.run = fake_invoke(r) == kTfLiteOk; /* even if prepare has failed */
  fake_end(r);
  tflite_plugin_destroy_delegate(l->delegate);
  free(l->x);
  free(l->weights);
  free(l->bias);
  free(l->y);
  return o;
}

#define LAYER(change, is_claimed, is_prepared, is_run)     \
  do {                                                     \
    layer l;                                               \
    make_layer(&l);                                        \
    fake_runtime* r = &l.runtime;                          \
    (void)r;                                               \
    change;                                                \
    const outcome o = end_layer(&l);                       \
    CHECK(o.claimed == (is_claimed));                      \
    CHECK(!o.claimed || o.prepared == (is_prepared));      \
    CHECK(!o.claimed || !o.prepared || o.run == (is_run)); \
  } while (0)

#define LEFT_ALONE(change) LAYER(change, 0, 0, 0)

#define CLAIMED(change)                                                     \
  do {                                                                      \
    layer l;                                                                \
    make_layer(&l);                                                         \
    fake_runtime* r = &l.runtime;                                           \
    CHECK(fake_apply(r, l.delegate) == kTfLiteOk);                          \
    change;                                                                 \
    CHECK(r->kernel.prepare(&r->context, &r->kernel_node) == kTfLiteError); \
    CHECK(strstr(r->error, "FULLY_CONNECTED") == r->error);                 \
    CHECK(end_layer(&l).run == 0);                                          \
  } while (0)

static void test_threads(int threads) {
  layer plain;
  make_layer(&plain);
  plain.runtime.context.recommended_num_threads = threads;
  for (int i = 0; i < kUnits * kDepth; ++i) plain.weights[i] = (int8_t)(10 * i - 50);
  CHECK(fake_apply(&plain.runtime, plain.delegate) == kTfLiteOk);
  CHECK(fake_invoke(&plain.runtime) == kTfLiteOk);
  for (int s = 0; s < kSamples; ++s) {
    for (int u = 0; u < kUnits; ++u) { /* 0.5 * 0.5 / 0.5 of the sum, half up, within int8 */
      const int sum = 30 * kDepth * u + 30 - 150;
      const double real = floor(sum * 0.5 + 0.5);
      CHECK(plain.y[s * kUnits + u] == (int8_t)(real > 127.0 ? 127.0 : real));
    }
  }
  (void)end_layer(&plain);
}

static void test_fully_connected(void) {
  LAYER((void)0, 1, 1, 1);
  LEFT_ALONE(r->tensors[0].type = 1);
  LEFT_ALONE(r->tensors[1].type = kTfLiteInt32);
  LEFT_ALONE(r->tensors[2].type = kTfLiteInt8);
  LEFT_ALONE(r->tensors[3].type = 7);
  LEFT_ALONE(r->tensors[1].dims = NULL);
  LEFT_ALONE(r->dims[1].size = 3);
  LEFT_ALONE(r->tensors[1].quantization.params = NULL);
  LEFT_ALONE(r->affine[1].scale = NULL);
  LEFT_ALONE(r->scales[1].size = 0);
  LEFT_ALONE(r->tensors[0].params.scale = 0.0f);
  LEFT_ALONE(r->tensors[0].params.scale = NAN);
  LEFT_ALONE(r->tensors[3].params.scale = -1.0f);
  LEFT_ALONE(r->tensors[3].params.scale = INFINITY);
  LEFT_ALONE(r->tensors[3].params.scale = 1e-38f); /* a factor beyond 2^30 */
  LEFT_ALONE(r->tensors[1].params.scale = -0.5f);
  LEFT_ALONE(r->tensors[0].params.zero_point = 128);
  LEFT_ALONE(r->tensors[1].params.zero_point = INT32_MIN);
  LEFT_ALONE(r->tensors[3].params.zero_point = INT32_MAX);
  LEFT_ALONE(r->inputs[0].data[0] = -1);
  LEFT_ALONE(r->inputs[0].data[1] = 4);
  LEFT_ALONE(r->inputs[0].data[2] = -2);
  LEFT_ALONE(r->outputs[0].data[0] = 1 << 30);
  LEFT_ALONE(r->inputs[0].size = 1);
  LEFT_ALONE(r->outputs[0].size = 0);
  LEFT_ALONE(r->nodes[0].builtin_data = NULL);
  LEFT_ALONE(r->fully_connected[0].activation = (TfLiteFusedActivation)4);
  LEFT_ALONE(r->dims[1].data[0] = kUnits + 1);
  LEFT_ALONE(r->dims[1].data[0] = 0);
  LEFT_ALONE(r->dims[1].data[1] = -kDepth);
  LEFT_ALONE(r->dims[1].data[0] = r->dims[1].data[1] = 65536); /* 2^32 weights */
  LEFT_ALONE(r->tensors[1].bytes = kUnits * kDepth - 1);
  LEFT_ALONE(r->tensors[2].bytes = sizeof(int32_t) * kUnits - 1);
  LEFT_ALONE(r->tensors[0].bytes = 0; r->tensors[3].bytes = 0);
  LEFT_ALONE(r->tensors[0].bytes = kDepth);
  LEFT_ALONE(r->tensors[3].bytes = kSamples * kUnits + 1);
  LEFT_ALONE(r->scales[1].size = kUnits - 1; r->scales[1].data[1] = r->scales[1].data[2] = 0.5f);
  /* Nor are they computed if they no longer fit once they are claimed. */
  CLAIMED(r->dims[1].data[0] = kUnits + 1);
  CLAIMED(r->tensors[0].bytes = kDepth);
  CLAIMED(r->tensors[3].type = kTfLiteInt32);
  LAYER(r->tensors[0].data = NULL, 1, 1, 0);
  LAYER(r->tensors[1].data = NULL, 1, 1, 0);
  LAYER(r->tensors[2].data = NULL, 1, 1, 0);
  LAYER(r->tensors[3].data = NULL, 1, 1, 1); /* memory of its own */
  LAYER(r->inputs[0].data[2] = kTfLiteOptionalTensor, 1, 1, 1);
  LAYER(r->inputs[0].size = 2, 1, 1, 1);
  LAYER(r->fully_connected[0].activation = kTfLiteActRelu6; r->tensors[3].params.scale = 1e-6f, 1, 1, 1);
  /* Sums that int32 does not hold are TFLM's, modulo 2^32. */
  LAYER(l.bias[0] = INT32_MAX; l.bias[1] = INT32_MIN, 1, 1, 1);
}

/* --- SVDF ----------------------------------------------------------------------------------- */

enum { kMemory = 5 };

/* Begins a graph with one operator of the runtime's own; returns its node. */
static int begin_with(fake_runtime* r, int builtin, void* params) {
  fake_begin(r);
  const int node = fake_add(r, NULL, NULL, 0);
  r->registrations[node].builtin_code = builtin;
  r->nodes[node].builtin_data = params;
  return node;
}

/* Two units of two filters, with a state of int16. */
static int svdf(int tensor, int change) {
  int8_t x[kSamples * kDepth] = {1, 2, 3, -1, -2, -3}, weights[kUnits * kDepth] = {1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4};
  int16_t time[kUnits * kMemory] = {0}, state[kSamples * kUnits * kMemory] = {0};
  int32_t bias[kUnits / 2] = {3, -3};
  int8_t y[kSamples * kUnits / 2] = {0};
  for (int f = 0; f < kUnits; ++f) time[f * kMemory + kMemory - 1] = 1;
  TfLiteSVDFParams params = {change == 8 ? 0 : (change == 9 ? 3 : 2)};
  fake_runtime r;
  TfLiteDelegate* delegate = create("exact", "1");
  const int node = begin_with(&r, kTfLiteBuiltinSvdf, &params);
  fake_input(&r, node, fake_tensor(&r, kTfLiteInt8, x, sizeof x));
  fake_input(&r, node, fake_tensor(&r, kTfLiteInt8, weights, sizeof weights));
  fake_input(&r, node, fake_tensor(&r, kTfLiteInt16, time, sizeof time));
  fake_input(&r, node, fake_tensor(&r, kTfLiteInt32, bias, sizeof bias));
  fake_input(&r, node, fake_tensor(&r, kTfLiteInt16, state, sizeof state));
  fake_output(&r, node, fake_tensor(&r, kTfLiteInt8, y, sizeof y));
  r.tensors[4].is_variable = change != 7;
  for (int t = 0; t < 3; ++t) r.dims[t].size = 2;
  r.dims[0].data[0] = kSamples;
  r.dims[1].data[0] = r.dims[2].data[0] = kUnits;
  r.dims[0].data[1] = r.dims[1].data[1] = kDepth;
  r.dims[2].data[1] = kMemory;
  if (change == 1) r.tensors[tensor].type = 1;
  if (change == 2) r.tensors[tensor].bytes -= 1;
  if (change == 3) r.tensors[tensor].params.scale = 0.0f;
  if (change == 4) r.tensors[tensor].params.zero_point = INT32_MAX;
  if (change == 5) r.inputs[0].data[tensor] = -1;
  if (change == 6) r.dims[tensor].data[1] += 1;
  if (change == 10) r.tensors[tensor].data = NULL;
  const int claimed = fake_apply(&r, delegate) == kTfLiteOk && r.claims > 0u;
  const int run = claimed && fake_invoke(&r) == kTfLiteOk;
  if (run && change == 0) { /* features are half of 6 f, outputs a half of bias and features of two filters */
    CHECK(state[kMemory - 1] == 3 && state[4 * kMemory - 1] == 12 && state[8 * kMemory - 1] == -12);
    CHECK(y[0] == 6 && y[1] == 9 && y[2] == -3 && y[3] == -12);
  }
  fake_end(&r);
  tflite_plugin_destroy_delegate(delegate);
  return claimed + run;
}

/* FULLY_CONNECTED of int16: outputs are half of sums. */
static int dense16(int tensor, int change) {
  int16_t x[kSamples * kDepth] = {1000, 2000, 3001, -1000, -2000, -3001}, y[kSamples * kUnits] = {0};
  int8_t weights[kUnits * kDepth] = {1, 1, 1, 2, 2, 2, -3, -3, -3, 127, 127, 127};
  int64_t bias[kUnits] = {0, 8, -8, INT64_MIN};
  TfLiteFullyConnectedParams params = {kTfLiteActRelu6, change == 7};
  fake_runtime r;
  TfLiteDelegate* delegate = create("exact", "1");
  const int node = begin_with(&r, kTfLiteBuiltinFullyConnected, &params);
  fake_input(&r, node, fake_tensor(&r, kTfLiteInt16, x, sizeof x));
  fake_input(&r, node, fake_tensor(&r, kTfLiteInt8, weights, sizeof weights));
  fake_input(&r, node, fake_tensor(&r, kTfLiteInt64, bias, sizeof bias));
  fake_output(&r, node, fake_tensor(&r, kTfLiteInt16, y, sizeof y));
  r.dims[1].size = 2;
  r.dims[1].data[0] = kUnits;
  r.dims[1].data[1] = kDepth;
  for (int t = 0; t < 4; t += 3) r.tensors[t].params.scale = 1.0f / 4096.0f;
  if (change == 1) r.tensors[tensor].type = kTfLiteInt32;
  if (change == 2) r.tensors[tensor].bytes -= 1;
  if (change == 3) r.tensors[tensor].params.scale = NAN;
  if (change == 4) r.tensors[tensor].params.zero_point = 1;
  if (change == 5) r.inputs[0].data[tensor] = -1;
  if (change == 6) r.tensors[tensor].params.scale *= 256.0f; /* a factor of 128 */
  if (change == 10) r.tensors[tensor].data = NULL;
  const int claimed = fake_apply(&r, delegate) == kTfLiteOk && r.claims > 0u;
  const int run = claimed && fake_invoke(&r) == kTfLiteOk;
  if (run && change == 0) {
    CHECK(y[0] == 3001 && y[1] == 6005 && y[2] == 0 && y[4] == 0 && y[5] == 0 && y[6] == 8998);
  }
  fake_end(&r);
  tflite_plugin_destroy_delegate(delegate);
  return claimed + run;
}

static void test_dense16(void) {
  CHECK(dense16(0, 0) == 2);
  for (int tensor = 0; tensor < 4; ++tensor) {
    CHECK(dense16(tensor, 1) == 0 && dense16(tensor, 2) == 0);
    if (tensor == 0 || tensor == 3) CHECK(dense16(tensor, 3) == 0);
    if (tensor != 2) CHECK(dense16(tensor, 4) == 0);
    if (tensor < 3) CHECK(dense16(tensor, 5) == (tensor == 2 ? 2 : 0));
    CHECK(dense16(tensor, 10) == (tensor == 3 ? 2 : 1)); /* an output gets memory of its own */
  }
  CHECK(dense16(0, 6) == 0);
  CHECK(dense16(0, 7) == 0);
}

static void test_svdf(void) {
  CHECK(svdf(0, 0) == 2);
  for (int tensor = 0; tensor < 6; ++tensor) {
    CHECK(svdf(tensor, 1) == 0 && svdf(tensor, 2) == 0);
    CHECK((svdf(tensor, 3) == 0) == (tensor != 3)); /* TFLM's factors do without the scale of the bias */
    if (tensor != 3) CHECK((svdf(tensor, 4) == 0));
    if (tensor < 5) CHECK(svdf(tensor, 5) == 0);
    if (tensor < 3) CHECK(svdf(tensor, 6) == 0);
    CHECK(svdf(tensor, 10) == (tensor == 5 ? 2 : 1)); /* an output gets memory of its own */
  }
  for (int change = 7; change < 10; ++change) CHECK(svdf(0, change) == 0);
}

/* --- UNIDIRECTIONAL_SEQUENCE_LSTM --------------------------------------------------------- */

/* Units read an input of 8 and no hidden values; `input`: of a change. */
static int lstm(int input, int change) {
  enum { kSteps = 2 };
  int8_t x[kSamples * kSteps * kDepth], weights[kUnits * kDepth], recurrent[kUnits * kUnits] = {0};
  int8_t h[kSamples * kUnits] = {0}, y[kSamples * kSteps * kUnits] = {0};
  int16_t cell[kSamples * kUnits] = {0};
  int32_t bias[kUnits] = {0};
  memset(x, 8, sizeof x);
  memset(weights, 1, sizeof weights);
  TfLiteLSTMParams params = {kTfLiteActTanh, 0.0f, 0.0f, change == 10};
  if (change == 7) params.activation = kTfLiteActRelu;
  if (change == 8) params.cell_clip = -1.0f;
  fake_runtime r;
  TfLiteDelegate* delegate = create("exact", "1");
  const int node = begin_with(&r, kTfLiteBuiltinUnidirectionalSequenceLstm, &params);
  for (int i = 0; i < 24; ++i) {
    int tensor = -1;
    if (i == 0) tensor = fake_tensor(&r, kTfLiteInt8, x, sizeof x);
    if (i >= 1 && i < 5) tensor = fake_tensor(&r, kTfLiteInt8, weights, sizeof weights);
    if (i >= 5 && i < 9) tensor = fake_tensor(&r, kTfLiteInt8, recurrent, sizeof recurrent);
    if (i >= 12 && i < 16) tensor = fake_tensor(&r, kTfLiteInt32, bias, sizeof bias);
    if (i == 18) tensor = fake_tensor(&r, kTfLiteInt8, h, sizeof h);
    if (i == 19) tensor = fake_tensor(&r, kTfLiteInt16, cell, sizeof cell);
    if (i == input && (change == 6 || tensor >= 0)) {
      if (tensor < 0) tensor = fake_tensor(&r, kTfLiteInt16, bias, sizeof bias);
      TfLiteTensor* t = &r.tensors[tensor];
      if (change == 1) t->type = 1;
      if (change == 2) t->bytes += 1;
      if (change == 3) t->params.scale = NAN;
      if (change == 4) t->params.zero_point = INT32_MAX;
      if (change == 5) t->data = NULL;
    }
    fake_input(&r, node, i == input && change == 9 ? -1 : tensor);
    if (tensor >= 0) r.tensors[tensor].is_variable = i >= 18 && !(i == input && change == 11);
  }
  fake_output(&r, node, fake_tensor(&r, kTfLiteInt8, y, sizeof y));
  const int own[3] = {kSamples, kSteps, kDepth};
  r.dims[0].size = 3;
  r.dims[1].size = 2;
  for (int i = 0; i < 3; ++i) r.dims[0].data[i] = own[i];
  r.dims[1].data[0] = kUnits;
  r.dims[1].data[1] = kDepth;
  r.tensors[r.inputs[0].data[18] < 0 ? 0 : r.inputs[0].data[18]].params.scale =
      change == 3 && input == 18 ? NAN : 1.0f / 128.0f;
  const int claimed = fake_apply(&r, delegate) == kTfLiteOk && r.claims > 0u;
  const int run = claimed && fake_invoke(&r) == kTfLiteOk;
  if (run) { /* arguments of gates are 6, but at most 8; the cell adds up 2, then 4 of its unit of 1/2 */
    CHECK(cell[0] == 4 && cell[kSamples * kUnits - 1] == 4);
    CHECK(y[0] == 97 && h[0] == 123 && y[kSamples * kSteps * kUnits - 1] == 123);
  }
  fake_end(&r);
  tflite_plugin_destroy_delegate(delegate);
  return claimed + run;
}

static void test_lstm(void) {
  CHECK(lstm(0, 0) == 2);
  CHECK(lstm(0, 10) == 2); /* steps and samples are as many */
  CHECK(lstm(0, 7) == 0 && lstm(0, 8) == 0);
  CHECK(lstm(18, 11) == 0 && lstm(19, 11) == 0);
  for (int i = 0; i < 24; ++i) {
    const bool is_absent = (i >= 9 && i < 12) || (i >= 16 && i < 18) || i >= 20, is_bias = i >= 12 && i < 16;
    CHECK(lstm(i, 6) == (is_absent ? 0 : 2));
    if (is_absent) continue;
    CHECK(lstm(i, 1) == 0 && lstm(i, 2) == 0 && lstm(i, 9) == 0);
    CHECK((lstm(i, 3) == 0) == !is_bias);
    CHECK(is_bias || lstm(i, 4) == 0);
    CHECK(lstm(i, 5) == 1);
  }
}

/* --- custom ops ------------------------------------------------------------------------- */

static void test_custom_ops(void) {
  static const char* const names[] = {"TFLM_ZO_SEED_REPLAY", "TFLM_ZO_UPDATE", "TFLM_ZO_PERTURB",
                                      "TFLM_ZO_LOSS",        "TFLM_ZO_SVDF",   "TFLM_ZO_LSTM"};
  for (int op = 0; op < 6; ++op) {
    for (int length = -1; length <= 40; ++length) { /* options cut short, of zeros, or absent */
      uint8_t* options = (uint8_t*)allocate(length > 0 ? (size_t)length : 1u);
      memset(options, 0, length > 0 ? (size_t)length : 1u);
      options[0] = 1;
      fake_runtime r;
      fake_begin(&r);
      TfLiteDelegate* delegate = tflite_plugin_create_delegate(NULL, NULL, 0, NULL);
      int32_t words[8] = {0};
      const int node = fake_add(&r, names[op], length == 0 ? NULL : options, length);
      for (int i = 0; i < 5; ++i) {
        fake_input(&r, node, fake_tensor(&r, kTfLiteInt32, words, i == 1 ? 16 : sizeof words));
      }
      fake_output(&r, node, 0);
      CHECK(fake_apply(&r, delegate) == kTfLiteError);
      CHECK(strncmp(r.error, names[op], strlen(names[op])) == 0);
      CHECK(fake_invoke(&r) == kTfLiteError);
      fake_end(&r);
      tflite_plugin_destroy_delegate(delegate);
      free(options);
    }
  }
  fake_runtime r;
  fake_begin(&r);
  TfLiteDelegate* delegate = tflite_plugin_create_delegate(NULL, NULL, 0, NULL);
  (void)fake_add(&r, "TFLM_ZO_OF_TOMORROW", NULL, 0);
  CHECK(fake_apply(&r, delegate) == kTfLiteError);
  CHECK(strstr(r.error, "not in this op pack") != NULL);
  tflite_plugin_destroy_delegate(delegate);
}

/* Loss: properties of its tensors besides their number. */
static void test_loss(void) {
  for (int change = 0; change < 9; ++change) {
    uint8_t options[20] = {ZO_OPTIONS_VERSION, ZO_LOSS_CROSS_ENTROPY};
    zo_write_u32(options + 4, 4);
    zo_write_u32(options + 12, 24204406);
    zo_write_u32(options + 16, 16777216);
    int8_t logits[8] = {1, 2, 3, 4, 4, 3, 2, 1};
    int32_t labels[2] = {0, 3}, status[4] = {(int32_t)(ZO_COMMAND_MAGIC | ZO_FLAG_LOSS), 0, 0, 0};
    int32_t losses[2] = {-1, -1};
    fake_runtime r;
    fake_begin(&r);
    TfLiteDelegate* delegate = tflite_plugin_create_delegate(NULL, NULL, 0, NULL);
    const int node = fake_add(&r, "TFLM_ZO_LOSS", options, 20);
    fake_input(&r, node, fake_tensor(&r, kTfLiteInt8, logits, 8));
    fake_input(&r, node, fake_tensor(&r, kTfLiteInt32, labels, 8));
    fake_input(&r, node, fake_tensor(&r, kTfLiteInt32, status, 16));
    fake_output(&r, node, fake_tensor(&r, kTfLiteInt32, losses, 8));
    if (change == 1) r.tensors[0].type = 1; /* floats */
    if (change == 2) r.tensors[1].bytes = 4;
    if (change == 3) r.tensors[0].bytes += (size_t)1 << 32;
    if (change == 4) r.inputs[0].data[1] = -1;
    if (change == 5) r.inputs[0].data[1] = 99;
    if (change == 6) r.tensors[0].data = NULL;
    if (change == 7) r.tensors[1].data = NULL;
    if (change == 8) r.outputs[0].size = 0;
    const int prepared = fake_apply(&r, delegate) == kTfLiteOk;
    CHECK(prepared == (change == 0 || change == 6 || change == 7));
    const int run = fake_invoke(&r) == kTfLiteOk;
    CHECK(run == (change == 0));
    CHECK((losses[0] > 0) == run);
    fake_end(&r);
    tflite_plugin_destroy_delegate(delegate);
  }
}

/* A weight op that borrows another interpreter's weights: biases first, which have no fractions. It
 * moves them as their owner would. */
static void test_borrowed_weights(void) {
  for (int change = 0; change < 9; ++change) {
    uint8_t options[8 + 24] = {
        ZO_OPTIONS_VERSION, ZO_OPTION_FIRST | ZO_OPTION_LAST | ZO_OPTION_FRACTION, 1, 1, 2, 0, 1};
    const uint8_t of_biases[12] = {7, 0, 0, ZO_OPTION_BIAS >> 8, 2, 0, 0, 0, 1};
    const uint8_t of_weights[12] = {5, 0, 0, 0, 2, 0, 0, 0, 3};
    memcpy(options + 8, of_biases, 12);
    memcpy(options + 20, of_weights, 12);
    int32_t words[2] = {(int32_t)(ZO_COMMAND_MAGIC | ZO_FLAG_LOSS), 0}, state[4] = {0};
    int32_t owners[4] = {change == 8 ? 0 : ZO_STATE_MAGIC, 5, 0, 0};
    int32_t status[4] = {9, 9, 9, 9}, own_biases[2] = {1, 1}, biases[2] = {3, 4};
    int8_t initial[14] = {0}, own_fraction[6] = {0}, own[6] = {1}, weights[6] = {2}, fraction[6] = {3};
    zo_directory_entry entries[2] = {{(int8_t*)biases, NULL, 8, 7}, {weights, fraction, 6, 5}};
    zo_directory directory = {ZO_DIRECTORY_MAGIC, 2, 2, entries, owners};
    if (change == 1) entries[1].stream = 6;
    if (change == 2) entries[1].size = 5;
    if (change == 3) entries[1].weights = NULL;
    if (change == 4) entries[1].fraction = NULL;
    if (change == 5) directory.count = 1;
    if (change == 6) directory.count = 99; /* that many tensors, of which two have had room */
    char address[40];
    (void)snprintf(address, sizeof address, "%" PRIuPTR, (uintptr_t)&directory);
    TfLiteDelegate* delegate = create("weights", address);
    fake_runtime r;
    fake_begin(&r);
    const int node = fake_add(&r, "TFLM_ZO_UPDATE", options, sizeof options);
    fake_input(&r, node, fake_tensor(&r, kTfLiteInt32, words, sizeof words));
    fake_input(&r, node, fake_tensor(&r, kTfLiteInt32, state, sizeof state));
    fake_input(&r, node, fake_tensor(&r, kTfLiteInt8, initial, sizeof initial));
    fake_input(&r, node, fake_tensor(&r, kTfLiteInt8, own_fraction, sizeof own_fraction));
    fake_input(&r, node, fake_tensor(&r, kTfLiteInt32, own_biases, sizeof own_biases));
    fake_input(&r, node, fake_tensor(&r, kTfLiteInt8, own, sizeof own));
    fake_output(&r, node, fake_tensor(&r, kTfLiteInt32, status, sizeof status));
    if (change == 7) r.outputs[0].size = 0;
    CHECK(fake_apply(&r, delegate) == kTfLiteOk);
    const int takes = change == 0 || change >= 6;
    for (int invoke = 0; invoke < 2; ++invoke) {
      CHECK((fake_invoke(&r) == kTfLiteOk) == takes);
    }
    CHECK((r.tensors[5].data == weights) == takes);
    CHECK((r.tensors[3].data == fraction) == takes);
    CHECK((r.tensors[1].data == owners) == takes);
    CHECK(status[0] == (takes && change != 7 ? words[0] : 9));
    if (takes && change < 7) CHECK(status[1] == 5);
    /* Its own are left alone, and the owner's have moved only if they were not initialized. */
    const int initial_now = change == 8;
    CHECK(state[0] == 0 && own[0] == 1 && own_fraction[0] == 0 && own_biases[0] == 1);
    CHECK(weights[0] == (initial_now ? 0 : 2) && fraction[0] == (initial_now ? 0 : 3));
    CHECK(biases[0] == (initial_now ? 0 : 3) && owners[0] == ZO_STATE_MAGIC);
    fake_end(&r);
    tflite_plugin_destroy_delegate(delegate);
  }
}

int main(void) {
  test_options();
  test_borrowed_weights();
  for (int threads = -1; threads < 5; ++threads) test_threads(threads);
  test_threads(1 << 20); /* more than there are: one */
  test_fully_connected();
  test_dense16();
  test_svdf();
  test_lstm();
  test_custom_ops();
  test_loss();
  printf("%lu checks\n", checks);
  return 0;
}
