/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The Rademacher signs of a random stream (zo_stream.h): bit index % 32 of a word is 0 for +1, 1
 * for -1. */
#ifndef TFLM_ZO_OPS_CORE_RANDOM_ZO_SIGN_READER_H_
#define TFLM_ZO_OPS_CORE_RANDOM_ZO_SIGN_READER_H_

#include "ops/core/random/zo_stream.h"

/* The word that has the sign of this index. */
static inline uint32_t zo_sign_word(uint32_t seed, uint32_t stream, uint32_t index) {
  uint32_t word = zo_stream_state(zo_stream_key(seed, stream), index / ZO_STREAM_TILE);
  for (uint32_t w = 0; w <= index % ZO_STREAM_TILE / 32u; ++w) word = zo_stream_next(word);
  return word;
}

/* Reads words one after the other, from the first on. */
typedef struct zo_sign_reader {
  uint32_t key;
  uint32_t index; /* of the next word's first sign */
  uint32_t word;
} zo_sign_reader;

static inline zo_sign_reader zo_sign_reader_of(uint32_t seed, uint32_t stream) {
  const zo_sign_reader reader = {zo_stream_key(seed, stream), 0, 0};
  return reader;
}

static inline uint32_t zo_sign_reader_next(zo_sign_reader* reader) {
  if (reader->index % ZO_STREAM_TILE == 0u) {
    reader->word = zo_stream_state(reader->key, reader->index / ZO_STREAM_TILE);
  }
  reader->index += 32u;
  return reader->word = zo_stream_next(reader->word);
}

#endif /* TFLM_ZO_OPS_CORE_RANDOM_ZO_SIGN_READER_H_ */
