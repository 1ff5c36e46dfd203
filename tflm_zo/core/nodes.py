# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Node perturbation in the C core (``ops/core/nodes/zo_node_layer.h``, ``zo_node_update.h``), from Python.

Nothing is computed here: every array goes to the functions that firmware calls.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..converters import ZoNodes
from . import native
from .native import MAX_QUERIES, NativeError

__all__ = [
    "NodeForm",
    "NodeLayer",
    "NodeRule",
    "NodeState",
    "fc_backprop",
    "perturb_nodes",
    "route_nodes",
    "update_from_nodes",
]

_u32, _i32, _ptr = ctypes.c_uint32, ctypes.c_int32, ctypes.c_void_p


class NodeForm(IntEnum):
    """What lies between a layer and its nodes (``zo_node_form``)."""

    PLAIN = 0
    MAX_POOL = 1
    MEAN = 2


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


_SIZES: Final = (
    "in_h",
    "in_w",
    "in_c",
    "k_h",
    "k_w",
    "stride_h",
    "stride_w",
    "dilation_h",
    "dilation_w",
    "pad_top",
    "pad_left",
    "out_h",
    "out_w",
    "out_c",
    "node_h",
    "node_w",
    "pool_h",
    "pool_w",
    "pool_stride_h",
    "pool_stride_w",
    "pool_pad_top",
    "pool_pad_left",
)


class _Layer(ctypes.Structure):
    _fields_ = [
        ("form", _u32),
        *((name, _u32) for name in _SIZES),
        ("input_zero_point", _i32),
        ("low", _i32),
        ("high", _i32),
        ("unmasked", _u32),
    ]


class _Evidence(ctypes.Structure):
    _fields_ = [
        ("samples", _u32),
        ("queries", _u32),
        ("inputs", _ptr),
        ("routes", _ptr),
        ("differences", _ptr),
        ("seeds", _ptr),
        ("errors", _ptr),
    ]


class _Scale(ctypes.Structure):
    _fields_ = [("mantissa", _u32), ("exponent", _i32)]


class _Step(ctypes.Structure):
    _fields_ = [
        ("rule", _u32),
        ("rate", _u32),
        ("clip", _u32),
        ("seed", _u32),
        ("bits", _u32),
        ("rows", _u32),
        ("gain", _Scale),
        ("mean_square", _Scale),
    ]


def _scale_of(name: str, value: float) -> _Scale:
    """A number, not negative, as ``zo_scale``: its 32 highest bits."""
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name}: expected a number, 0 or more, got {value}")
    mantissa, exponent = math.frexp(value)
    return _Scale(int(mantissa * 2**32), exponent - 32 if mantissa else 0)


@lru_cache(maxsize=1)
def _library() -> Any:
    library, layer = native.library(), ctypes.POINTER(_Layer)
    prototypes: dict[str, tuple[Any, list[Any]]] = {
        "zo_node_layer_check": (ctypes.c_int, [layer]),
        "zo_node_count": (_u32, [layer]),
        "zo_node_input_bytes": (_u32, [layer]),
        "zo_node_route_bytes": (_u32, [layer]),
        "zo_node_scratch_values": (_u32, [layer]),
        "zo_route_nodes_s8": (ctypes.c_int, [layer, _u32, _ptr, _ptr]),
        "zo_perturb_nodes_s8": (ctypes.c_int, [layer, _u32, _u32, _ptr, _u32, _i32, _ptr]),
        "zo_fc_backprop_s8": (ctypes.c_int, [_u32, _u32, _u32, _ptr, _ptr, _ptr, _ptr, _ptr, _ptr]),
        "zo_node_update_s8": (
            ctypes.c_int,
            [
                layer,
                ctypes.POINTER(native._Tensor),
                ctypes.POINTER(_Evidence),
                ctypes.POINTER(_Step),
                _ptr,
                ctypes.POINTER(_u32),
            ],
        ),
    }
    for name, (result, arguments) in prototypes.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _call(name: str, *arguments: object) -> None:
    status: int = getattr(_library(), name)(*arguments)
    if status != 0:
        raise NativeError(name, status)


@dataclass(frozen=True)
class NodeLayer:
    """A CONV_2D or FULLY_CONNECTED (1 x 1 everywhere) that carries nodes; see ``zo_node_layer``.

    Attributes:
        form: what lies between the layer and its nodes.
        in_h, in_w, in_c: input of one sample.
        out_h, out_w, out_c: output of one sample.
        k_h, k_w: filter, [out_c, k_h, k_w, in_c].
        stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left: of the convolution.
        node_h, node_w: nodes of one sample, [node_h, node_w, out_c]; 0: as the form says.
        pool_h, pool_w, pool_stride_h, pool_stride_w, pool_pad_top, pool_pad_left: MAX_POOL only.
        input_zero_point: of the input.
        low: outputs <= low are clamped by the activation; -129: none are.
        high: outputs >= high are clamped; 128: none are.
        unmasked: nodes at the clamp of the activation are perturbed and credited like the others.

    Raises:
        NativeError: ARGUMENT, the sizes do not fit each other.
    """

    in_c: int
    out_c: int
    form: NodeForm = NodeForm.PLAIN
    in_h: int = 1
    in_w: int = 1
    k_h: int = 1
    k_w: int = 1
    stride_h: int = 1
    stride_w: int = 1
    dilation_h: int = 1
    dilation_w: int = 1
    pad_top: int = 0
    pad_left: int = 0
    out_h: int = 1
    out_w: int = 1
    node_h: int = 0
    node_w: int = 0
    pool_h: int = 1
    pool_w: int = 1
    pool_stride_h: int = 1
    pool_stride_w: int = 1
    pool_pad_top: int = 0
    pool_pad_left: int = 0
    input_zero_point: int = 0
    low: int = -129
    high: int = 128
    unmasked: bool = False

    def __post_init__(self) -> None:
        if self.node_h == 0 and self.form != NodeForm.MAX_POOL:
            mean = self.form == NodeForm.MEAN
            object.__setattr__(self, "node_h", 1 if mean else self.out_h)
            object.__setattr__(self, "node_w", 1 if mean else self.out_w)
        _call("zo_node_layer_check", ctypes.byref(self._c))

    @classmethod
    def of(cls, nodes: ZoNodes, *, unmasked: bool = False) -> NodeLayer:
        """The layer that a ZO model's metadata describe."""
        return cls(form=NodeForm[nodes.form.upper()], unmasked=unmasked, **nodes.geometry)

    @cached_property
    def _c(self) -> _Layer:
        return _Layer(
            form=int(self.form),
            input_zero_point=self.input_zero_point,
            low=self.low,
            high=self.high,
            unmasked=int(self.unmasked),
            **{name: getattr(self, name) for name in _SIZES},
        )

    @cached_property
    def nodes(self) -> int:
        """Nodes of one sample."""
        return int(_library().zo_node_count(ctypes.byref(self._c)))

    @cached_property
    def input_bytes(self) -> int:
        """Bytes of one sample's input."""
        return int(_library().zo_node_input_bytes(ctypes.byref(self._c)))

    @cached_property
    def route_bytes(self) -> int:
        """Bytes of one sample's route; with the input, what is kept of a sample until the update."""
        return int(_library().zo_node_route_bytes(ctypes.byref(self._c)))

    @cached_property
    def scratch_values(self) -> int:
        """int32 values of scratch memory that an update needs (``zo_node_scratch_values``)."""
        return int(_library().zo_node_scratch_values(ctypes.byref(self._c)))

    @property
    def weights(self) -> int:
        """Weights of the filter."""
        return self.out_c * self.k_h * self.k_w * self.in_c


def _per_sample(name: str, array: NDArray[Any], dtype: type[np.generic], size: int) -> int:
    """Checks [samples, ...] of so many values each and returns the address."""
    address = native._array(name, array, dtype)
    if array.ndim < 1 or array.size != len(array) * size:
        raise ValueError(f"{name}: expected {size} values per sample, got shape {list(array.shape)}")
    return address


def route_nodes(layer: NodeLayer, outputs: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Where the credit of each node goes, from the layer's outputs before any pooling.

    Args:
        layer: the layer.
        outputs: int8 [samples, out_h, out_w, out_c] or any shape of as many values.

    Returns:
        uint8 [samples, route_bytes].
    """
    address = _per_sample("outputs", outputs, np.int8, layer.out_h * layer.out_w * layer.out_c)
    routes = np.empty((len(outputs), layer.route_bytes), np.uint8)
    _call("zo_route_nodes_s8", ctypes.byref(layer._c), len(outputs), address, routes.ctypes.data)
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
    address = _per_sample("nodes", nodes, np.int8, layer.nodes)
    perturbed = np.empty_like(nodes)
    _call(
        "zo_perturb_nodes_s8",
        ctypes.byref(layer._c),
        len(nodes),
        native._unsigned("first_sample", first_sample),
        address,
        native._unsigned("seed", seed),
        native._signed("k", k),
        perturbed.ctypes.data,
    )
    return perturbed


@dataclass
class NodeState:
    """What a layer's updates remember: the running mean of the squared gradient, mantissa 2^exponent."""

    mantissa: int = 0
    exponent: int = 0


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
    rule: NodeRule = NodeRule.RMS,
    gain: float = 0.0,
    bits: int = 0,
    rows: int = 0,
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
        limit: 127 minus the head-room.
        inputs: int8 [samples, ...], the layer's inputs.
        routes: uint8 [samples, route_bytes], or None where no output is clamped.
        rate: RMS or, standardized, standard deviation of the step over the updated channels, unit 2^-16 LSB;
            `NodeRule.FIXED`: factor of `gain`, unit 2^-16; `NodeRule.BITS`: not used.
        clip: largest step of a weight, unit 2^-16 LSB, 1..2^24; `NodeRule.BITS`: not used.
        seed: of the rounding (8-bit update).
        differences: int32 [queries, samples] L(y + mu z) - L(y - mu z), unit 2^-16; with
        seeds: uint32 [queries]; or
        errors: int16 [samples, ...] dL/dy in any one unit.
        rule: what the step is made of the gradient estimate.
        gain: `NodeRule.FIXED`: step, unit 2^-16 LSB, at a rate of 1 and for a gradient of 1, in the unit of
            the loss differences (or errors) times the input's LSB; above 0.
        bits: `NodeRule.BITS`: of the largest update, 1..7.
        rows: output channels that are updated, those with the largest errors; 0: all.

    Returns:
        How many weights were clipped.

    Raises:
        NativeError: ARGUMENT, QUERIES; see ``zo_node_update_s8``.
    """
    samples = len(inputs)
    evidence = _Evidence(samples=samples, inputs=_per_sample("inputs", inputs, np.int8, layer.input_bytes))
    if routes is not None:
        evidence.routes = _per_sample("routes", routes, np.uint8, layer.route_bytes)
        if len(routes) != samples:
            raise ValueError(f"routes: expected {samples} samples, got {len(routes)}")
    if errors is not None:
        evidence.errors = _per_sample("errors", errors, np.int16, layer.nodes)
        if len(errors) != samples:
            raise ValueError(f"errors: expected {samples} samples, got {len(errors)}")
    elif differences is not None and seeds is not None:
        evidence.differences = native._array("differences", differences, np.int32)
        evidence.seeds = native._array("seeds", seeds, np.uint32)
        if differences.shape != (len(seeds), samples) or not 1 <= len(seeds) <= MAX_QUERIES:
            raise ValueError(
                f"differences: expected [{len(seeds)}, {samples}] and 1..{MAX_QUERIES} seeds, "
                f"got {list(differences.shape)}"
            )
        evidence.queries = len(seeds)
    else:
        raise ValueError("expected differences and seeds, or errors")
    tensor = native._make_tensor(
        weights, fraction, multiplier, layer.out_c, weights.size // layer.out_c, stream, limit
    )
    step = _Step(
        rule=int(NodeRule(rule)),
        rate=native._unsigned("rate", rate),
        clip=native._unsigned("clip", clip),
        seed=native._unsigned("seed", seed),
        bits=native._unsigned("bits", bits),
        rows=native._unsigned("rows", rows),
        gain=_scale_of("gain", gain),
        mean_square=_Scale(state.mantissa, state.exponent),
    )
    c_layer = layer._c
    scratch = np.empty(layer.scratch_values, np.int32)
    saturated = _u32(0)
    _call(
        "zo_node_update_s8",
        ctypes.byref(c_layer),
        ctypes.byref(tensor),
        ctypes.byref(evidence),
        ctypes.byref(step),
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
    address = native._array("weights", weights, np.int8)
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
    _call(
        "zo_fc_backprop_s8",
        samples,
        inputs,
        outputs,
        address,
        None if scales is None else native._array("scales", scales, np.int16),
        from_outputs,
        None if routes is None else native._array("routes", routes, np.uint8),
        result.ctypes.data,
        scratch.ctypes.data,
    )
    return result
