# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Functions of the C core on nodes that the package itself has no use for: its control unit calls them."""

from __future__ import annotations

import ctypes
import math
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tflm_zo.core import MAX_QUERIES, NodeLayer, NodeState, make_tensor, weight_tensors
from tflm_zo.core.arguments import address, signed, unsigned
from tflm_zo.core.loader import call, structs


class NodeRule(IntEnum):
    """What a step is made of a gradient estimate (``zo_node_rule``)."""

    RMS = 0
    """A step of given root mean square, by a running mean of the squared gradient."""

    FIXED = 1
    """A given factor of the gradient."""

    BITS = 2
    """The gradient rounded to a few bits, pseudo-stochastically, in whole LSB."""

    STANDARDIZED = 3
    """The gradient less its mean, over its standard deviation."""


def _scale_of(name: str, value: float) -> Any:
    """A number, not negative, as ``zo_scale``: its 32 highest bits."""
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name}: expected a number, 0 or more, got {value}")
    mantissa, exponent = math.frexp(value)
    return structs.zo_scale(int(mantissa * 2**32), exponent - 32 if mantissa else 0)


def _per_sample(name: str, array: NDArray[Any], dtype: type[np.generic], size: int) -> int:
    """Checks [samples, ...] of so many values each and returns the address."""
    data = address(name, array, dtype)
    if array.ndim < 1 or array.size != len(array) * size:
        raise ValueError(f"{name}: expected {size} values per sample, got shape {list(array.shape)}")
    return data


def route_nodes(layer: NodeLayer, outputs: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Where the credit of each node goes, from the layer's outputs before any pooling.

    Args:
        layer: the layer.
        outputs: int8 [samples, out_h, out_w, out_c] or any shape of as many values.

    Returns:
        uint8 [samples, route_bytes].
    """
    data = _per_sample("outputs", outputs, np.int8, layer.out_h * layer.out_w * layer.out_c)
    routes = np.empty((len(outputs), layer.route_bytes), np.uint8)
    call("zo_route_nodes_s8", layer.struct, len(outputs), data, routes.ctypes.data)
    return routes


def perturb_nodes(
    layer: NodeLayer, nodes: NDArray[np.int8], seed: int, k: int, first_sample: int = 0
) -> NDArray[np.int8]:
    """Nodes moved by k z, z = +1 or -1 from the seed, another one for every sample.

    Args:
        layer: the layer.
        nodes: int8 [samples, ...], [node_h, node_w, out_c] values each.
        seed: of the query.
        k: +mu or -mu LSB, -127..127.
        first_sample: number of the first sample in the minibatch.

    Returns:
        int8 like `nodes`.
    """
    data = _per_sample("nodes", nodes, np.int8, layer.nodes)
    perturbed = np.empty_like(nodes)
    call(
        "zo_perturb_nodes_s8",
        layer.struct,
        len(nodes),
        unsigned("first_sample", first_sample),
        data,
        unsigned("seed", seed),
        signed("k", k),
        perturbed.ctypes.data,
    )
    return perturbed


def _evidence(
    layer: NodeLayer,
    samples: int,
    inputs: NDArray[np.int8] | None,
    routes: NDArray[np.uint8] | None,
    differences: NDArray[np.int32] | None,
    seeds: NDArray[np.uint32] | None,
    errors: NDArray[np.int16] | None,
    exponents: NDArray[np.int8] | None,
) -> Any:
    """``zo_node_evidence`` of arrays that `update_from_nodes` describes, which must outlive it."""
    evidence = structs.zo_node_evidence(
        samples=samples,
        inputs=None if inputs is None else _per_sample("inputs", inputs, np.int8, layer.input_bytes),
    )
    if routes is not None:
        evidence.routes = _per_sample("routes", routes, np.uint8, layer.route_bytes)
        if len(routes) != samples:
            raise ValueError(f"routes: expected {samples} samples, got {len(routes)}")
    if errors is not None:
        evidence.errors = _per_sample("errors", errors, np.int16, layer.nodes)
        if len(errors) != samples:
            raise ValueError(f"errors: expected {samples} samples, got {len(errors)}")
        if exponents is not None:
            evidence.exponents = _per_sample("exponents", exponents, np.int8, 1)
    elif differences is not None and seeds is not None:
        evidence.differences = address("differences", differences, np.int32)
        evidence.seeds = address("seeds", seeds, np.uint32)
        if differences.shape != (len(seeds), samples) or not 1 <= len(seeds) <= MAX_QUERIES:
            raise ValueError(
                f"differences: expected [{len(seeds)}, {samples}] and 1..{MAX_QUERIES} seeds, "
                f"got {list(differences.shape)}"
            )
        evidence.queries = len(seeds)
    else:
        raise ValueError("expected differences and seeds, or errors")
    return evidence


def update_from_nodes(
    layer: NodeLayer,
    state: NodeState,
    weights: NDArray[np.int8],
    fraction: NDArray[np.int8] | None,
    multiplier: NDArray[np.int32] | None,
    stream: int,
    limit: int,
    inputs: NDArray[np.int8],
    routes: NDArray[np.uint8] | None,
    *,
    rate: int,
    clip: int,
    seed: int,
    differences: NDArray[np.int32] | None = None,
    seeds: NDArray[np.uint32] | None = None,
    errors: NDArray[np.int16] | None = None,
    exponents: NDArray[np.int8] | None = None,
    rule: NodeRule = NodeRule.RMS,
    gain: float = 0.0,
    bits: int = 0,
    rows: int = 0,
    biases: NDArray[np.int32] | None = None,
    alone: bool = False,
) -> int:
    """One step of a layer from what a minibatch says of its nodes; see ``zo_node_update_s8``.

    Args:
        layer: the layer.
        state: changed by `NodeRule.RMS`.
        weights: int8, changed in place.
        fraction: int8 like `weights`, changed in place (16-bit update), or None (8-bit).
        multiplier: int32 [out_c], Q31 factors of the step, or None. `NodeRule.BITS` takes no fraction and
            uses no multiplier.
        stream: number of the tensor.
        limit: 127 minus the headroom.
        inputs: int8 [samples, ...], the layer's inputs.
        routes: uint8 [samples, route_bytes], or None where no output is clamped.
        rate: RMS or, standardized, standard deviation of the step over the updated channels, unit 2^-16 LSB;
            `NodeRule.FIXED`: factor of `gain`, unit 2^-16; `NodeRule.BITS`: not used.
        clip: largest step of a weight, unit 2^-16 LSB, 1..2^24; `NodeRule.BITS`: not used.
        seed: of the rounding (8-bit update).
        differences: int32 [queries, samples] L(y + mu z) - L(y - mu z), unit 2^-16; with
        seeds: uint32 [queries]; or
        errors: int16 [samples, ...] dL/dy in any one unit; with
        exponents: int8 [samples], dL/dy is errors * 2^exponent; None: all are 0.
        rule: what the step is made of the gradient estimate.
        gain: `NodeRule.FIXED`: step, unit 2^-16 LSB, at a rate of 1 and for a gradient of 1, in the unit of
            the loss differences (or errors) times the input's LSB; above 0.
        bits: `NodeRule.BITS`: of the largest update, 1..7.
        rows: output channels that are updated, those with the largest errors; 0: all.
        biases: int32 [out_c], changed in place: tensor number stream + 1; None: they stay as they are.
        alone: whether the biases alone are trained; the weights then stay as they are, and no input is read.

    Returns:
        How many weights were clipped.
    """
    evidence = _evidence(
        layer, len(inputs), None if alone else inputs, routes, differences, seeds, errors, exponents
    )
    row = weights.size // layer.out_c
    tensors = [make_tensor(weights, fraction, multiplier, layer.out_c, row, stream, limit)]
    if biases is not None:
        tensors.append(make_tensor(biases, None, multiplier, layer.out_c, 1, stream + 1, limit))
    own = weight_tensors(tensors[1:] if alone else tensors)
    step = structs.zo_node_step(
        rule=int(NodeRule(rule)),
        rate=unsigned("rate", rate),
        clip=unsigned("clip", clip),
        seed=unsigned("seed", seed),
        bits=unsigned("bits", bits),
        rows=unsigned("rows", rows),
        gain=_scale_of("gain", gain),
        mean_square=structs.zo_scale(state.mantissa, state.exponent),
    )
    c_layer = layer.struct
    scratch = np.empty(layer.scratch_values, np.int32)
    saturated = ctypes.c_uint32(0)
    call(
        "zo_node_update_s8",
        c_layer,
        own,
        len(own),
        evidence,
        step,
        scratch.ctypes.data,
        ctypes.byref(saturated),
    )
    state.mantissa, state.exponent = step.mean_square.mantissa, step.mean_square.exponent
    return saturated.value


def fc_backprop(
    weights: NDArray[np.int8],
    scales: NDArray[np.int16] | None,
    errors: NDArray[np.int16],
    routes: NDArray[np.uint8] | None,
) -> NDArray[np.int16]:
    """Errors of a dense layer's inputs from those of its outputs; see ``zo_fc_backprop_s8``.

    Args:
        weights: int8 [outputs, inputs].
        scales: int16 [outputs], Q15: filter scales relative to the largest, or None for one scale.
        errors: int16 [samples, outputs].
        routes: uint8 [samples, inputs] of the layer before, or None where nothing is clamped.

    Returns:
        int16 [samples, inputs], in a unit 2^8 times that of `errors` times the largest filter's LSB.
    """
    data = address("weights", weights, np.int8)
    if weights.ndim != 2:
        raise ValueError(f"weights: expected [outputs, inputs], got shape {list(weights.shape)}")
    outputs, inputs = weights.shape
    from_outputs = _per_sample("errors", errors, np.int16, outputs)
    samples = len(errors)
    if scales is not None and scales.shape != (outputs,):
        raise ValueError(f"scales: expected [{outputs}], got {list(scales.shape)}")
    if routes is not None and (routes.ndim != 2 or routes.shape != (samples, inputs)):
        raise ValueError(f"routes: expected [{samples}, {inputs}], got {list(routes.shape)}")
    result = np.empty((samples, inputs), np.int16)
    scratch = np.empty(inputs, np.int32)
    call(
        "zo_fc_backprop_s8",
        samples,
        inputs,
        outputs,
        data,
        None if scales is None else address("scales", scales, np.int16),
        from_outputs,
        None if routes is None else address("routes", routes, np.uint8),
        result.ctypes.data,
        scratch.ctypes.data,
    )
    return result


ONE = 65536


def dense(inputs, errors, weights, rule, *, fraction=None, zero_point=0, **arguments):
    """An update of a dense layer by given errors."""
    layer = NodeLayer(in_c=inputs.shape[1], out_c=weights.shape[0], input_zero_point=zero_point)
    defaults = {"rate": ONE, "clip": 2**24, "seed": 0, "errors": errors.astype(np.int16)}
    return update_from_nodes(
        layer,
        NodeState(),
        weights,
        fraction,
        None,
        0,
        127,
        inputs.astype(np.int8),
        None,
        rule=rule,
        **{**defaults, **arguments},
    )
