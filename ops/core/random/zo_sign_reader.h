/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* Reads the Rademacher signs of a random stream (zo_stream.h) one after the other, from any
 * place on. */
#ifndef TFLM_ZO_OPS_CORE_RANDOM_ZO_SIGN_READER_H_
#define TFLM_ZO_OPS_CORE_RANDOM_ZO_SIGN_READER_H_

#include "ops/core/random/zo_stream.h"

typedef struct zo_sign_reader {
  uint32_t key;
  uint32_t index; /* of the next sign */
  uint32_t word;  /* that holds it, where index % 32 is not 0 */
} zo_sign_reader;

/* Enters the word of `index`, which is a multiple of 32. */
static inline void zo_sign_reader_load(zo_sign_reader* reader) {
  if (reader->index % ZO_STREAM_TILE == 0u) {
    reader->word = zo_stream_state(reader->key, reader->index / ZO_STREAM_TILE);
  }
  reader->word = zo_stream_next(reader->word);
}

static inline zo_sign_reader zo_sign_reader_at(uint32_t seed, uint32_t stream, uint32_t index) {
  zo_sign_reader reader;
  reader.key = zo_stream_key(seed, stream);
  reader.index = index;
  reader.word = 0;
  /* Words of the tile that lie before or hold it; where it begins a word, that one is next. */
  const uint32_t words = (index % ZO_STREAM_TILE + 31u) / 32u;
  if (words > 0u) reader.word = zo_stream_state(reader.key, index / ZO_STREAM_TILE);
  for (uint32_t w = 0; w < words; ++w) reader.word = zo_stream_next(reader.word);
  return reader;
}

/* 0 for +1, 1 for -1. */
static inline uint32_t zo_sign_reader_next(zo_sign_reader* reader) {
  if (reader->index % 32u == 0u) zo_sign_reader_load(reader);
  return (reader->word >> (reader->index++ % 32u)) & 1u;
}

#endif /* TFLM_ZO_OPS_CORE_RANDOM_ZO_SIGN_READER_H_ */
