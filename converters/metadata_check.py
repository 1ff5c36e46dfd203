# SPDX-License-Identifier: Apache-2.0
"""Whether a ZO model is what its metadata say: numbers that lead into the model lead to what is meant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from . import constants
from .errors import ConversionError
from .model import Model, Subgraph, Tensor
from .model.schema import TensorType

if TYPE_CHECKING:
    from .metadata import ZoMetadata, ZoNodes, ZoPort, ZoTrainable

_INPUTS: Final = ("boundary", "input", "label", "command")
_OUTPUTS: Final = ("output", "boundary", "loss", "status")
_FORMS: Final = ("plain", "max_pool", "mean")

#: Fields of ``zo_node_layer`` but the form: those of every layer, and those of a pooled one.
_SIZES: Final = tuple(
    f"{name}_{side}" for name in ("in", "k", "stride", "dilation", "out", "node") for side in "hw"
)
_GEOMETRY: Final = {*_SIZES, "in_c", "out_c", "pad_top", "pad_left", "input_zero_point", "low", "high"}
_POOLING: Final = {"pool_h", "pool_w", "pool_stride_h", "pool_stride_w", "pool_pad_top", "pool_pad_left"}


def check_metadata(model: Model, metadata: ZoMetadata) -> None:
    """Holds the metadata against the model's subgraphs and tensors.

    Args:
        model: a ZO model.
        metadata: its own, every field of its type.

    Raises:
        ConversionError: they do not fit each other.
    """
    try:
        _Check(model, metadata).run()
    except _DiffersError as error:
        raise ConversionError(
            f"metadata «{constants.METADATA_NAME}» do not fit the model: {error}; "
            "inject the original model again"
        ) from None


class _DiffersError(Exception):
    """What does not fit, in a few words."""


def _expect(condition: bool, why: str) -> None:
    if not condition:
        raise _DiffersError(why)


class _Check:
    def __init__(self, model: Model, metadata: ZoMetadata) -> None:
        self.graphs, self.metadata = model.subgraphs, metadata
        self.last = len(metadata.segments) - 1

    def run(self) -> None:
        m = self.metadata
        _expect(m.batch > 0, f"their batch is {m.batch}")
        _expect(
            0 <= self.last == len(self.graphs) - 1,
            f"they describe {len(m.segments)} segments, the model has {len(self.graphs)} subgraphs",
        )
        for k, (segment, graph) in enumerate(zip(m.segments, self.graphs, strict=True)):
            self._ports(k, "inputs", segment.inputs, graph.inputs)
            self._ports(k, "outputs", segment.outputs, graph.outputs)
        inputs = {p.index for s in m.segments for p in s.inputs if p.role == "input"}
        outputs = {p.index for s in m.segments for p in s.outputs if p.role == "output"}
        for side, found, names in (
            ("input", inputs, m.original.inputs),
            ("output", outputs, m.original.outputs),
        ):
            _expect(found == set(range(len(names))), f"an original {side} is missing, or has no name")
        for k in range(self.last):
            one, other = self._boundary(k, "outputs"), self._boundary(k + 1, "inputs")
            same = (one.shape, one.type) == (other.shape, other.type)
            _expect(same, f"«{other.name}» does not leave segment {k} as it enters the next")
        for number, trainable in enumerate(m.trainable):
            self._trainable(number, trainable)
        _expect(len({t.name for t in m.trainable}) == len(m.trainable), "two filters have one name")
        for nodes in m.nodes:
            self._nodes(nodes)

    def _ports(self, k: int, side: str, ports: Sequence[ZoPort], tensors: Sequence[Tensor]) -> None:
        m, where = self.metadata, f"{side} of segment {k}"
        known = _INPUTS if side == "inputs" else _OUTPUTS
        _expect(len(ports) == len(tensors), f"they describe {len(ports)} {where}, it has {len(tensors)}")
        roles = [p.role for p in ports]
        _expect(set(roles) <= set(known), f"{where} have other roles than {', '.join(known)}")
        for role in set(known) - {"input", "output"}:
            _expect(roles.count(role) <= 1, f"{where} have the role {role} twice")
        _expect(("boundary" in roles) == (k != (0 if side == "inputs" else self.last)), f"{where}: boundary")
        role = "label" if side == "inputs" else "loss"
        _expect((role in roles) == (k == self.last and m.loss is not None), f"{where}: {role}")
        for port, tensor in zip(ports, tensors, strict=True):
            if port.role == "command":
                fits = tensor.type == TensorType.INT32 and tensor.shape == (m.command_words,)
                _expect(fits, f"the command of segment {k} has not {m.command_words} words")
            elif port.role == "status":
                fits = tensor.type == TensorType.INT32 and tensor.shape == (constants.STATUS_WORDS,)
                _expect(fits, f"the status of segment {k} has not {constants.STATUS_WORDS} words")
            elif port.role in ("label", "loss", "boundary", "input"):
                # A boundary may have rows for every position of a sample.
                rows = tensor.shape[0] if tensor.shape else 0
                fits = rows % m.batch == 0 if port.role == "boundary" else rows == m.batch
                _expect(rows > 0 and fits, f"«{tensor.name}» is not of batch {m.batch}")
        if "label" in roles:
            self._label(tensors[roles.index("label")])

    def _label(self, tensor: Tensor) -> None:
        loss = self.metadata.loss
        assert loss is not None
        _expect(0 < loss.scale < math.inf and loss.elements > 0, "the loss has no scale or no elements")
        values = 1 if loss.of_classes else loss.elements
        expected = TensorType.INT8 if loss.kind == "mse" else TensorType.INT32
        fits = tensor.type == expected and tensor.size == self.metadata.batch * values
        _expect(fits, f"labels of loss {loss.kind} are {self.metadata.batch} x {values}")

    def _boundary(self, k: int, side: str) -> Tensor:
        ports: Sequence[ZoPort] = getattr(self.metadata.segments[k], side)
        tensors: Sequence[Tensor] = getattr(self.graphs[k], side)
        return next(t for p, t in zip(ports, tensors, strict=True) if p.role == "boundary")

    def _trainable(self, number: int, t: ZoTrainable) -> None:
        _expect(t.stream == number, f"«{t.name}» has stream {t.stream}, not {number}")
        _expect(0 <= t.segment <= self.last, f"«{t.name}» is in segment {t.segment}, which there is not")
        _expect(0 <= t.block < len(self.metadata.blocks), f"«{t.name}» is in a block that there is not")
        graph: Subgraph = self.graphs[t.segment]
        found = [x for x in graph.all_tensors() if x.name == t.name and x.is_variable]
        _expect(len(found) == 1, f"segment {t.segment} has no filter «{t.name}»")
        fits = found[0].type == TensorType.INT8 and found[0].shape == t.shape and found[0].size == t.size
        _expect(fits, f"«{t.name}» is not int8 {list(t.shape)} of {t.size} weights")
        period = t.channels * t.inner
        _expect(t.channels > 0 and t.inner > 0 and t.size % period == 0, f"channels of «{t.name}»")
        _expect(0 <= t.trained <= t.size, f"«{t.name}» has not {t.trained} weights to train")

    def _nodes(self, n: ZoNodes) -> None:
        m, g = self.metadata, n.geometry
        _expect(0 <= n.trainable < len(m.trainable), "nodes belong to no filter")
        t = m.trainable[n.trainable]
        _expect(n.form in _FORMS, f"nodes of «{t.layer}» have a form that is none of {', '.join(_FORMS)}")
        # A RESHAPE before the layer may lie in a segment of its own.
        order = 0 <= n.input_segment <= t.segment < n.output_segment <= n.node_segment <= self.last
        _expect(order, f"nodes of «{t.layer}» are in the wrong segments")
        fields = _GEOMETRY | _POOLING if n.form == "max_pool" else _GEOMETRY
        _expect(g.keys() == fields, f"the geometry of «{t.layer}» has not the fields of a {n.form} layer")
        _expect(all(g[name] >= 1 for name in (*_SIZES, "in_c", "out_c")), f"«{t.layer}» has a size of 0")
        sizes = [
            (t.size, g["out_c"] * g["k_h"] * g["k_w"] * g["in_c"]),
            (t.channels, g["out_c"]),
            (self._sample(n.output_segment), g["out_h"] * g["out_w"] * g["out_c"]),
            (self._sample(n.node_segment), n.count),
            (n.count, g["node_h"] * g["node_w"] * g["out_c"]),
        ]
        if n.input_segment:
            sizes.append((self._sample(n.input_segment), g["in_h"] * g["in_w"] * g["in_c"]))
        _expect(all(a == b for a, b in sizes), f"the geometry of «{t.layer}» is not that of its tensors")

    def _sample(self, segment: int) -> int:
        """Elements of a sample of what enters a segment."""
        return self._boundary(segment, "inputs").size // self.metadata.batch
