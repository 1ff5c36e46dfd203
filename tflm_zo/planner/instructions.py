"""Estimates the number of instructions of inference and training on a core, from shapes.

The estimate of an operator is linear in the counts of `features`. Training adds instructions for each weight,
product or node. The coefficients, in instructions.json, were measured on emulated cores
(benchmarks/operator_instructions.py), on artificial shapes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, ZoMetadata, ZoNodes, read_metadata
from ..converters.constants import OP_PREFIX
from ..converters.kernels import macs
from ..converters.model import Operator
from ..converters.model.schema import BuiltinOperator as B
from ..data import ModelError
from ..runtime import available, load
from ..training.costs import later_starts, passes_of, sides_of
from ..training.lowering import LoweredRun
from ..training.plan import LoweredTask, backward_steps, credited

#: Counts of an operator. `blocks` are groups of up to 16 products that are summed up together, as many as a vector
#: register of MVE holds; `positions` those of an image; `patches` the values that a convolution copies into rows;
#: `rows` the pieces in which it copies them; `odd` the weights where one position is left when two at a time are
#: computed; `variable` the variable weights, whose sums kernels cannot keep.
FEATURES = ("call", "macs", "blocks", "outputs", "positions", "patches", "rows", "inputs", "weights", "odd", "variable")

_BLOCK = 16


def features(op: Operator) -> tuple[str, dict[str, int]]:
    """Returns the kernel's name of an int8 operator, and the counts that determine its instructions."""
    kind = op.code.name
    first, output = op.input(0), op.outputs[0]
    positions = output.size // output.shape[-1] if output.shape else 1
    counts = {"call": 1, "outputs": output.size, "inputs": 0 if first is None else first.size, "positions": positions}
    filters = op.input(1)
    if op.builtin not in (B.CONV_2D, B.DEPTHWISE_CONV_2D, B.FULLY_CONNECTED) or filters is None:
        return kind, counts
    counts["macs"] = macs(op)
    counts["weights"] = filters.size
    counts["odd"] = filters.size if positions % 2 else 0
    counts["variable"] = filters.size if filters.is_variable else 0
    if op.builtin == B.FULLY_CONNECTED:
        counts["blocks"] = output.size * -(-filters.shape[-1] // _BLOCK)
        del counts["weights"], counts["odd"]  # they are the multiplied ones
        return kind, counts
    height, width = filters.shape[1:3]
    if op.builtin == B.DEPTHWISE_CONV_2D:
        counts["blocks"] = positions * height * width * -(-output.shape[-1] // _BLOCK)
        return (f"{kind} 3x3" if height == width == 3 else kind), counts
    row = math.prod(filters.shape[1:])
    counts["blocks"] = output.size * -(-row // _BLOCK)
    if height == width == 1:
        return f"{kind} 1x1", counts
    counts["patches"], counts["rows"] = positions * row, positions * height
    return kind, counts


#: Share of a layer that was not looked at.
USUAL = 0.5

_SAMPLES = 4


def clamped_shares(zo: Model, known: Mapping[str, float] | None = None) -> dict[str, float]:
    """Returns the share of each layer's outputs that are clamped on random inputs, by the layer's name, for a ZO model
    of batch size 1; empty if no runtime accepts the model.

    `known` has shares from other ZO models of the same plain model; a model without other layers is not run.
    """
    metadata, known = read_metadata(zo), known or {}
    every = [*metadata.nodes, *(() if metadata.tail is None else metadata.tail.layers)]
    # Outputs that enter no segment are the model's, which nothing clamps.
    entering = {metadata.trainable[n.trainable].layer: n.output_segment for n in every if n.output_segment}
    entering = {layer: segment for layer, segment in entering.items() if layer not in known}
    if not entering:
        return dict(known)
    names = [name for name in ("litert", "tflite-runtime") if name in available()]
    try:
        runtime = load(zo, names[0])
    except (IndexError, ModelError):
        return dict(known)
    rng, found = np.random.default_rng(0), dict[str, list[float]]()
    inputs = len(metadata.original.inputs)
    for _ in range(_SAMPLES):
        runtime.set_inputs(*(_noise(rng, *runtime.input_details(i)[:2]) for i in range(inputs)))
        runtime.invoke()
        for layer, segment in entering.items():
            found.setdefault(layer, []).append(float((runtime.boundary(segment) == -128).mean()))
    return {**known, **{layer: float(np.mean(shares)) for layer, shares in found.items()}}


def _noise(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    if dtype.kind == "f":
        return rng.uniform(-1, 1, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


#: Kernels of TFLM whose instructions are known: the core's name, and "cmsis_nn" or "reference".
KERNELS: tuple[str, ...]

# An operator whose kernel was not measured takes as many instructions as the dearest that was, for each value
# of its output: TFLM's reference kernels of activations.
_UNKNOWN = {"call": 500.0, "outputs": 370.0}


# Samples of which gradients of dense layers are formed at once.
_TOGETHER = 16


@cache
def instruction_table() -> Mapping[str, Any]:
    """Returns the coefficients of operators and of training, by core."""
    return json.loads((files(__package__) / "instructions.json").read_text())  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Instructions:
    """Estimates the instructions that TFLM's kernels need on a core."""

    core: str  # measured core, like "cortex-m4"
    kernels: str  # "cmsis_nn" or "reference"

    def operator(self, op: Operator) -> float:
        """Returns the instructions of an operator for one sample; 0 for operators of training."""
        if op.code.name.startswith(OP_PREFIX):
            return 0.0
        kernel, counts = features(op)
        coefficients = instruction_table()["operators"][f"{self.core}-{self.kernels}"]
        own = coefficients.get(kernel, coefficients.get(kernel.split()[0], _UNKNOWN))
        return float(sum(own.get(name, 0.0) * count for name, count in counts.items()))

    def inference(self, model: Model, first: int = 0) -> float:
        """Returns the instructions of a forward pass of one sample from a segment on."""
        return sum(self.operator(op) for graph in model.subgraphs[first:] for op in graph.operators)

    def evaluation(self, model: Model, metadata: ZoMetadata) -> float:
        """Returns the instructions of a forward pass of one sample and of its loss."""
        invokes = len(model.subgraphs) * self._of("invoke")
        return self.inference(model) + self._loss(metadata) + invokes

    def step(
        self, model: Model, metadata: ZoMetadata, run: LoweredRun, clamped: Mapping[str, float] = MappingProxyType({})
    ) -> float:
        """Returns the instructions of a training step of a ZO model of batch size 1: all samples of a minibatch and the
        update.

        `clamped` has shares of clamped outputs by the layer's name.
        """
        if run.tasks:
            return self._layerwise(model, metadata, run, clamped)
        return self._weights(model, metadata, run)

    def _of(self, name: str) -> float:
        return float(instruction_table()["training"][self.core][name])

    def _loss(self, metadata: ZoMetadata) -> float:
        loss = metadata.known_loss
        kind = "cross_entropy" if loss.of_classes else loss.kind
        return self._of("loss") + self._of(kind) * loss.elements

    def _weights(self, model: Model, metadata: ZoMetadata, run: LoweredRun) -> float:
        blocks, passes = int(run.settings.blocks), passes_of(run.settings)
        weights = sum(t.trained for t in metadata.trainable) / (blocks or 1)
        starts = later_starts(metadata, bool(blocks), int(run.settings.parts))
        later = sum(self.inference(model, k) for k in starts) / len(starts)
        sample = self.inference(model) + (passes - 1) * later
        sample += passes * (self._loss(metadata) + self._of("invoke"))
        queries = passes / 2
        moves = self._of("perturb") * (queries + 1) + self._of("restore") * (queries - 1)
        moves += self._update(metadata.update_bits, queries)
        return run.minibatch * sample + weights * moves

    def _update(self, bits: int, queries: float) -> float:
        one, four = self._of(f"update_{bits}"), self._of(f"update_{bits}_of_4")
        return one + (four - one) / 3 * (queries - 1)

    def _layerwise(self, model: Model, metadata: ZoMetadata, run: LoweredRun, clamped: Mapping[str, float]) -> float:
        tasks, minibatch, sides, segments = run.tasks, run.minibatch, sides_of(run.settings), len(model.subgraphs)
        sample = self.evaluation(model, metadata)
        updates = 0.0
        for task in tasks:
            query = self.inference(model, task.start_segment) + self._loss(metadata)
            query += (segments - task.start_segment) * self._of("invoke")
            query += task.dimensions * self._of("perturb" if task.nodes is None else "node")
            sample += sides * task.queries * query
            sizes = [metadata.trainable[i].trained for i in task.tensors]
            if task.nodes is None:
                updates += sum(sizes) * self._update(metadata.update_bits, max(1, task.queries))
                continue
            # A channel without an error in any sample is not touched.
            layer = metadata.trainable[task.tensors[0]].layer
            zeros = 0.0 if task.nodes.head else clamped.get(layer, USUAL)
            touched = 1 - zeros**minibatch
            weights = touched * sum(sizes)
            updates += weights * self._of(f"node_update_{metadata.update_bits}")
            if task.keeps_inputs:
                products = (1 - zeros) * self._product(metadata, task.nodes)
                if _is_dense(metadata, task.nodes):
                    formed = _formed(task, minibatch)
                    updates += formed * weights * self._of("dense_form")
                    updates += sum(sizes) * (-(-minibatch // _TOGETHER) - 1) * self._of("dense_pass")
                    products = formed * (products + zeros * self._of("dense_clamped"))
                sample += _products(task.nodes) * products
            sample += max(1, task.estimates) * task.nodes.count * self._of("credit")
            if task.following is not None:
                following = tasks[task.following].nodes
                assert following is not None  # it is exact, too
                sample += _products(following) * self._of("dense_back")
        for step in backward_steps(tasks, metadata):
            if step.layer is not None and metadata.tail is not None:
                own = metadata.tail.layers[step.layer]
                kind = "depthwise_back" if _is_depthwise(metadata, own) else "convolution_back"
                sample += _products(own) * self._of(kind)
        return minibatch * sample + updates

    def _product(self, metadata: ZoMetadata, nodes: ZoNodes) -> float:
        """Returns the instructions of a product. The products of a window's row are summed in one loop."""
        g = nodes.geometry
        if _is_depthwise(metadata, nodes):
            return self._of("depthwise")
        if _is_dense(metadata, nodes):
            return self._of("dense")
        if g["k_h"] * g["k_w"] == 1:
            return self._of("pointwise")
        return self._of("convolution") + self._of("convolution_row") / (g["k_w"] * g["in_c"])


def _is_depthwise(metadata: ZoMetadata, nodes: ZoNodes) -> bool:
    return metadata.trainable[nodes.trainable].operator == "DEPTHWISE_CONV_2D"


def _is_dense(metadata: ZoMetadata, nodes: ZoNodes) -> bool:
    g = nodes.geometry
    return g["in_h"] * g["in_w"] == 1 and not _is_depthwise(metadata, nodes)


def _formed(task: LoweredTask, samples: int) -> float:
    """Returns the share of a dense layer's channels with a computed gradient: a sample has few errors."""
    assert task.nodes is not None
    different = 2.0 ** min(task.estimates, 31) if samples == 1 and task.estimates else math.inf
    return min(1.0, different / task.nodes.geometry["out_c"])


def _products(nodes: ZoNodes) -> int:
    """Returns the number of products of errors and inputs in a sample's gradient of a layer."""
    return int(credited(nodes) * nodes.geometry["out_c"] * nodes.row)


KERNELS = tuple(instruction_table()["operators"])
