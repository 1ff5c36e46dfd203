/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/core/kernels/zo_step_gaussian.h"

#if ZO_STEP_GAUSSIAN

#include "ops/core/kernels/zo_dsp_lanes.h"
#include "ops/core/random/zo_stream.h"

/* The data of a loop. */
typedef struct gaussian_run {
  int8_t* weights;
  int8_t* fraction;
  const int8_t* end;
  int32_t limit;
  const zo_query* queries;
  uint32_t count; /* of queries */
  uint32_t* states;
  uint32_t* rounding;
} gaussian_run;

/* The steps of four weights along a word. */
static inline four_steps add_word(four_steps f, const int8_t* z, uint32_t word, int32_t c) {
  f.s0 += (uint32_t)(c * z[word & 0xFFu]);
  f.s1 += (uint32_t)(c * z[word >> 8 & 0xFFu]);
  f.s2 += (uint32_t)(c * z[word >> 16 & 0xFFu]);
  f.s3 += (uint32_t)(c * z[word >> 24]);
  return f;
}

/* Of a single query, whose stream stays in a register, or of any number. */
static inline __attribute__((always_inline)) uint32_t gaussian_loop(const gaussian_run* run, const int8_t* z,
                                                                    int single, int has_fraction) {
  const byte_limits limits = byte_limits_of(run->limit);
  const int32_t limit = run->limit, first = run->queries[0].coefficient;
  int8_t *weights = run->weights, *fraction = run->fraction;
  uint32_t clipped = 0, random = *run->rounding, state = run->states[0];
  for (const int8_t* const end = run->end; weights != end; weights += 4) {
    four_steps f = {0, 0, 0, 0};
    state = zo_stream_next(state);
    f = add_word(f, z, state, first);
    if (!single) {
      uint32_t* more = run->states;
      for (const zo_query* q = run->queries + 1; q != run->queries + run->count; ++q) {
        ++more;
        f = add_word(f, z, *more = zo_stream_next(*more), q->coefficient);
      }
    }
    if (has_fraction) {
      clipped += move_within_16(weights, fraction, in_fractions(f), limit);
      fraction += 4;
    } else {
      random = zo_stream_next(random);
      clipped += move_within_8(weights, whole_parts(add_rounding(f, random)), limits);
    }
  }
  run->states[0] = state;
  *run->rounding = random;
  return clipped;
}

/* Not inlined, so that in each loop the table's address stays in a register. */
#define GAUSSIAN_LOOP static __attribute__((noinline))

GAUSSIAN_LOOP uint32_t gaussian_single_8(const gaussian_run* run, const int8_t* z) {
  return gaussian_loop(run, z, 1, 0);
}
GAUSSIAN_LOOP uint32_t gaussian_single_16(const gaussian_run* run, const int8_t* z) {
  return gaussian_loop(run, z, 1, 1);
}
GAUSSIAN_LOOP uint32_t gaussian_any_8(const gaussian_run* run, const int8_t* z) { return gaussian_loop(run, z, 0, 0); }
GAUSSIAN_LOOP uint32_t gaussian_any_16(const gaussian_run* run, const int8_t* z) { return gaussian_loop(run, z, 0, 1); }

uint32_t zo_step_gaussian(const zo_tensor* tensor, uint32_t begin, uint32_t count, const zo_query* queries,
                          uint32_t query_count, int32_t largest, uint32_t* states, uint32_t* rounding,
                          uint32_t* clipped) {
  if (!bytes_suffice(tensor->limit, largest)) return 0;
  int8_t z[256]; /* by byte of a stream */
  for (uint32_t i = 0; i < 128u; ++i) {
    z[i] = (int8_t)zo_gaussian_quantiles[i];
    z[i + 128u] = (int8_t)-(int32_t)zo_gaussian_quantiles[i];
  }
  gaussian_run run;
  run.weights = tensor->weights + begin;
  run.fraction = tensor->fraction == NULL ? NULL : tensor->fraction + begin;
  run.end = run.weights + count / 4u * 4u;
  run.limit = tensor->limit;
  run.queries = queries;
  run.count = query_count;
  run.states = states;
  run.rounding = rounding;
  if (query_count == 1u) {
    *clipped += run.fraction != NULL ? gaussian_single_16(&run, z) : gaussian_single_8(&run, z);
  } else {
    *clipped += run.fraction != NULL ? gaussian_any_16(&run, z) : gaussian_any_8(&run, z);
  }
  return count / 4u * 4u;
}

#endif
