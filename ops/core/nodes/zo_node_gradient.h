/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
/* The gradient estimate G of zo_node_update.h, one output channel at a time: errors of nodes from
 * the evidence, and what they credit the channel's weights with. */
#ifndef TFLM_ZO_OPS_CORE_NODES_ZO_NODE_GRADIENT_H_
#define TFLM_ZO_OPS_CORE_NODES_ZO_NODE_GRADIENT_H_

#include "ops/core/nodes/zo_node_update.h"

#ifdef __cplusplus
extern "C" {
#endif

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
  int32_t sum;        /* of e over samples and credited positions, of the channel that was last
                         formed, or whose errors were asked for; below 2^31 / 255 */
  int32_t largest;    /* that |G| of the channel can be that was last formed */
  uint32_t first;     /* channel of those held */
  uint32_t held;      /* channels held */
  int16_t errors[ZO_NODE_ERRORS]; /* [samples, held, positions] */
} zo_node_gradient;

/* Returns 0 where errors cannot be shifted so that sums fit. The arguments are checked ones. */
int zo_node_gradient_begin(zo_node_gradient* g, const zo_node_layer* layer,
                           const zo_node_evidence* evidence);

/* Before a pass over the channels, from the first on. */
static inline void zo_node_gradient_rewind(zo_node_gradient* g) { g->held = 0; }

/* Sum over samples and credited positions of |e|; below 2^31 / 255. */
int32_t zo_node_gradient_errors(zo_node_gradient* g, uint32_t channel);

/* Writes 1 for the `rows` channels with the largest errors, 0 for the others; 0 < rows < out_c. */
void zo_node_gradient_choose(zo_node_gradient* g, uint32_t rows, int32_t* chosen);

/* Forms G of a channel, int32 [row]. Returns 0 where no node is credited: G is all zero. */
int zo_node_gradient_form(zo_node_gradient* g, uint32_t channel, int32_t* gradient);

/* Channels [channel, end) of a dense layer that are held, with their errors; clamped ones are 0.
 * The caller may overwrite those whose G it has formed. */
int16_t* zo_node_gradient_held(zo_node_gradient* g, uint32_t channel, uint32_t* end);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_NODES_ZO_NODE_GRADIENT_H_ */
