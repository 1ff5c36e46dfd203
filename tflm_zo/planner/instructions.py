"""Estimates the number of instructions of inference and training on a core, from shapes.

The estimate of an operator is linear in the counts of `features`. Training adds instructions for each weight,
product or node. The coefficients, in instructions.json, were measured on emulated cores
(benchmarks/operator_instructions.py), on artificial shapes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, ZoMetadata, ZoNodes, ZoTail, read_metadata
from ..converters.constants import OP_PREFIX
from ..converters.kernels import kind_of, macs
from ..converters.model import Operator
from ..converters.model.schema import OPERATOR_NAMES
from ..converters.model.schema import BuiltinOperator as B
from ..converters.recurrent import is_own
from ..data import ModelError
from ..firmware.boundaries import Rerun
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
    kind = OPERATOR_NAMES.get(kind_of(op), op.code.name)
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


def clamped_shares(zo: Model) -> dict[str, float] | None:
    """Returns the share of each layer's outputs that are clamped on random inputs, by the layer's name, for a ZO model
    of batch size 1; None if no runtime accepts the model. Of a layer of an exact tail it is the share of errors of 0:
    a maximum pooling leaves an error to one output of each window. Layers that nothing clamps are not named.
    """
    metadata = read_metadata(zo)
    # Outputs that enter no segment are the model's.
    read = {
        metadata.trainable[n.trainable].layer: (n.output_segment, n.geometry["low"], n.geometry["high"], 1.0)
        for n in metadata.nodes
        if n.output_segment
    }
    if metadata.tail is not None:
        read |= _levels_in_tail(metadata, metadata.tail)
    if not read:
        return {}
    names = [name for name in ("litert", "tflite-runtime") if name in available()]
    try:
        runtime = load(zo, names[0])
    except (IndexError, ModelError):
        return None
    rng, found = np.random.default_rng(0), dict[str, list[float]]()
    inputs = len(metadata.original.inputs)
    for _ in range(_SAMPLES):
        runtime.set_inputs(*(_noise(rng, *runtime.input_details(i)[:2]) for i in range(inputs)))
        runtime.invoke()
        for layer, (segment, low, high, share) in read.items():
            values = runtime.boundary(segment)
            found.setdefault(layer, []).append(1 - share * float(((values > low) & (values < high)).mean()))
    return {layer: float(np.mean(shares)) for layer, shares in found.items()}


def _levels_in_tail(metadata: ZoMetadata, tail: ZoTail) -> dict[str, tuple[int, int, int, float]]:
    """Returns a segment, two levels and a share for each masked layer of an exact tail, by the layer's name. The
    layer's outputs enter the segment, or the largest of each window of a maximum pooling; the levels clamp them below
    and above. The share is that of the outputs to which the pooling leaves an error.
    """
    entered = {s.target: tail.layers[s.layer].input_segment for s in tail.steps if s.layer is not None}
    found = {}
    for nodes, field in zip(tail.layers, tail.of_layers, strict=True):
        own = {s.kind: s for s in tail.steps if s.target == field}
        mask, pool = own.get("mask"), own.get("max_pool")
        if mask is None or mask.segment is None:
            continue
        segment, share = mask.segment, 1.0
        if pool is not None and pool.source in entered:
            segment, share = entered[pool.source], tail.fields[pool.source].count / tail.fields[field].count
        layer = metadata.trainable[nodes.trainable].layer
        found[layer] = segment, mask.numbers["low"], mask.numbers["high"], share
    return found


def _zeros(metadata: ZoMetadata, nodes: ZoNodes, clamped: Mapping[str, float] | None) -> float:
    """Returns the share of a layer's errors that are 0."""
    if nodes.head:
        return 0.0
    return USUAL if clamped is None else clamped.get(metadata.trainable[nodes.trainable].layer, 0.0)


def _noise(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    if dtype.kind == "f":
        return rng.uniform(-1, 1, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


# An operator whose kernel was not measured takes as many instructions as the dearest that was, for each value
# of its output: TFLM's reference kernels of activations.
_UNKNOWN = {"call": 500.0, "outputs": 370.0}
# One that was measured elsewhere alone takes as many as there.
_MOST_KERNELS = "cortex-m4-cmsis_nn"
# Kernels that were not measured, and a similar one that was.
_LIKE_KERNEL = {"READ_VARIABLE": "RESHAPE", "ASSIGN_VARIABLE": "RESHAPE", "SPLIT": "SPLIT_V"}


# Kinds of steps of a backward program that were not measured, and a similar one that was.
_LIKE = {"slice": "mask", "place": "mask", "factors": "add", "levels": "add", "product": "add", "sum": "add"}

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
        if (op.code.name.startswith(OP_PREFIX) and not is_own(op)) or not op.outputs:
            return 0.0
        kernel, counts = features(op)
        kernel, operators = _LIKE_KERNEL.get(kernel, kernel), instruction_table()["operators"]
        for coefficients in (operators[f"{self.core}-{self.kernels}"], operators[_MOST_KERNELS]):
            own = coefficients.get(kernel, coefficients.get(kernel.split()[0]))
            if own is not None:
                break
        own = own or _UNKNOWN
        return float(sum(own.get(name, 0.0) * count for name, count in counts.items()))

    def inference(self, model: Model, first: int = 0) -> float:
        """Returns the instructions of a forward pass of one sample from a segment on."""
        return sum(self.operator(op) for graph in model.subgraphs[first:] for op in graph.operators)

    def reruns(self, model: Model, reruns: Iterable[Rerun]) -> float:
        """Returns the instructions of segments that run again for one sample."""
        return sum(self.inference(model, r.first) - self.inference(model, r.end) for r in reruns)

    def evaluation(self, model: Model, metadata: ZoMetadata) -> float:
        """Returns the instructions of a forward pass of one sample and of its loss."""
        invokes = len(model.subgraphs) * self._of("invoke")
        return self.inference(model) + self._loss(metadata) + invokes

    def step(
        self,
        model: Model,
        metadata: ZoMetadata,
        run: LoweredRun,
        clamped: Mapping[str, float] | None = None,
        sequence: int = 1,
    ) -> float:
        """Returns the instructions of a training step of a ZO model of batch size 1: all samples of a minibatch and the
        update. `clamped` has shares of clamped outputs by the layer's name; None: they are unknown. `sequence` is the
        number of steps of a sample, of a streaming model.
        """
        if run.tasks:
            return self._layerwise(model, metadata, run, clamped)
        return self._weights(model, metadata, run, sequence)

    def _of(self, name: str) -> float:
        return float(instruction_table()["training"][self.core][name])

    def _loss(self, metadata: ZoMetadata) -> float:
        loss = metadata.known_loss
        kind = "cross_entropy" if loss.of_classes else loss.kind
        return self._of("loss") + self._of(kind) * loss.elements

    def _weights(self, model: Model, metadata: ZoMetadata, run: LoweredRun, sequence: int) -> float:
        blocks, passes = int(run.settings.blocks), passes_of(run.settings)
        weights = sum(t.size for t in metadata.trainable) / (blocks or 1)
        starts = later_starts(metadata, bool(blocks), int(run.settings.parts))
        later = sum(self.inference(model, k) for k in starts) / len(starts)
        sample = self.inference(model) + (passes - 1) * later
        sample += passes * (self._loss(metadata) + self._of("invoke"))
        queries = passes / 2
        moves = self._of("perturb") * (queries + 1) + self._of("restore") * (queries - 1)
        moves += self._update(metadata.update_bits, queries)
        return run.minibatch * sequence * sample + weights * moves

    def _update(self, bits: int, queries: float) -> float:
        one, four = self._of(f"update_{bits}"), self._of(f"update_{bits}_of_4")
        return one + (four - one) / 3 * (queries - 1)

    def _layerwise(
        self, model: Model, metadata: ZoMetadata, run: LoweredRun, clamped: Mapping[str, float] | None
    ) -> float:
        tasks, minibatch, sides, segments = run.tasks, run.minibatch, sides_of(run.settings), len(model.subgraphs)
        sample = self.evaluation(model, metadata)
        updates = 0.0
        for task in tasks:
            query = self.inference(model, task.start_segment) + self._loss(metadata)
            query += (segments - task.start_segment) * self._of("invoke")
            query += task.dimensions * self._of("perturb" if task.nodes is None else "node")
            sample += sides * task.queries * query
            weights = sum(metadata.trainable[i].size for i in task.tensors)
            if task.nodes is None:
                updates += weights * self._update(metadata.update_bits, max(1, task.queries))
                continue
            zeros, bits = _zeros(metadata, task.nodes, clamped), metadata.update_bits
            outputs = task.nodes.geometry["out_h"] * task.nodes.geometry["out_w"] if task.is_exact else 1
            # With 8 bits, a channel without an error in any sample is not touched.
            touched = 1 - zeros ** (minibatch * outputs) if bits == 8 else 1.0
            formed = _formed(task, minibatch, zeros) if _is_dense(task.nodes) else 1.0
            updates += touched * weights * (self._of(f"node_update_{bits}") + formed * self._of("dense_form"))
            if task.keeps_inputs and _is_dense(task.nodes):
                updates += weights * (-(-minibatch // _TOGETHER) - 1) * self._of("dense_pass")
                product = (1 - zeros) * self._of("dense") + zeros * self._of("dense_clamped")
                sample += formed * task.nodes.row * task.nodes.geometry["out_c"] * product
            elif task.keeps_inputs:
                sample += (1 - zeros) * self._gradient(task.nodes) + task.nodes.count * self._of("error")
            sample += task.estimates * task.nodes.count * self._of("credit")
        for step in backward_steps(tasks, metadata):
            assert metadata.tail is not None  # it has the steps
            if step.layer is None:
                kind = _LIKE.get(step.kind, step.kind)
                sample += metadata.tail.fields[step.target].count * self._of(f"back_{kind}")
                continue
            nodes = metadata.tail.layers[step.layer]
            updates += nodes.row * nodes.geometry["out_c"] * self._of("back_norm")
            sample += self._back(nodes, _zeros(metadata, nodes, clamped))
        return minibatch * sample + updates

    def _back(self, nodes: ZoNodes, zeros: float) -> float:
        """Returns the instructions of errors that pass back through a layer: of each value of its input, of each error
        that one reads, and of the row of products of an error other than 0.
        """
        g = nodes.geometry
        read = _windows(nodes)[0] * g["out_c"]
        if _is_depthwise(nodes):
            return read * self._of("depthwise_back")
        row = self._of("back_row") + g["in_c"] * self._of("back")
        inputs = g["in_h"] * g["in_w"] * g["in_c"]
        return read * (self._of("back_error") + (1 - zeros) * row) + inputs * self._of("back_input")

    def _gradient(self, nodes: ZoNodes) -> float:
        """Returns the instructions of a convolution's gradient if no error is 0: of products, and of the rows of
        windows that reach beyond the image, which are summed one by one.
        """
        g, (taps, cut_rows) = nodes.geometry, _windows(nodes)
        if _is_depthwise(nodes):
            channel = taps * self._of("depthwise")
        else:
            channel = taps * g["in_c"] * self._of("convolution") + cut_rows * self._of("cut_row")
        return g["out_c"] * channel * credited(nodes) / (g["out_h"] * g["out_w"])


def _windows(nodes: ZoNodes) -> tuple[int, int]:
    """Returns the number of elements inside the image of all windows of a layer, and the number of their rows in
    windows that reach beyond the image.
    """
    g, inside = nodes.geometry, {}
    for side, pad in (("h", "pad_top"), ("w", "pad_left")):
        first = np.arange(g[f"out_{side}"])[:, None] * g[f"stride_{side}"] - g[pad]
        at = first + np.arange(g[f"k_{side}"]) * g[f"dilation_{side}"]
        inside[side] = (at >= 0) & (at < g[f"in_{side}"])
    whole = inside["h"].all(1).sum() * inside["w"].all(1).sum()
    rows = inside["h"].sum() * g["out_w"] - whole * g["k_h"]
    return int(inside["h"].sum() * inside["w"].sum()), int(rows)


def _is_depthwise(nodes: ZoNodes) -> bool:
    return bool(nodes.geometry.get("depthwise"))


def _is_dense(nodes: ZoNodes) -> bool:
    return nodes.geometry["in_h"] * nodes.geometry["in_w"] == 1 and not _is_depthwise(nodes)


def _formed(task: LoweredTask, samples: int, zeros: float) -> float:
    """Returns the share of a dense layer's channels with a computed gradient: a sample has few errors."""
    assert task.nodes is not None
    different = 2.0 ** min(task.estimates or 31, 31)
    return 1.0 if samples > 1 else min(1 - zeros, different / task.nodes.geometry["out_c"])
