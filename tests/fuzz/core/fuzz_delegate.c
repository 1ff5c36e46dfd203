/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The external delegate over a runtime of the test's own: graphs of our ops and of the builtin
 * operators that it computes, with tensors, options, scales and commands changed at will. Tensors
 * have exactly the memory of their sizes, as in a runtime; a prepared graph is invoked, and invoked
 * again after another command, a reset of the variables and other sizes.
 */
#include "fake_runtime.h"
#include "fuzz_input.h"
#include "ops/core/graph/zo_command.h"
#include "ops/core/graph/zo_op.h"
#include "ops/core/zo_little_endian.h"
#include "ops/kernels/zo_kernel_set.h"

enum { kWords = 40, kOptions = 120, kMostMemory = 400 };

typedef struct world {
  fake_runtime runtime;
  uint8_t* options[kFakeNodes];
  void* memory[kFakeTensors];
  int command, state;
} world;

static int add_tensor(fuzz_input* in, world* w, int type, uint32_t bytes) {
  const int number = fake_tensor(&w->runtime, type, NULL, bytes);
  w->memory[number] = fuzz_allocate(bytes);
  fill_bytes(in, w->memory[number], bytes);
  w->runtime.tensors[number].data = w->memory[number];
  return number;
}

/* Options end where their memory ends. */
static int add_node(world* w, const char* name, const uint8_t* options, uint32_t length) {
  uint8_t* own = (uint8_t*)fuzz_allocate(length > 0u ? length : 1u);
  if (length > 0u) memcpy(own, options, length);
  const int node = fake_add(&w->runtime, name, own, (int)length);
  w->options[node] = own;
  return node;
}

static void write_command(fuzz_input* in, world* w) {
  int32_t* words = (int32_t*)w->memory[w->command];
  const uint32_t capacity = (uint32_t)w->runtime.tensors[w->command].bytes / 4u;
  zo_command_writer writer;
  memset(words, 0, w->runtime.tensors[w->command].bytes);
  if (zo_command_begin(&writer, words, capacity, take_u8(in) & 3u) != ZO_OK) return;
  const zo_distribution d = {(uint8_t)take_between(in, 0, 3), 0, (uint16_t)take_between(in, 1, 9)};
  const zo_query queries[2] = {{take_u8(in), (int32_t)take_u16(in)}, {2, -300}};
  const zo_perturb_term term = {take_u8(in), 1};
  const zo_perturb_terms terms = {&term, 1};
  const uint32_t chosen = take_u8(in);
  if (chosen & 1u) (void)zo_command_restore(&writer, ZO_ALL_BLOCKS);
  if (chosen & 2u) (void)zo_command_replay(&writer, ZO_ALL_BLOCKS, d, queries, 1, 2);
  if (chosen & 4u) (void)zo_command_update(&writer, 0, d, &terms, queries, 2);
  if (chosen & 8u) (void)zo_command_perturb(&writer, ZO_ALL_BLOCKS, d, &terms);
  if (chosen & 128u) words[take_between(in, 0, capacity - 1u)] = (int32_t)take_any(in);
}

/* Three ops over one or two tensors. */
static void add_weight_ops(fuzz_input* in, world* w) {
  static const char* const names[3] = {"TFLM_ZO_SEED_REPLAY", "TFLM_ZO_UPDATE", "TFLM_ZO_PERTURB"};
  const uint32_t tensors = take_between(in, 1, 2), size = take_between(in, 1, 60);
  const int has_fraction = take_flag(in);
  const int initial = add_tensor(in, w, kTfLiteInt8, tensors * size);
  int8_t* values = (int8_t*)w->memory[initial];
  for (uint32_t i = 0; i < tensors * size; ++i) values[i] = (int8_t)(values[i] % 119);
  const int fraction = has_fraction ? add_tensor(in, w, kTfLiteInt8, tensors * size) : -1;
  if (has_fraction) memset(w->memory[fraction], 0, tensors * size);
  int weights[2];
  for (uint32_t t = 0; t < tensors; ++t) weights[t] = add_tensor(in, w, kTfLiteInt8, size);
  const int status = add_tensor(in, w, kTfLiteInt32, 16);
  for (uint32_t op = 0; op < 3u; ++op) {
    uint8_t options[kOptions] = {ZO_OPTIONS_VERSION};
    options[1] = (uint8_t)((op == 0u ? ZO_OPTION_FIRST : 0u) | (op == 2u ? ZO_OPTION_LAST : 0u) |
                           (has_fraction ? ZO_OPTION_FRACTION : 0u));
    options[2] = 8;
    options[3] = 4;
    zo_write_u16(options + 4, tensors);
    zo_write_u16(options + 6, 1);
    for (uint32_t t = 0; t < tensors; ++t) {
      zo_write_u16(options + 8 + 12 * t, t);
      zo_write_u32(options + 12 + 12 * t, 1);
      zo_write_u32(options + 16 + 12 * t, 1);
    }
    const int node = add_node(w, names[op], options, 8u + 12u * tensors);
    fake_input(&w->runtime, node, w->command);
    fake_input(&w->runtime, node, w->state);
    fake_input(&w->runtime, node, initial);
    if (has_fraction) fake_input(&w->runtime, node, fraction);
    for (uint32_t t = 0; t < tensors; ++t) fake_input(&w->runtime, node, weights[t]);
    if (op == 2u) fake_output(&w->runtime, node, status);
  }
}

/* A dense layer; its output follows in the runtime's order. */
static int add_dense(fuzz_input* in, world* w, int x, uint32_t samples, uint32_t depth, uint32_t units) {
  fake_runtime* r = &w->runtime;
  const int weights = add_tensor(in, w, kTfLiteInt8, depth * units);
  const int bias = take_flag(in) ? add_tensor(in, w, kTfLiteInt32, 4u * units) : -1;
  const int y = add_tensor(in, w, kTfLiteInt8, samples * units);
  r->dims[weights].size = 2;
  r->dims[weights].data[0] = (int)units;
  r->dims[weights].data[1] = (int)depth;
  const int node = add_node(w, NULL, NULL, 0);
  if (take_flag(in)) {
    r->scales[weights].size = (int)units;
    for (uint32_t i = 0; i < units; ++i) {
      r->scales[weights].data[i] = (float)(1 + take_u8(in)) / 128.0f;
    }
  }
  r->fully_connected[node].activation = (TfLiteFusedActivation)take_between(in, 0, 4);
  fake_input(r, node, x);
  fake_input(r, node, weights);
  fake_input(r, node, bias);
  fake_output(r, node, y);
  if (take_flag(in)) r->tensors[y].data = NULL; /* between nodes of one kernel */
  return y;
}

static void set_image(world* w, int tensor, uint32_t samples, uint32_t height, uint32_t width, uint32_t channels) {
  fake_ints* dims = &w->runtime.dims[tensor];
  dims->size = 4;
  dims->data[0] = (int)samples;
  dims->data[1] = (int)height;
  dims->data[2] = (int)width;
  dims->data[3] = (int)channels;
}

static uint32_t outputs_of(uint32_t inputs, uint32_t taps, uint32_t stride, uint32_t dilation, int padding) {
  const uint32_t reach = (taps - 1u) * dilation + 1u;
  if (padding == kTfLitePaddingSame) return (inputs + stride - 1u) / stride;
  return reach > inputs ? 0u : (inputs - reach + stride) / stride;
}

/* A convolution, a depthwise one, a pooling or a sum of images; nothing if the window is too
 * large. */
static void add_image_layer(fuzz_input* in, world* w) {
  static const int codes[] = {kTfLiteBuiltinConv2d, kTfLiteBuiltinDepthwiseConv2d, kTfLiteBuiltinAveragePool2d,
                              kTfLiteBuiltinMaxPool2d, kTfLiteBuiltinAdd};
  fake_runtime* r = &w->runtime;
  const int code = codes[take_between(in, 0, 4)];
  const int padding = (int)take_between(in, kTfLitePaddingSame, kTfLitePaddingValid);
  const uint32_t samples = take_between(in, 1, 3), size = take_between(in, 1, 6);
  const uint32_t channels = take_between(in, 1, 20), taps = take_between(in, 1, 3);
  const uint32_t stride = take_between(in, 1, 3), dilation = take_between(in, 1, 2);
  const int is_conv = code == kTfLiteBuiltinConv2d, is_depthwise = codes[1] == code;
  const uint32_t own = is_conv || is_depthwise ? dilation : 1u;
  const uint32_t outputs = code == kTfLiteBuiltinAdd ? size : outputs_of(size, taps, stride, own, padding);
  const uint32_t out_channels = is_conv        ? take_between(in, 1, 20)
                                : is_depthwise ? channels * take_between(in, 1, 2)
                                               : channels;
  const TfLiteFusedActivation activation = (TfLiteFusedActivation)take_between(in, 0, 4);
  if (outputs == 0u) return;
  const int node = add_node(w, NULL, NULL, 0);
  fake_builtin(r, node, code);
  const int x = add_tensor(in, w, kTfLiteInt8, samples * size * size * channels);
  set_image(w, x, samples, size, size, channels);
  fake_input(r, node, x);
  const int step = (int)stride, filter = (int)taps, spread = (int)dilation;
  const TfLiteConvParams conv = {padding, step, step, activation, spread, spread};
  const TfLiteDepthwiseConvParams depthwise = {padding, step, step, 1, activation, spread, spread};
  const TfLitePoolParams pool = {padding, step, step, filter, filter, activation};
  if (code == kTfLiteBuiltinAdd) {
    r->params[node].add.activation = activation;
    const int other = add_tensor(in, w, kTfLiteInt8, samples * size * size * channels);
    set_image(w, other, samples, size, size, channels);
    fake_input(r, node, other);
  } else if (is_conv || is_depthwise) {
    const uint32_t inner = is_conv ? channels : 1u;
    const int filters = add_tensor(in, w, kTfLiteInt8, taps * taps * inner * out_channels);
    set_image(w, filters, is_conv ? out_channels : 1u, taps, taps, is_conv ? channels : out_channels);
    fake_input(r, node, filters);
    if (take_flag(in)) fake_input(r, node, add_tensor(in, w, kTfLiteInt32, 4u * out_channels));
    if (is_conv) {
      r->params[node].conv = conv;
    } else {
      r->params[node].depthwise = depthwise;
    }
    if (take_flag(in)) r->tensors[filters].allocation_type = kTfLiteMmapRo;
  } else {
    r->params[node].pool = pool;
  }
  const int y = add_tensor(in, w, kTfLiteInt8, samples * outputs * outputs * out_channels);
  set_image(w, y, samples, outputs, outputs, out_channels);
  fake_output(r, node, y);
  if (take_flag(in)) r->tensors[y].data = NULL;
}

static void add_loss(fuzz_input* in, world* w, int logits, uint32_t samples, uint32_t elements) {
  uint8_t options[20] = {ZO_OPTIONS_VERSION};
  options[1] = (uint8_t)take_between(in, 0, 3);
  zo_write_u32(options + 4, elements);
  zo_write_u32(options + 12, options[1] == 2u ? UINT32_C(1) << 30 : 2420441u);
  zo_write_u32(options + 16, options[1] == 2u ? 31u : 1677722u);
  uint32_t label_bytes = 4u * samples;
  if (options[1] == 1u) label_bytes *= elements;
  if (options[1] == 2u) label_bytes = samples * elements;
  const int node = add_node(w, "TFLM_ZO_LOSS", options, 20);
  const int labels = add_tensor(in, w, options[1] == 2u ? kTfLiteInt8 : kTfLiteInt32, label_bytes);
  if (options[1] != 2u) {
    for (uint32_t i = 0; i < label_bytes / 4u; ++i) {
      ((int32_t*)w->memory[labels])[i] = (int32_t)take_between(in, 0, 2) - 1;
    }
  }
  fake_input(&w->runtime, node, logits);
  fake_input(&w->runtime, node, labels);
  fake_input(&w->runtime, node, w->command);
  fake_output(&w->runtime, node, add_tensor(in, w, kTfLiteInt32, 4u * samples));
}

/* A tensor that has another size, and memory for it. */
static void resize(world* w, int number, uint32_t bytes) {
  void* memory = fuzz_allocate(bytes);
  memset(memory, 0, bytes);
  if (w->runtime.tensors[number].data == w->memory[number]) w->runtime.tensors[number].data = memory;
  free(w->memory[number]);
  w->memory[number] = memory;
  w->runtime.tensors[number].bytes = bytes;
}

/* `kind` 0..8: tensors, and the tensors of a node; 9..12: data read when the graph is made. */
static void damage(fuzz_input* in, world* w, uint32_t kind) {
  fake_runtime* r = &w->runtime;
  const int tensor = (int)take_between(in, 0, (uint32_t)r->context.tensors_size - 1u);
  const int node = (int)take_between(in, 0, (uint32_t)r->plan.size - 1u);
  TfLiteTensor* t = &r->tensors[tensor];
  fake_ints* list = take_flag(in) ? &r->inputs[node] : &r->outputs[node];
  switch (kind) {
    case 0:
      t->type = (int)take_between(in, 0, 12);
      break;
    case 1:
      if (tensor != w->command) resize(w, tensor, take_between(in, 0, kMostMemory));
      break;
    case 2:
      t->data = NULL;
      break;
    case 3:
      r->dims[tensor].size = (int)take_between(in, 0, kFakeRank);
      break;
    case 4:
      r->dims[tensor].data[take_between(in, 0, kFakeRank - 1)] = (int)take_any(in);
      break;
    case 5: {
      const uint32_t bits = take_u32(in);
      memcpy(&t->params.scale, &bits, sizeof bits);
      break;
    }
    case 6:
      t->params.zero_point = (int32_t)take_any(in);
      break;
    case 7:
      if (list->size > 0) {
        list->data[take_between(in, 0, (uint32_t)list->size - 1u)] = (int)take_between(in, 0, 30) - 2;
      }
      break;
    case 8:
      list->size = (int)take_between(in, 0, (uint32_t)list->size);
      break;
    case 9: /* options changed, */
    case 10:
      if (r->registrations[node].custom_name != NULL && r->nodes[node].custom_initial_data_size > 0) {
        const uint32_t length = (uint32_t)r->nodes[node].custom_initial_data_size;
        w->options[node][take_between(in, 0, length - 1u)] = (uint8_t)take_u8(in);
      }
      break;
    case 11: /* or cut short */
      if (r->nodes[node].custom_initial_data_size > 0) {
        const uint32_t length = take_between(in, 0, (uint32_t)r->nodes[node].custom_initial_data_size);
        uint8_t* shorter = (uint8_t*)copy_of(w->options[node], length > 0u ? length : 1u);
        free(w->options[node]);
        w->options[node] = shorter;
        r->nodes[node].custom_initial_data = take_u8(in) > 200u ? NULL : shorter;
        r->nodes[node].custom_initial_data_size = (int)length;
      }
      break;
    default: {
      const uint32_t bits = take_u32(in);
      memcpy(&r->scales[tensor].data[take_between(in, 0, kFakeScales - 1u)], &bits, sizeof bits);
      if (take_flag(in)) r->scales[tensor].size = (int)take_between(in, 0, kFakeScales);
      if (take_u8(in) > 200u) t->quantization.params = NULL;
      if (take_u8(in) > 200u) r->affine[tensor].scale = NULL;
    }
  }
}

/* For every graph, only documented options are accepted. */
static void create_with_any_options(fuzz_input* in) {
  char key[12], value[24];
  for (uint32_t i = 0; i < sizeof key - 1u; ++i) key[i] = (char)take_u8(in);
  for (uint32_t i = 0; i < sizeof value - 1u; ++i) value[i] = (char)take_u8(in);
  key[sizeof key - 1u] = value[sizeof value - 1u] = '\0';
  const char *keys[1] = {take_flag(in) ? key : "exact"}, *values[1] = {value};
  if (strcmp(keys[0], "directory") == 0) return; /* an address of any memory is not to be read */
  TfLiteDelegate* delegate = tflite_plugin_create_delegate(keys, values, 1, NULL);
  HOLDS((delegate != NULL) == (strcmp(keys[0], "exact") == 0 && (strcmp(value, "0") == 0 || strcmp(value, "1") == 0)));
  tflite_plugin_destroy_delegate(delegate);
}

/* The name of a kernel set that this machine can run. */
static const char* any_kernels(fuzz_input* in) {
  uint32_t count = 0;
  while (zo_kernel_set_names[count] != NULL) ++count;
  const char* name = zo_kernel_set_names[take_between(in, 0, count - 1u)];
  return zo_kernel_set_of(name) != NULL ? name : "portable";
}

static void make_graph(fuzz_input* in, world* w) {
  memset(w, 0, sizeof *w);
  fake_begin(&w->runtime);
  w->command = add_tensor(in, w, kTfLiteInt32, 4u * kWords);
  w->state = add_tensor(in, w, kTfLiteInt32, 4u * ZO_STATE_WORDS);
  memset(w->memory[w->command], 0, 4u * kWords);
  memset(w->memory[w->state], 0, 4u * ZO_STATE_WORDS);
  const uint32_t samples = take_between(in, 1, 3), depth = take_between(in, 1, 9);
  const uint32_t units = take_between(in, 2, 6), ops = take_u8(in);
  if (ops & 1u) add_weight_ops(in, w);
  int last = add_tensor(in, w, kTfLiteInt8, samples * depth);
  uint32_t width = depth;
  if (ops & 2u) {
    last = add_dense(in, w, last, samples, width, units);
    width = units;
  }
  if (ops & 4u) {
    last = add_dense(in, w, last, samples, width, 3);
    width = 3;
  }
  if (ops & 16u) add_image_layer(in, w);
  if ((ops & 8u) != 0u && width >= 2u) add_loss(in, w, last, samples, width);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_input in = {data, size};
  world w;
  make_graph(&in, &w);
  fake_runtime* r = &w.runtime;
  zo_directory_entry entries[2];
  zo_directory directory = {ZO_DIRECTORY_MAGIC, take_between(&in, 0, 2), 0, entries, NULL};
  char address[32];
  (void)snprintf(address, sizeof address, "%llu", (unsigned long long)(uintptr_t)&directory);
  const char* keys[3] = {"directory", "exact", "kernels"};
  const char* values[3] = {address, take_flag(&in) ? "1" : "0", any_kernels(&in)};
  TfLiteDelegate* delegate = tflite_plugin_create_delegate(keys, values, 3, NULL);
  HOLDS(delegate != NULL);
  const uint32_t damages = take_u8(&in);
  for (uint32_t i = damages > 100u ? damages % 4u : 0u; i > 0u && r->plan.size > 0; --i) {
    damage(&in, &w, take_between(&in, 0, 12));
  }
  TfLiteStatus status = fake_apply(r, delegate);
  for (uint32_t rounds = take_between(&in, 0, 3); rounds > 0u && status == kTfLiteOk; --rounds) {
    write_command(&in, &w);
    const int8_t* first = directory.count > 0u && directory.capacity > 0u ? entries[0].weights : NULL;
    (void)fake_invoke(r);
    if (first != NULL) HOLDS(entries[0].weights != NULL && entries[0].size > 0u);
    const uint32_t between = take_u8(&in);
    if (between < 32u) memset(w.memory[w.state], 0, 16u < r->tensors[w.state].bytes ? 16u : r->tensors[w.state].bytes);
    if (between > 220u && r->claims > 0u) { /* another size: prepared again, as runtimes do */
      damage(&in, &w, take_between(&in, 0, 8));
      status = r->kernel.prepare(&r->context, &r->kernel_node);
    }
  }
  if (take_u8(&in) > 240u) create_with_any_options(&in);
  fake_end(r);
  tflite_plugin_destroy_delegate(delegate);
  for (int i = 0; i < kFakeNodes; ++i) free(w.options[i]);
  for (int i = 0; i < kFakeTensors; ++i) free(w.memory[i]);
  return 0;
}
