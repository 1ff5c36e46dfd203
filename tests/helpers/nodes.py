"""Functions of the C core on nodes that the package itself has no use for: its control unit calls them."""

import ctypes
import math
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tflm_zo.core import NodeLayer, NodeState, make_tensor, weight_tensors
from tflm_zo.core.arguments import address
from tflm_zo.core.loader import call, structs


class NodeRule(IntEnum):
    """The rule that makes a step of a gradient estimate (``zo_node_rule``)."""

    RMS = 0
    """A step of given root mean square, by a running mean of the squared gradient."""

    FIXED = 1
    """A given factor of the gradient."""

    BITS = 2
    """The gradient rounded to a few bits, pseudo-stochastically, in whole LSB."""

    STANDARDIZED = 3
    """The gradient less its mean, over its standard deviation."""


def route_nodes(layer: NodeLayer, outputs: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Computes uint8 [samples, route_bytes]: the target of each node's credit, from outputs before any pooling."""
    routes = np.empty((len(outputs), layer.route_bytes), np.uint8)
    read = address("outputs", outputs, np.int8)
    call("zo_route_nodes_s8", layer.struct, len(outputs), read, routes.ctypes.data)
    return routes


def perturb_nodes(
    layer: NodeLayer, nodes: NDArray[np.int8], seed: int, k: int, first_sample: int = 0
) -> NDArray[np.int8]:
    """Moves nodes [samples, ...] by k z, z = +1 or -1 from the seed, another one for every sample."""
    perturbed, read = np.empty_like(nodes), address("nodes", nodes, np.int8)
    given = (layer.struct, len(nodes), first_sample, read, seed, k)
    call("zo_perturb_nodes_s8", *given, perturbed.ctypes.data)
    return perturbed


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
    per_error: float = 0.0,
) -> int:
    """Makes one step of a layer from differences [queries, samples] with seeds, or errors with exponents, in place.
    Returns the number of clipped weights. `alone`: weights are not trained, and no input is read."""

    def at(array: NDArray[Any] | None, dtype: type[np.generic]) -> int | None:
        return None if array is None else address("evidence", array, dtype)

    evidence = structs.zo_node_evidence(
        samples=len(inputs),
        inputs=at(None if alone else inputs, np.int8),
        routes=at(routes, np.uint8),
        queries=0 if seeds is None else len(seeds),
        differences=at(differences, np.int32),
        seeds=at(seeds, np.uint32),
        errors=at(errors, np.int16),
        exponents=at(exponents, np.int8),
    )
    row = weights.size // layer.out_c
    tensors = [make_tensor(weights, fraction, multiplier, layer.out_c, row, stream, limit)]
    if biases is not None:
        tensors.append(make_tensor(biases, None, multiplier, layer.out_c, 1, stream + 1, limit))
    own = weight_tensors(tensors[1:] if alone else tensors)

    def scale(value: float) -> Any:
        mantissa, exponent = math.frexp(value)
        return structs.zo_scale(int(mantissa * 2**32), exponent - 32 if mantissa else 0)

    step = structs.zo_node_step(
        rule=int(rule),
        rate=rate,
        clip=clip,
        seed=seed,
        bits=bits,
        rows=rows,
        gain=scale(gain),
        per_error=scale(per_error),
        mean_square=structs.zo_scale(state.mantissa, state.exponent),
    )
    scratch, saturated = np.empty(layer.scratch_values, np.int32), ctypes.c_uint32(0)
    given = (layer.struct, own, len(own), evidence, step, scratch.ctypes.data)
    call("zo_node_update_s8", *given, ctypes.byref(saturated))
    state.mantissa, state.exponent = step.mean_square.mantissa, step.mean_square.exponent
    return saturated.value


ONE = 65536


def dense(inputs, errors, weights, rule, *, fraction=None, zero_point=0, **arguments):
    """Updates a dense layer by given errors."""
    layer = NodeLayer(in_c=inputs.shape[1], out_c=weights.shape[0], input_zero_point=zero_point)
    defaults = {"rate": ONE, "clip": 2**24, "seed": 0, "errors": errors.astype(np.int16)}
    read = inputs.astype(np.int8)
    own = (layer, NodeState(), weights, fraction, None, 0, 127, read, None)
    return update_from_nodes(*own, rule=rule, **{**defaults, **arguments})
