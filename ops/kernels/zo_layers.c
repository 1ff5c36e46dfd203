/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernels/zo_layers.h"

#include <stdlib.h>
#include <string.h>

#include "ops/kernels/zo_kernel_set.h"

/* Bytes of copies, at most: of larger layers the portable form is used. */
#define BYTES_MAX (UINT64_C(1) << 26)

/* Values of planes that stay in a cache. */
#define PLANES_TOGETHER ((size_t)1 << 16)

/* Fewer products of a weight are not worth the copies. */
#define PRODUCTS_MIN 16u

void* zo_loops_allocate(size_t bytes) { return malloc(bytes); }

void zo_loops_free(void* memory) { free(memory); }

void zo_sides_of(const zo_node_layer* l, zo_side* rows, zo_side* columns) {
  const zo_side h = {l->stride_h, l->pad_top, (l->k_h - 1u) * l->dilation_h / l->stride_h, 0};
  const zo_side w = {l->stride_w, l->pad_left, (l->k_w - 1u) * l->dilation_w / l->stride_w, 0};
  *rows = h;
  *columns = w;
  /* Up to the last input's, and all outputs: some may read none. */
  const uint32_t last_h = (l->in_h - 1u + l->pad_top) / l->stride_h,
                 last_w = (l->in_w - 1u + l->pad_left) / l->stride_w;
  rows->count = h.reach + (last_h + 1u > l->out_h ? last_h + 1u : l->out_h);
  columns->count = w.reach + (last_w + 1u > l->out_w ? last_w + 1u : l->out_w);
}

/* --- Errors of inputs ---------------------------------------------------------------------------- */

size_t zo_taps_of(const zo_node_layer* l, uint32_t of_row, uint32_t of_column, zo_tap* taps, size_t* values) {
  zo_side rows, columns;
  zo_sides_of(l, &rows, &columns);
  size_t count = 0, at = 0;
  for (uint32_t i = l->k_h; i-- > 0u;) {
    if (i * l->dilation_h % l->stride_h != of_row) continue;
    for (uint32_t j = l->k_w; j-- > 0u;) {
      if (j * l->dilation_w % l->stride_w != of_column) continue;
      const size_t h = rows.reach - i * l->dilation_h / l->stride_h;
      const size_t w = columns.reach - j * l->dilation_w / l->stride_w;
      const zo_tap tap = {(h * columns.count + w) * l->out_c, at, i * l->k_w + j};
      taps[count] = tap;
      /* The weights of a run end with zeros. */
      if (l->depthwise == 0u && count > 0u && tap.x != taps[count - 1u].x + l->out_c) {
        taps[count].y = zo_whole_runs(at);
      }
      at = taps[count++].y + l->out_c;
    }
  }
  *values = l->depthwise != 0u ? at : zo_whole_runs(at);
  return count;
}

static size_t factor_values(const zo_node_layer* l) {
  zo_side rows, columns;
  zo_sides_of(l, &rows, &columns);
  return (size_t)rows.count * columns.count * l->out_c + kZoRun;
}

size_t zo_loops_turned_values(const zo_node_layer* l) {
  const size_t elements = (size_t)l->k_h * l->k_w;
  return l->depthwise != 0u ? elements * l->out_c : elements * l->in_c * zo_whole_runs(l->out_c);
}

size_t zo_loops_backprop_bytes(const zo_node_layer* l) {
  return (size_t)l->k_h * l->k_w * (sizeof(zo_tap) + sizeof(zo_run)) +
         (2u * (size_t)l->in_h * l->in_w + l->out_c + l->in_c) * sizeof(int32_t) + factor_values(l) * sizeof(int16_t);
}

void zo_loops_turn(const zo_node_layer* l, const int8_t* weights, int16_t* turned, void* memory) {
  const size_t row = zo_node_row(l);
  zo_tap* taps = (zo_tap*)memory;
  memset(turned, 0, zo_loops_turned_values(l) * sizeof turned[0]);
  for (uint32_t remainder = 0; remainder < l->stride_h * l->stride_w; ++remainder) {
    size_t apart;
    const size_t count = zo_taps_of(l, remainder / l->stride_w, remainder % l->stride_w, taps, &apart);
    for (size_t t = 0; t < count && l->depthwise != 0u; ++t) {
      for (uint32_t c = 0; c < l->out_c; ++c) turned[taps[t].y + c] = weights[taps[t].element * l->out_c + c];
    }
    for (size_t t = 0; t < count && l->depthwise == 0u; ++t) {
      const int8_t* own = weights + (size_t)taps[t].element * l->in_c;
      for (uint32_t c = 0; c < l->in_c; ++c) {
        for (uint32_t o = 0; o < l->out_c; ++o) turned[c * apart + taps[t].y + o] = own[o * row + c];
      }
    }
    turned += l->depthwise != 0u ? apart : l->in_c * apart;
  }
}

void zo_loops_backprop(const zo_node_layer* layer, const int16_t* turned, uint32_t norm, const int16_t* scales,
                       const int16_t* output_errors, int8_t exponent, int16_t* input_errors, int8_t* input_exponent,
                       void* memory) {
  zo_kernel_set_of(NULL)->layers->backprop(layer, turned, norm, scales, output_errors, exponent, input_errors,
                                           input_exponent, memory);
}

/* --- Gradients ----------------------------------------------------------------------------------- */

struct zo_gradients {
  uint32_t parts, channels, row;
  int32_t values[]; /* of each part: G [channels, row], sums and magnitudes [channels] */
};

void zo_begins_of(const zo_node_layer* l, const zo_planes* p, size_t* begins) {
  const uint32_t depth = zo_node_depth(l);
  for (uint32_t i = 0; i < l->k_h; ++i) {
    for (uint32_t j = 0; j < l->k_w; ++j) {
      const uint32_t h = i * l->dilation_h, w = j * l->dilation_w;
      const size_t plane = (size_t)(h % l->stride_h * l->stride_w + w % l->stride_w) * l->in_c;
      for (uint32_t c = 0; c < depth; ++c) {
        *begins++ = (plane + c) * p->apart + (size_t)(h / l->stride_h) * p->pitch + w / l->stride_w;
      }
    }
  }
}

static size_t planes_of(const zo_node_layer* l) { return (size_t)l->stride_h * l->stride_w * l->in_c + l->out_c; }

static zo_planes make_planes(const zo_node_layer* l, uint32_t samples) {
  zo_planes p;
  zo_sides_of(l, &p.rows, &p.columns);
  p.pitch = l->out_w + p.columns.reach;
  p.sample = (size_t)(l->out_h + p.rows.reach) * p.pitch;
  /* Apart, the rows below a sample's last errors are left out. */
  p.joined = p.sample <= zo_whole_runs((size_t)(l->out_h - 1u) * p.pitch + l->out_w);
  const size_t room = PLANES_TOGETHER / (planes_of(l) * p.sample);
  p.samples = room < 1u ? 1u : (room < ZO_PLANES_MOST ? (uint32_t)room : ZO_PLANES_MOST);
  if (p.samples > samples) p.samples = samples;
  p.apart = zo_whole_runs(p.samples * p.sample) + kZoRun;
  return p;
}

/* Samples of the minibatch, among threads. */
typedef struct forming {
  const zo_layers* layers;
  const zo_node_layer* layer;
  const zo_node_evidence* evidence;
  zo_planes planes;
  int32_t shift;
  uint32_t parts;
  size_t values, bytes; /* of a part */
  int32_t* results;
  uint8_t* memory;
} forming;

static void form_part(void* context, uint32_t part) {
  const forming* f = (const forming*)context;
  f->layers->add_gradients(f->layer, &f->planes, f->evidence, f->shift,
                           zo_part_begin(f->evidence->samples, part, f->parts),
                           zo_part_begin(f->evidence->samples, part + 1u, f->parts), f->results + part * f->values,
                           f->memory + part * f->bytes);
}

zo_gradients* zo_gradients_form(const zo_node_layer* layer, const zo_node_evidence* evidence, int32_t shift,
                                const zo_workers* workers) {
  return zo_gradients_by(zo_kernel_set_of(NULL)->layers, layer, evidence, shift, workers);
}

zo_gradients* zo_gradients_by(const zo_layers* layers, const zo_node_layer* layer, const zo_node_evidence* evidence,
                              int32_t shift, const zo_workers* workers) {
  const uint64_t products = (uint64_t)evidence->samples * layer->out_h * layer->out_w;
  if (evidence->errors == NULL || evidence->inputs == NULL || layer->form != ZO_NODES_PLAIN ||
      products < PRODUCTS_MIN || zo_loops_backprop_bytes(layer) > BYTES_MAX) {
    return NULL;
  }
  forming f = {
      layers, layer, evidence, make_planes(layer, evidence->samples), shift, zo_parts_of(workers, evidence->samples), 0,
      0,      NULL,  NULL};
  const size_t row = zo_node_row(layer);
  f.values = (row + 2u) * layer->out_c;
  const size_t channels = layer->in_c > layer->out_c ? layer->in_c : layer->out_c;
  f.bytes = row * sizeof(size_t) + (planes_of(layer) * f.planes.apart + 2u * ZO_ZIPPED * channels) * sizeof(int16_t);
  f.bytes = (f.bytes + 63u) / 64u * 64u;
  if (f.bytes > BYTES_MAX) return NULL;
  zo_gradients* g = calloc(1, sizeof *g + f.parts * f.values * sizeof g->values[0]);
  f.memory = calloc(f.parts, f.bytes);
  if (g != NULL && f.memory != NULL) {
    g->parts = f.parts;
    g->channels = layer->out_c;
    g->row = (uint32_t)row;
    f.results = g->values;
    zo_divide_work(workers, f.parts, form_part, &f);
  } else {
    free(g);
    g = NULL;
  }
  free(f.memory);
  return g;
}

void zo_gradients_free(zo_gradients* gradients) { free(gradients); }

int32_t zo_gradients_row(const zo_gradients* g, uint32_t channel, int32_t* row, int32_t* sum) {
  const size_t all = (size_t)g->channels * g->row;
  int32_t magnitudes = 0;
  *sum = 0;
  for (uint32_t part = 0; part < g->parts; ++part) {
    const int32_t* own = g->values + part * (all + 2u * (size_t)g->channels);
    *sum += own[all + channel];
    magnitudes += own[all + g->channels + channel];
    const int32_t* from = own + (size_t)channel * g->row;
    for (uint32_t i = 0; row != NULL && i < g->row; ++i) row[i] = part == 0u ? from[i] : row[i] + from[i];
  }
  return magnitudes;
}
