/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of a zo_layers, for files that compile them for their instructions.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_LAYERS_LOOPS_H_
#define TFLM_ZO_OPS_KERNELS_ZO_LAYERS_LOOPS_H_

#include <string.h>

#include "ops/core/backward/zo_error_range.h"
#include "ops/core/backward/zo_windows.h"
#include "ops/kernels/zo_layers.h"

/* --- Products: any part of their sums fits int32 -------------------------------------------------- */

/* sums[r][c] = x[r] times y[c] over all runs. */
#ifdef ZO_VECTOR
/* Compilers add up the parts of each vector after each run, which are short. A file with vectors of ZO_VECTOR values
 * has these before it includes this one: zo_vector; load, of a vector or of the 16 values that a run has left;
 * add_pairs of products to sums; totals of four sums. */
static void zo_dots16(const int16_t* const* x, const int16_t* const* y, const zo_run* runs, size_t count,
                      int32_t sums[kZoDotRows][kZoDotColumns]) {
  zo_vector s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11;
  memset(&s0, 0, sizeof s0);
  s1 = s2 = s3 = s4 = s5 = s6 = s7 = s8 = s9 = s10 = s11 = s0;
  for (const zo_run* run = runs; run < runs + count; ++run) {
    const int16_t *p = y[0] + run->y, *q = y[1] + run->y, *v = y[2] + run->y, *w = y[3] + run->y;
    for (size_t i = 0; i < run->length; i += ZO_VECTOR) {
      const size_t left = run->length - i;
      const zo_vector a = load(x[0] + run->x + i, left), b = load(x[1] + run->x + i, left),
                      c = load(x[2] + run->x + i, left);
      const zo_vector e = load(p + i, left), f = load(q + i, left), g = load(v + i, left), h = load(w + i, left);
      add_pairs(&s0, a, e), add_pairs(&s4, b, e), add_pairs(&s8, c, e);
      add_pairs(&s1, a, f), add_pairs(&s5, b, f), add_pairs(&s9, c, f);
      add_pairs(&s2, a, g), add_pairs(&s6, b, g), add_pairs(&s10, c, g);
      add_pairs(&s3, a, h), add_pairs(&s7, b, h), add_pairs(&s11, c, h);
    }
  }
  totals(s0, s1, s2, s3, sums[0]);
  totals(s4, s5, s6, s7, sums[1]);
  totals(s8, s9, s10, s11, sums[2]);
}
#else
static __attribute__((noinline)) void zo_dots16(const int16_t* const* x, const int16_t* const* y, const zo_run* runs,
                                                size_t count, int32_t sums[kZoDotRows][kZoDotColumns]) {
  int32_t s[12] = {0};
  for (const zo_run* run = runs; run < runs + count; ++run) {
    const int16_t *a = x[0] + run->x, *b = x[1] + run->x, *c = x[2] + run->x;
    const int16_t *p = y[0] + run->y, *q = y[1] + run->y, *v = y[2] + run->y, *w = y[3] + run->y;
    const size_t length = run->length / kZoRun * kZoRun; /* compilers see the multiple, and make pairs */
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0, s8 = 0, s9 = 0, s10 = 0, s11 = 0;
    for (size_t i = 0; i < length; ++i) {
      s0 += a[i] * p[i], s1 += a[i] * q[i], s2 += a[i] * v[i], s3 += a[i] * w[i];
      s4 += b[i] * p[i], s5 += b[i] * q[i], s6 += b[i] * v[i], s7 += b[i] * w[i];
      s8 += c[i] * p[i], s9 += c[i] * q[i], s10 += c[i] * v[i], s11 += c[i] * w[i];
    }
    const int32_t all[12] = {s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11};
    for (int i = 0; i < 12; ++i) s[i] += all[i];
  }
  for (int i = 0; i < 12; ++i) sums[i / kZoDotColumns][i % kZoDotColumns] = s[i];
}
#endif

static
    __attribute__((noinline)) int32_t zo_dot16(const int16_t* x, const int16_t* y, const zo_run* runs, size_t count) {
  int32_t sum = 0;
  for (size_t run = 0; run < count; ++run) {
    const int16_t *a = x + runs[run].x, *b = y + runs[run].y;
    const size_t length = runs[run].length / kZoRun * kZoRun; /* compilers see the multiple, and make pairs */
    for (size_t i = 0; i < length; ++i) sum += a[i] * b[i];
  }
  return sum;
}

/* --- Errors of inputs ---------------------------------------------------------------------------- */

/* f of a row of outputs; returns the largest F. */
static uint64_t factor_outputs(const zo_node_layer* l, const int32_t* scales, uint32_t shift, const int16_t* errors,
                               int16_t* factors) {
  const uint32_t together = l->depthwise != 0u ? l->out_c / l->in_c : l->out_c;
  uint64_t largest = 0;
  for (uint32_t w = 0; w < l->out_w; ++w, errors += l->out_c, factors += l->out_c) {
    for (uint32_t c = 0; c < l->out_c; ++c) factors[c] = (int16_t)zo_half_up(errors[c] * scales[c], shift);
    if (together == 1u) {
      const uint64_t own = (uint32_t)zo_largest_magnitude(factors, l->out_c);
      if (own * own > largest) largest = own * own;
      continue;
    }
    for (uint32_t first = 0; first < l->out_c; first += together) {
      uint64_t sum = 0;
      for (uint32_t c = first; c < first + together; ++c) sum += (uint32_t)(factors[c] * factors[c]);
      if (sum > largest) largest = sum;
    }
  }
  return largest;
}

/* Writes f into the memory, and returns N. */
static uint64_t factor_errors(const zo_node_layer* l, const zo_side* rows, const zo_side* columns, uint32_t norm,
                              const int32_t* scales, const int16_t* errors, int16_t* factors, uint32_t* shift) {
  const size_t row = (size_t)l->out_w * l->out_c, pitch = (size_t)columns->count * l->out_c;
  const zo_windows h = {l->in_h, l->out_h, l->k_h, l->stride_h, l->dilation_h, l->pad_top};
  const zo_windows w = {l->in_w, l->out_w, l->k_w, l->stride_w, l->dilation_w, l->pad_left};
  const uint64_t reads = (uint64_t)zo_most_windows(&h) * zo_most_windows(&w);
  int32_t largest = 0;
  for (size_t i = 0; i < (size_t)l->out_h * l->out_w; ++i) {
    for (uint32_t c = 0; c < l->out_c; ++c) {
      const int32_t product = errors[i * l->out_c + c] * scales[c], magnitude = product < 0 ? -product : product;
      largest = magnitude > largest ? magnitude : largest;
    }
  }
  for (*shift = zo_error_shift((uint32_t)largest);; ++*shift) {
    uint64_t squares = 0;
    for (uint32_t i = 0; i < l->out_h; ++i) {
      int16_t* to = factors + (i + rows->reach) * pitch + (size_t)columns->reach * l->out_c;
      const uint64_t own = factor_outputs(l, scales, *shift, errors + i * row, to);
      if (own > squares) squares = own;
    }
    const uint64_t bound = zo_root_up(reads * squares) * norm;
    if (bound <= ZO_ERROR_SUM_MAX) return bound;
  }
}

/* Sums of all channels of a depthwise layer at one position. */
static void sum_depthwise(const zo_node_layer* l, const int16_t* factors, const int16_t* turned, const zo_run* taps,
                          size_t count, int32_t* restrict sums) {
  const uint32_t inputs = l->in_c, outputs = l->out_c, each = outputs / inputs;
  memset(sums, 0, inputs * sizeof sums[0]);
  size_t t = 0;
  for (; each == 1u && t + 3u <= count; t += 3u) { /* a row of most windows */
    const int16_t *f = factors + taps[t].x, *g = factors + taps[t + 1u].x, *h = factors + taps[t + 2u].x;
    const int16_t *u = turned + taps[t].y, *v = turned + taps[t + 1u].y, *w = turned + taps[t + 2u].y;
    for (uint32_t c = 0; c < inputs; ++c) sums[c] += f[c] * u[c] + g[c] * v[c] + h[c] * w[c];
  }
  for (; t < count; ++t) {
    const int16_t *f = factors + taps[t].x, *w = turned + taps[t].y;
    for (uint32_t c = 0; c < outputs; ++c) sums[c / each] += f[c] * w[c];
  }
}

/* Errors of the inputs of one remainder: `from` are places in f, `to` those of the inputs. */
static void lead_back(const zo_node_layer* l, const int16_t* turned, const zo_run* runs, size_t run_count, size_t apart,
                      const int16_t* factors, const uint32_t* from, const uint32_t* to, size_t count, uint32_t shift,
                      int32_t* restrict scratch, int16_t* errors) {
  if (l->depthwise != 0u) {
    for (size_t i = 0; i < count; ++i) {
      sum_depthwise(l, factors + from[i], turned, runs, run_count, scratch);
      int16_t* restrict own = errors + to[i];
      for (uint32_t c = 0; c < l->in_c; ++c) own[c] = (int16_t)zo_half_up(scratch[c], shift);
    }
    return;
  }
  for (uint32_t c = 0; count == 1u && c < l->in_c; ++c) {
    errors[to[0] + c] = (int16_t)zo_half_up(zo_dot16(factors + from[0], turned + c * apart, runs, run_count), shift);
  }
  for (uint32_t first = 0; count > 1u && first < l->in_c; first += kZoDotColumns) {
    const uint32_t columns = l->in_c - first < kZoDotColumns ? l->in_c - first : kZoDotColumns;
    const int16_t* y[kZoDotColumns];
    for (uint32_t c = 0; c < kZoDotColumns; ++c) y[c] = turned + (first + (c < columns ? c : 0u)) * apart;
    for (size_t i = 0; i < count; i += kZoDotRows) {
      const int16_t* x[kZoDotRows];
      int32_t sums[kZoDotRows][kZoDotColumns];
      for (size_t r = 0; r < kZoDotRows; ++r) x[r] = factors + from[i + r < count ? i + r : i];
      zo_dots16(x, y, runs, run_count, sums);
      int16_t narrow[kZoDotRows * kZoDotColumns];
      const int32_t* all = sums[0];
      for (size_t k = 0; k < kZoDotRows * kZoDotColumns; ++k) narrow[k] = (int16_t)zo_half_up(all[k], shift);
      for (size_t r = 0; r < kZoDotRows && i + r < count; ++r) {
        int16_t* at = errors + to[i + r] + first;
        if (columns == kZoDotColumns) {
          memcpy(at, narrow + r * kZoDotColumns, kZoDotColumns * sizeof at[0]);
        } else {
          memcpy(at, narrow + r * kZoDotColumns, columns * sizeof at[0]);
        }
      }
    }
  }
}

/* Makes runs of neighbouring taps; of a depthwise layer one for each. */
static size_t join_taps(const zo_node_layer* l, const zo_tap* taps, size_t count, zo_run* runs) {
  size_t found = 0;
  for (size_t t = 0; t < count; ++t) {
    const int joins = t > 0u && l->depthwise == 0u && taps[t].x == taps[t - 1u].x + l->out_c;
    if (!joins) {
      runs[found].x = taps[t].x;
      runs[found++].y = taps[t].y;
    }
    runs[found - 1u].length = zo_whole_runs(taps[t].y + l->out_c - runs[found - 1u].y);
  }
  return found;
}

static void backprop(const zo_node_layer* l, const int16_t* turned, uint32_t norm, const int16_t* scales,
                     const int16_t* output_errors, int8_t exponent, int16_t* input_errors, int8_t* input_exponent,
                     void* memory) {
  zo_side rows, columns;
  zo_sides_of(l, &rows, &columns);
  const size_t elements = (size_t)l->k_h * l->k_w;
  zo_tap* taps = (zo_tap*)memory;
  zo_run* runs = (zo_run*)(void*)(taps + elements);
  uint32_t* from = (uint32_t*)(void*)(runs + elements);
  uint32_t* to = from + (size_t)l->in_h * l->in_w;
  int32_t* factor_scales = (int32_t*)(void*)(to + (size_t)l->in_h * l->in_w);
  int32_t* scratch = factor_scales + l->out_c;
  int16_t* factors = (int16_t*)(void*)(scratch + l->in_c);
  for (uint32_t c = 0; c < l->out_c; ++c) factor_scales[c] = scales == NULL ? INT32_C(1) << 15 : scales[c];
  memset(factors, 0, ((size_t)rows.count * columns.count * l->out_c + kZoRun) * sizeof factors[0]);
  uint32_t factor_shift;
  const uint64_t bound = factor_errors(l, &rows, &columns, norm, factor_scales, output_errors, factors, &factor_shift);
  const uint32_t shift = zo_error_shift(bound);
  for (uint32_t remainder = 0; remainder < rows.stride * columns.stride; ++remainder) {
    const uint32_t h = remainder / columns.stride, w = remainder % columns.stride;
    size_t apart, count = 0;
    const size_t run_count = join_taps(l, taps, zo_taps_of(l, h, w, taps, &apart), runs);
    const uint32_t top = (h + l->pad_top * (rows.stride - 1u)) % rows.stride;
    const uint32_t left = (w + l->pad_left * (columns.stride - 1u)) % columns.stride;
    for (uint32_t i = top; i < l->in_h; i += rows.stride) {
      uint32_t at = (i + rows.pad) / rows.stride * columns.count + (left + columns.pad) / columns.stride;
      for (uint32_t j = left; j < l->in_w; j += columns.stride, ++at) {
        from[count] = at * l->out_c;
        to[count++] = (i * l->in_w + j) * l->in_c;
      }
    }
    lead_back(l, turned, runs, run_count, apart, factors, from, to, count, shift, scratch, input_errors);
    turned += l->depthwise != 0u ? apart : l->in_c * apart;
  }
  *input_exponent = zo_error_exponent(exponent + (int32_t)(factor_shift + shift) - 15);
}

/* --- Gradients ----------------------------------------------------------------------------------- */

/* Two halves as one: a value of either in turn. */
static __attribute__((noinline)) void zip(const int16_t* restrict halves, size_t count, int16_t* restrict to) {
  for (size_t i = 0; i < count; ++i) {
    to[2u * i] = halves[i];
    to[2u * i + 1u] = halves[count + i];
  }
}

/* Writes rows, values of all channels at ZO_ZIPPED or fewer neighbouring positions, into the planes of the channels:
 * zeros behind them, which later rows overwrite. The memory has as many values as the rows of ZO_ZIPPED positions. */
static void scatter(int16_t* rows, uint32_t count, size_t channels, int16_t* memory, int16_t* to, size_t apart) {
  const size_t half = ZO_ZIPPED / 2u * channels;
  if (count < ZO_ZIPPED) memset(rows + count * channels, 0, (ZO_ZIPPED - count) * channels * sizeof rows[0]);
  /* Each time the number of a position loses its upper bit, which becomes the lowest one of a value's place. */
  zip(rows, half, memory);
  zip(memory, half, rows);
  zip(rows, half, memory);
  for (size_t c = 0; c < channels; ++c) memcpy(to + c * apart, memory + c * ZO_ZIPPED, ZO_ZIPPED * sizeof to[0]);
}

/* Errors of a sample, in a plane for each channel. */
static void fill_errors(const zo_node_layer* l, const zo_planes* p, const int16_t* errors, const uint8_t* route,
                        uint32_t shift, int16_t* rows, int16_t* to) {
  /* Rows that follow one another are one. */
  const uint32_t height = p->pitch == l->out_w ? 1u : l->out_h,
                 width = p->pitch == l->out_w ? l->out_h * l->out_w : l->out_w;
  for (uint32_t h = 0; h < height; ++h) {
    for (uint32_t w = 0; w < width; w += ZO_ZIPPED) {
      const uint32_t count = width - w < ZO_ZIPPED ? width - w : ZO_ZIPPED;
      const size_t values = (size_t)count * l->out_c;
      for (size_t i = 0; i < values; ++i) rows[i] = (int16_t)zo_half_up(errors[i], shift);
      for (size_t i = 0; route != NULL && i < values; ++i) {
        if (*route++ == ZO_ROUTE_CLAMPED) rows[i] = 0;
      }
      scatter(rows, count, l->out_c, rows + (size_t)ZO_ZIPPED * l->out_c, to + (size_t)h * p->pitch + w, p->apart);
      errors += values;
    }
  }
}

/* Inputs of a sample, less the zero point, in a plane for each channel and remainder. */
static void fill_inputs(const zo_node_layer* l, const zo_planes* p, const int8_t* inputs, int16_t* rows, int16_t* to) {
  const int16_t zero_point = (int16_t)l->input_zero_point;
  const uint32_t channels = l->in_c, stride = l->stride_w;
  const int joined = stride == 1u && p->pitch == l->in_w && l->pad_left == 0u;
  const uint32_t bottom = l->out_h + p->rows.reach;
  const uint32_t inside = bottom * l->stride_h > l->pad_top ? bottom * l->stride_h - l->pad_top : 0u;
  const uint32_t lines = inside < l->in_h ? inside : l->in_h;
  const int whole = joined && l->stride_h == 1u;
  const uint32_t height = whole ? (lines > 0u) : lines, width = whole ? lines * l->in_w : l->in_w;
  for (uint32_t i = 0; i < height; ++i, inputs += (size_t)width * channels) {
    const uint32_t h = (i + l->pad_top) / l->stride_h, remainder = (i + l->pad_top) % l->stride_h;
    for (uint32_t rest = 0; rest < stride; ++rest) {
      uint32_t j = (rest + l->pad_left * (stride - 1u)) % stride, w = (j + l->pad_left) / stride;
      int16_t* at = to + (size_t)(remainder * stride + rest) * channels * p->apart + (size_t)h * p->pitch;
      while (j < width && (whole || w < p->pitch)) {
        uint32_t count = 0;
        for (; count < ZO_ZIPPED && j < width && (whole || w + count < p->pitch); ++count, j += stride) {
          const int8_t* from = inputs + (size_t)j * channels;
          int16_t* restrict own = rows + (size_t)count * channels;
          for (uint32_t c = 0; c < channels; ++c) own[c] = (int16_t)(from[c] - zero_point);
        }
        scatter(rows, count, channels, rows + (size_t)ZO_ZIPPED * channels, at + w, p->apart);
        w += count;
      }
    }
  }
}

/* Adds the products of planes of errors and inputs to G. `begins` are places of the inputs of a channel's weights. */
static void add_planes(const zo_node_layer* l, const zo_planes* p, const size_t* begins, const zo_run* runs,
                       size_t run_count, const int16_t* errors, const int16_t* inputs, int32_t* gradients) {
  const uint32_t row = zo_node_row(l);
  for (uint32_t c = 0; l->depthwise != 0u && c < l->out_c; ++c, errors += p->apart) {
    const int16_t* x = inputs + c / (l->out_c / l->in_c) * p->apart;
    for (uint32_t i = 0; i < row; ++i) *gradients++ += zo_dot16(x + begins[i], errors, runs, run_count);
  }
  for (uint32_t first = 0; l->depthwise == 0u && first < l->out_c; first += kZoDotColumns) {
    const uint32_t columns = l->out_c - first < kZoDotColumns ? l->out_c - first : kZoDotColumns;
    const int16_t* y[kZoDotColumns];
    for (uint32_t c = 0; c < kZoDotColumns; ++c) y[c] = errors + (first + (c < columns ? c : 0u)) * p->apart;
    for (uint32_t i = 0; i < row; i += kZoDotRows) {
      const int16_t* x[kZoDotRows];
      int32_t sums[kZoDotRows][kZoDotColumns];
      for (uint32_t r = 0; r < kZoDotRows; ++r) x[r] = inputs + begins[i + r < row ? i + r : i];
      zo_dots16(x, y, runs, run_count, sums);
      for (uint32_t r = 0; r < kZoDotRows && i + r < row; ++r) {
        for (uint32_t c = 0; c < columns; ++c) gradients[(size_t)(first + c) * row + i + r] += sums[r][c];
      }
    }
  }
}

static void add_gradients(const zo_node_layer* l, const zo_planes* p, const zo_node_evidence* evidence, int32_t shift,
                          uint32_t begin, uint32_t end, int32_t* part, void* memory) {
  const size_t outputs = zo_node_count(l), inputs = zo_node_input_bytes(l), row = zo_node_row(l);
  const size_t used = (size_t)(l->out_h - 1u) * p->pitch + l->out_w; /* of a sample's errors */
  int32_t *sums = part + row * l->out_c, *magnitudes = sums + l->out_c;
  zo_run runs[ZO_PLANES_MOST];
  size_t* begins = (size_t*)memory;
  int16_t* of_errors = (int16_t*)(void*)(begins + row);
  int16_t* of_inputs = of_errors + l->out_c * p->apart;
  int16_t* rows = of_inputs + (size_t)l->stride_h * l->stride_w * l->in_c * p->apart;
  zo_begins_of(l, p, begins);
  for (uint32_t samples; begin < end; begin += samples) {
    samples = end - begin < p->samples ? end - begin : p->samples;
    if (samples < p->samples) memset(of_errors, 0, l->out_c * p->apart * sizeof of_errors[0]);
    for (uint32_t s = 0; s < samples; ++s) {
      const size_t b = begin + s;
      const int32_t exponent = evidence->exponents == NULL ? 0 : evidence->exponents[b];
      fill_errors(l, p, evidence->errors + b * outputs,
                  evidence->routes == NULL ? NULL : evidence->routes + b * outputs,
                  zo_node_error_shift(shift, exponent), rows, of_errors + s * p->sample);
      fill_inputs(l, p, evidence->inputs + b * inputs, rows, of_inputs + s * p->sample);
      runs[s].x = runs[s].y = s * p->sample;
      runs[s].length = zo_whole_runs(used);
    }
    if (p->joined) runs[0].length = zo_whole_runs((samples - 1u) * p->sample + used);
    add_planes(l, p, begins, runs, p->joined ? 1u : samples, of_errors, of_inputs, part);
    for (uint32_t c = 0; c < l->out_c; ++c) {
      const int16_t* e = of_errors + c * p->apart;
      int32_t sum = 0, magnitude = 0;
      for (size_t i = 0; i < samples * p->sample; ++i) {
        sum += e[i];
        magnitude += e[i] < 0 ? -e[i] : e[i];
      }
      sums[c] += sum;
      magnitudes[c] += magnitude;
    }
  }
}

#endif /* TFLM_ZO_OPS_KERNELS_ZO_LAYERS_LOOPS_H_ */
