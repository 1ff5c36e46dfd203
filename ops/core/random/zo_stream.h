/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The random stream: which bits make up the direction z of a seed.
 *
 * Specification (test vectors in tests/core/test_stream.py):
 *
 *   fmix(h): h ^= h >> 16; h *= 0x85EBCA6B; h ^= h >> 13; h *= 0xC2B2AE35;
 *            h ^= h >> 16                     (MurmurHash3's finalizer)
 *   key(seed, tensor)   = fmix(seed + 0x9E3779B9 * (tensor + 1))
 *   state(key, tile)    = fmix(key ^ fmix(0x6A09E667 + tile)), and
 *                         0x6C8E9CF5 if that is zero
 *   next(state): state ^= state << 13; state ^= state >> 17; state ^= state << 5;
 *                the new state is the word drawn (Marsaglia's xorshift32)
 *
 * Weight i belongs to tile i / 1024. Words are used from the least significant bit up:
 *
 *   Rademacher      bit j of a word is weight 32 w + j; 1 means -1
 *   Gaussian        byte j of a word is weight 4 w + j: bit 7 is the sign (1 means minus), bits 0..6
 *                   index the quantile table
 *   sparse uniform  half-word j is weight 2 w + j: z = 0 if the low byte is below p_zero, else from
 *                   the high byte as int8 b: 0 for b = -128, else floor((b (2 mu + 1) + 128) / 256)
 *   coordinate      no words: z = 1 at weight key(seed, tensor) mod size
 *   rounding        (tensor number with bit 31 set) weight 4 w + j takes the low 16 bits of the word
 *                   rotated right by 8 j
 *
 * Everything is modulo 2^32. A tile's stream depends on (seed, tensor, tile) alone, so an update can
 * walk the weights once, tile by tile, over any number of steps, and never stores a direction.
 */
#ifndef TFLM_ZO_OPS_CORE_RANDOM_ZO_STREAM_H_
#define TFLM_ZO_OPS_CORE_RANDOM_ZO_STREAM_H_

#include "ops/core/zo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Added to a tensor's number for its rounding stream. */
#define ZO_ROUNDING_STREAM UINT32_C(0x80000000)

/* The quantiles |z| of ZO_GAUSSIAN, [128], ascending:
 * round(127 / 3.5 * Phi^-1(1/2 + (i + 1/2) / 256)). */
extern const uint8_t zo_gaussian_quantiles[128];

/* The last of them. */
#define ZO_GAUSSIAN_Z_MAX 105

static inline uint32_t zo_fmix(uint32_t h) {
  h ^= h >> 16;
  h *= UINT32_C(0x85EBCA6B);
  h ^= h >> 13;
  h *= UINT32_C(0xC2B2AE35);
  h ^= h >> 16;
  return h;
}

static inline uint32_t zo_stream_key(uint32_t seed, uint32_t tensor) {
  return zo_fmix(seed + UINT32_C(0x9E3779B9) * (tensor + 1u));
}

/* State before the first word of a tile; never zero. */
static inline uint32_t zo_stream_state(uint32_t key, uint32_t tile) {
  const uint32_t state = zo_fmix(key ^ zo_fmix(UINT32_C(0x6A09E667) + tile));
  return state != 0u ? state : UINT32_C(0x6C8E9CF5);
}

static inline uint32_t zo_stream_next(uint32_t state) {
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

/* A word turned right by a byte: its halves and those of the word are four rounding terms. */
static inline uint32_t zo_turned(uint32_t word) { return word >> 8 | word << 24; }

/* Seed of query `query` of the step `step` of a run,
 *
 *   fmix(fmix(run_seed + 0x9E3779B9 * (step + 1)) + 0x85EBCA6B * query).
 *
 * Any integer would do; the control unit uses this one, so that runs agree. */
uint32_t zo_query_seed(uint32_t run_seed, uint32_t step, uint32_t query);

/* Checks kind and parameters. */
zo_status zo_distribution_check(zo_distribution distribution);

/* Largest |perturbation| of one weight, in LSB. */
int32_t zo_distribution_reach(zo_distribution distribution);

/* Largest |z| of one weight: 1, mu or 105. */
int32_t zo_distribution_z_max(zo_distribution distribution);

/* Writes z for the weights [begin, begin + count) of a tensor of any size.
 *
 *   z      int8 [count]
 *   begin  a multiple of ZO_STREAM_TILE; ZO_COORDINATE: 0, and count is the tensor's size
 *
 * The slow, plain form of the specification: for tests and inspection. */
zo_status zo_direction(zo_distribution distribution, uint32_t seed, uint32_t tensor, uint32_t begin, uint32_t count,
                       int8_t* z);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_RANDOM_ZO_STREAM_H_ */
