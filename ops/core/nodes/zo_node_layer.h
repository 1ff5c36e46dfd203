/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Node perturbation: the activations ("nodes") of one layer are perturbed instead of its weights,
 * each sample with a direction of its own.
 *
 * A layer whose outputs are y = W a has dL/dW = sum over samples of dL/dy a^T, and dL/dy of one
 * sample is estimated from its own loss by re-running only the part behind the layer:
 *
 *   dL/dy_i ~ d z_i / (2 mu),  d = L(y + mu z) - L(y - mu z),  z_i = +1 or -1
 *
 * The variance grows with the number of nodes, not of weights (Poor Man's Training, sec. 3.2).
 *
 * Nodes may lie behind a pooling that follows the layer: there are fewer of them.
 *
 *   ZO_NODES_PLAIN     the layer's own outputs
 *   ZO_NODES_MAX_POOL  outputs of a MAX_POOL_2D of them: dL/dy goes to the first largest output of
 *                      the window
 *   ZO_NODES_MEAN      their mean over the image (global AVERAGE_POOL_2D or MEAN): dL/dy goes to
 *                      all positions alike
 *
 * Outputs at the clamp of a fused activation do not move the loss: such nodes are neither perturbed
 * nor credited, unless the layer is `unmasked`. Until the update a sample keeps one *pair*: the
 * layer's input and one route, a byte for each node with the direction of its credit.
 */
#ifndef TFLM_ZO_OPS_CORE_NODES_ZO_NODE_LAYER_H_
#define TFLM_ZO_OPS_CORE_NODES_ZO_NODE_LAYER_H_

#include "ops/core/zo_features.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Added to a sample's number in the minibatch: the random stream of its nodes. */
#define ZO_NODE_STREAM UINT32_C(0x40000000)

/* Route of a node that is clamped. */
#define ZO_ROUTE_CLAMPED 255u

typedef enum zo_node_form {
  ZO_NODES_PLAIN = 0,
  ZO_NODES_MAX_POOL = 1,
  ZO_NODES_MEAN = 2,
} zo_node_form;

/* A CONV_2D, DEPTHWISE_CONV_2D or FULLY_CONNECTED (everything 1 x 1, in_c inputs, out_c outputs)
 * that carries nodes. Layouts are TFLite's: inputs [in_h, in_w, in_c], filter [out_c, k_h, k_w,
 * in_c] or, depthwise, [1, k_h, k_w, out_c], outputs [out_h, out_w, out_c], nodes [node_h, node_w,
 * out_c]. All fields have 32 bits, in the order in which bindings list them. */
typedef struct zo_node_layer {
  uint32_t form;
  uint32_t in_h, in_w, in_c;
  uint32_t k_h, k_w;
  uint32_t stride_h, stride_w;
  uint32_t dilation_h, dilation_w;
  uint32_t pad_top, pad_left;
  uint32_t out_h, out_w, out_c;
  uint32_t node_h, node_w; /* PLAIN: out_h, out_w; MEAN: 1, 1 */
  uint32_t pool_h, pool_w; /* MAX_POOL: window of at most 254 outputs, stride and padding */
  uint32_t pool_stride_h, pool_stride_w;
  uint32_t pool_pad_top, pool_pad_left;
  int32_t input_zero_point;
  int32_t low;  /* outputs <= low are clamped; -129: none are */
  int32_t high; /* outputs >= high are clamped; 128: none are */
  /* 1: nodes at the clamp of an activation are perturbed within low and high and credited (an ablation);
     0: they are not */
  uint32_t unmasked;
  /* 1: output channel c reads input channel c / (out_c / in_c) alone, and its k_h * k_w weights lie
     out_c apart; 0: it reads all of them */
  uint32_t depthwise;
} zo_node_layer;

/* Tests of a layer's kind, constant if the build excludes the kind. */
static inline int zo_node_is_depthwise(const zo_node_layer* layer) {
  return ZO_WITH_DEPTHWISE && layer->depthwise != 0u;
}
static inline int zo_node_is_mean(const zo_node_layer* layer) {
  return ZO_WITH_MEAN_NODES && layer->form == ZO_NODES_MEAN;
}
static inline int zo_node_is_max_pool(const zo_node_layer* layer) {
  return ZO_WITH_MAX_POOL_NODES && layer->form == ZO_NODES_MAX_POOL;
}

/* Input channels that an output channel reads: weights of a channel at one position of the
 * window. */
static inline uint32_t zo_node_depth(const zo_node_layer* layer) {
  return zo_node_is_depthwise(layer) ? 1u : layer->in_c;
}

/* Checks that the sizes fit each other.
 * Errors: ZO_ERROR_ARGUMENT. */
#if ZO_WITH_CHECKS
zo_status zo_node_layer_check(const zo_node_layer* layer);
#else
static inline zo_status zo_node_layer_check(const zo_node_layer* layer) {
  (void)layer;
  return ZO_OK;
}
#endif

/* Nodes, bytes of the input, and bytes of the route of one sample: an input and a route are a
 * pair. */
uint32_t zo_node_count(const zo_node_layer* layer);
uint32_t zo_node_input_bytes(const zo_node_layer* layer);
uint32_t zo_node_route_bytes(const zo_node_layer* layer);

/* Weights of an output channel. */
uint32_t zo_node_row(const zo_node_layer* layer);

/* Routes of samples from the layer's outputs, before any pooling. Of an `unmasked` layer no output
 * counts as clamped.
 *
 *   outputs  int8 [samples, out_h, out_w, out_c]
 *   routes   uint8 [samples, zo_node_route_bytes]:
 *              PLAIN     [nodes] 0, or ZO_ROUTE_CLAMPED
 *              MAX_POOL  [nodes] number of the largest output in the window, the first one of
 *                        equals, row by row, padding counted; or ZO_ROUTE_CLAMPED
 *              MEAN      [out_c, ceil(out_h * out_w / 8)] bit set if an output is not clamped,
 *                        from the least significant on */
zo_status zo_route_nodes_s8(const zo_node_layer* layer, uint32_t samples, const int8_t* outputs, uint8_t* routes);

/* Perturbed nodes: y + k z, clamped nodes as they are unless the layer is `unmasked`, the others
 * kept within int8 and the clamps.
 *
 *   nodes, perturbed  int8 [samples, nodes], may be the same
 *   first_sample      number of the first sample in the minibatch
 *   k                 -127..127, +mu or -mu LSB
 *
 * z of node (p, c), position p of out_c channels, is bit c * positions + p of the Rademacher stream
 * (zo_stream.h) of `seed` and ZO_NODE_STREAM + number of the sample: channels are contiguous,
 * because the update needs the nodes of one at a time.
 *
 * Errors: ZO_ERROR_ARGUMENT, ZO_ERROR_FACTOR. */
zo_status zo_perturb_nodes_s8(const zo_node_layer* layer, uint32_t samples, uint32_t first_sample, const int8_t* nodes,
                              uint32_t seed, int32_t k, int8_t* perturbed);

#ifdef __cplusplus
}
#endif

#endif /* TFLM_ZO_OPS_CORE_NODES_ZO_NODE_LAYER_H_ */
