/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The loops over whole layers that zo_layer_loops.h is made of.
 *
 * All sums are products of rows of int16. Those of an input's errors run over the outputs that read it, over the
 * channels of neighbouring ones, in a copy of the errors with a border of zeros. Those of a weight's gradient run over
 * positions, in copies of errors and inputs with a plane for each channel: a weight's input is at the same distance
 * from its error everywhere. With strides there is a plane for each remainder.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_LAYERS_H_
#define TFLM_ZO_OPS_KERNELS_ZO_LAYERS_H_

#include "ops/core/nodes/zo_layer_loops.h"

enum { kZoRun = 16, kZoDotRows = 3, kZoDotColumns = 4 };

/* A part of rows and columns that is multiplied. */
typedef struct zo_run {
  size_t x, y;   /* where it begins */
  size_t length; /* a multiple of kZoRun */
} zo_run;

static inline size_t zo_whole_runs(size_t length) { return (length + kZoRun - 1u) / kZoRun * kZoRun; }

/* Samples in planes at a time, at most. */
#define ZO_PLANES_MOST 64u

/* Positions whose channels are turned into planes together. */
#define ZO_ZIPPED 8u

/* One side of a layer. */
typedef struct zo_side {
  uint32_t stride, pad;
  uint32_t reach; /* from a window's first element to its last, in strides */
  uint32_t count; /* of errors with their border */
} zo_side;

/* Errors and inputs in planes. */
typedef struct zo_planes {
  zo_side rows, columns;
  uint32_t pitch, samples; /* values of a row; samples at a time */
  size_t sample, apart;    /* values from a sample to the next one, and from a plane to the next one */
  int joined;              /* samples are one run */
} zo_planes;

typedef struct zo_layers {
  void (*backprop)(const zo_node_layer* layer, const int16_t* turned, uint32_t norm, const int16_t* scales,
                   const int16_t* output_errors, int8_t exponent, int16_t* input_errors, int8_t* input_exponent,
                   void* memory);
  /* Adds those of samples [begin, end) to int32 G [out_c, row], sums of errors and of magnitudes [out_c]. The memory
   * has size_t [row], and planes of zeros: of errors [out_c], of inputs [stride_h, stride_w, in_c]; then
   * int16 [2, ZO_ZIPPED, channels], of outputs or inputs. */
  void (*add_gradients)(const zo_node_layer* layer, const zo_planes* planes, const zo_node_evidence* evidence,
                        int32_t shift, uint32_t begin, uint32_t end, int32_t* part, void* memory);
} zo_layers;

/* zo_gradients_form by some layers. */
zo_gradients* zo_gradients_by(const zo_layers* layers, const zo_node_layer* layer, const zo_node_evidence* evidence,
                              int32_t shift, const zo_workers* workers);

extern const zo_layers zo_portable_layers, zo_avx2_layers, zo_avx512_layers;

void zo_sides_of(const zo_node_layer* layer, zo_side* rows, zo_side* columns);

/* An element of a window: where its outputs lie from an input's place on, and where its turned weights do. */
typedef struct zo_tap {
  size_t x, y;
  uint32_t element;
} zo_tap;

/* Elements that read the inputs whose place has these remainders, by x; returns their number. `values` is that of an
 * input channel's turned weights (depthwise: of all). */
size_t zo_taps_of(const zo_node_layer* layer, uint32_t of_row, uint32_t of_column, zo_tap* taps, size_t* values);

/* Places, from the first input plane on, of the inputs of a channel's weights. */
void zo_begins_of(const zo_node_layer* layer, const zo_planes* planes, size_t* begins);

#endif /* TFLM_ZO_OPS_KERNELS_ZO_LAYERS_H_ */
