/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops over weights, gradients and nodes that zo_weight_loops.h is made of.
 */
#ifndef TFLM_ZO_OPS_KERNELS_ZO_WEIGHTS_H_
#define TFLM_ZO_OPS_KERNELS_ZO_WEIGHTS_H_

#include "ops/core/kernels/zo_add_products.h"
#include "ops/core/kernels/zo_weight_loops.h"

enum {
  kZoWeights = 64,    /* every count of a loop is a multiple of these */
  kZoSigns = 16,      /* streams of signs whose words lie next to each other */
  kZoTileWords = 256, /* of a tile, if a weight has a byte, and of its rounding; two bytes: twice */
};

/* `signs` are words of streams: word w of the first one at 16 w, of the next one at 16 w + 1. A bit
 * that is set is a minus. `words` are those of one stream, one after the other. */
struct zo_weight_loops {
  /* The words after a state, [kZoTileWords]. */
  void (*draw)(uint32_t* words, uint32_t state);
  /* `count` words of kZoSigns streams after their states. */
  void (*draw_signs)(uint32_t* signs, uint32_t count, const uint32_t* states);
  /* weights += +-delta, modulo 256. */
  void (*add_signs)(int8_t* weights, uint32_t count, const uint32_t* signs, int32_t delta);
  /* weights += +-table[byte % 128], modulo 256, minus if bit 7 of the byte is set; the bytes are
   * those of words, table is [128]. */
  void (*add_bytes)(int8_t* weights, uint32_t count, const uint32_t* words, const uint8_t* table);
  /* weights += k z, modulo 256, with the sparse uniform z of zo_stream.h, of `count` / 2 words. */
  void (*add_halves)(int8_t* weights, uint32_t count, const uint32_t* words, zo_distribution distribution, int32_t k);
  /* steps = sum over streams of +-coefficient. */
  void (*sum_signs)(int32_t* steps, uint32_t count, const uint32_t* signs, const int32_t* coefficients,
                    uint32_t streams);
  /* steps += coefficient * values. */
  void (*add_values)(int32_t* steps, uint32_t count, const int8_t* values, int32_t coefficient);
  /* Both rules of zo_update.h, 8 bits with the rounding stream's words. They return the number of
   * clipped weights. */
  uint32_t (*round_8)(int8_t* weights, uint32_t count, const int32_t* steps, int32_t limit, const uint32_t* words);
  uint32_t (*round_16)(int8_t* weights, int8_t* fraction, uint32_t count, const int32_t* steps, int32_t limit);
  /* values += moves[sign], clipped to +-limit, within which they are before; returns the number of
   * clipped ones. */
  uint32_t (*move)(int16_t* values, uint32_t count, const uint32_t* signs, const int16_t* moves, int32_t limit);
  /* zo_add_products on the first sums, any number of them; returns how many it has done. */
  uint32_t (*add_products)(int32_t* sums, uint32_t count, const zo_product* products, uint32_t number, size_t offset,
                           int32_t zero_point);
  /* zo_move_nodes. */
  void (*move_nodes)(const zo_node_block* block, uint32_t count, const int8_t* from, const int8_t* moves, int8_t* to);
};

/* Entry j, l: the state after 16 l steps if bit j alone is set. A step is linear over bits, so the
 * states of 16 places of a tile are sums of entries. */
extern const uint32_t zo_stream_jumps[32][16];

/* For the files of kernel sets, whose compilers vectorize it: to = from + moves within the block's bounds, or from
 * where that is held. */
static inline void zo_move_nodes(const zo_node_block* block, uint32_t count, const int8_t* from, const int8_t* moves,
                                 int8_t* restrict to) {
  const int16_t held_low = (int16_t)block->held_low, held_high = (int16_t)block->held_high;
  const int16_t low = (int16_t)block->low, high = (int16_t)block->high;
  for (uint32_t i = 0; i < count; ++i) {
    const int16_t value = from[i];
    int16_t moved = (int16_t)(value + moves[i]);
    moved = moved < low ? low : moved;
    moved = moved > high ? high : moved;
    to[i] = (int8_t)(value > held_low && value < held_high ? moved : value);
  }
}

#endif /* TFLM_ZO_OPS_KERNELS_ZO_WEIGHTS_H_ */
