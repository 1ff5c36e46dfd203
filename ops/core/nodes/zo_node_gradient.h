/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The gradient estimate G of zo_node_update.h, one output channel at a time: errors of nodes from
 * the evidence, and the credit of the channel's weights. */
#ifndef TFLM_ZO_OPS_CORE_NODES_ZO_NODE_GRADIENT_H_
#define TFLM_ZO_OPS_CORE_NODES_ZO_NODE_GRADIENT_H_

#include "ops/core/kernels/zo_dense_sums.h"
#include "ops/core/nodes/zo_layer_loops.h"
#include "ops/core/nodes/zo_node_update.h"

/* Errors that are formed together. */
#define ZO_NODE_ERRORS 256u

typedef struct zo_node_gradient {
  const zo_node_layer* layer;
  const zo_node_evidence* evidence;
  uint32_t positions; /* nodes of a channel */
  uint32_t row;       /* weights of a channel */
  int32_t shift;      /* of errors, of samples whose exponent is 0 */
  uint32_t together;  /* channels whose errors are held at once; 0: too many even of one */
  int dense;          /* one node a channel and one sample: G is e times the same input */
#if ZO_DENSE_CHANNELS > 0u
  int grouped; /* zo_node_gradient_is_dense */
#endif
  int32_t sum;                    /* of e over samples and credited positions, of the channel that was last
                                     formed, or whose errors were asked for; below 2^31 / 255 */
  int32_t largest;                /* that |G| of the channel can be that was last formed */
  uint32_t first;                 /* channel of those held */
  uint32_t held;                  /* channels held */
  int16_t errors[ZO_NODE_ERRORS]; /* [samples, held, positions]; of groups [held, samples] */
#if ZO_KERNEL_SETS
  zo_gradients* formed; /* of all channels, by a desktop's loops; null: none */
#endif
} zo_node_gradient;

/* Returns 0 if errors cannot be shifted so that sums fit. The arguments are checked ones. */
int zo_node_gradient_begin(zo_node_gradient* g, const zo_node_layer* layer, const zo_node_evidence* evidence);

/* Before a pass over the channels, from the first on. */
static inline void zo_node_gradient_rewind(zo_node_gradient* g) { g->held = 0; }

/* Sum over samples and credited positions of |e|; below 2^31 / 255. */
int32_t zo_node_gradient_errors(zo_node_gradient* g, uint32_t channel);

/* Writes 1 for the `rows` channels with the largest errors, 0 for the others; 0 < rows < out_c. */
void zo_node_gradient_choose(zo_node_gradient* g, uint32_t rows, int32_t* chosen);

/* Forms G of a channel, int32 [row]. Returns 0 if no node is credited: G is all zero. */
int zo_node_gradient_form(zo_node_gradient* g, uint32_t channel, int32_t* gradient);

/* Channels [channel, end) of a dense layer that are held, with their errors; clamped ones are 0.
 * The caller may overwrite channels after forming their G. */
int16_t* zo_node_gradient_held(zo_node_gradient* g, uint32_t channel, uint32_t* end);

#if ZO_DENSE_CHANNELS > 0u
/* Columns that there is room for in the scratch memory for each channel of a group, at least. */
#define ZO_NODE_COLUMNS 16u

/* Channels whose G is formed together, some columns at a time, if zo_node_gradient_is_dense says
 * that it can be. */
typedef struct zo_node_group {
  uint32_t count;
  uint32_t channels[ZO_DENSE_CHANNELS];
  int32_t sums[ZO_DENSE_CHANNELS];    /* zo_node_gradient.sum of each */
  int32_t largest[ZO_DENSE_CHANNELS]; /* zo_node_gradient.largest of each */
  zo_dense_block block;
} zo_node_group;

/* Whether the layer is a dense one, large enough, of several samples but not of too many. */
static inline int zo_node_gradient_is_dense(const zo_node_gradient* g) { return g->grouped; }

/* Whether a group takes a channel, the one behind its last: not if it is full, or has channels
 * whose errors are not held together with this one's. */
static inline int zo_node_group_takes(const zo_node_gradient* g, const zo_node_group* group, uint32_t channel) {
  return group->count == 0u || (group->count < ZO_DENSE_CHANNELS && channel - g->first < g->held);
}

/* Adds a channel; one whose errors are all zero only if `zeros` says so. */
void zo_node_group_add(zo_node_gradient* g, zo_node_group* group, uint32_t channel, int zeros);

/* Forms columns [first, first + count) of G, int32 [channels][apart], of a group that is not empty;
 * `apart` is a multiple of ZO_DENSE_COLUMNS. */
void zo_node_group_form(zo_node_gradient* g, zo_node_group* group, uint32_t first, uint32_t count, int32_t* gradient,
                        uint32_t apart);
#endif

#endif /* TFLM_ZO_OPS_CORE_NODES_ZO_NODE_GRADIENT_H_ */
