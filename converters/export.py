"""The export of a ZO model with its weights as a plain int8 model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .channel_statistics import STATISTICS_NAME
from .constants import METADATA_NAME, OP_PREFIX, OUTPUTS, segment_key
from .errors import InjectError, checked_integer
from .initial_weights import WeightArray, checked_weights, initial_weights
from .metadata import ZoMetadata, read_metadata
from .model import Model, Operator, Signature, Subgraph, Tensor, load_model
from .passes.batch import rewrite_batch
from .passes.requantize import re_range as adapt_range
from .recurrent import use_builtin
from .settings import MOST_SAMPLES
from .states import close_states, disconnect_states, is_state

# Names of a joined model: a cut model does not keep the names of the original subgraph and signatures.
_SUBGRAPH: Final = "main"
_SIGNATURE: Final = "serving_default"
# Roles of ports that are not part of the ZO machinery.
_KEPT: Final = ("input", "output", "boundary", "skip")


def export_model(
    zo_model: Model | str | os.PathLike[str] | bytes,
    weights: Mapping[str, WeightArray] | None = None,
    *,
    batch: int | None = None,
    fractions: Mapping[str, npt.NDArray[np.int8]] | None = None,
    re_range: bool = False,
) -> Model:
    """Returns a plain int8 model that computes the same as the ZO model with these weights, bit for bit.

    Filters and biases are constants again, nothing of the ZO machinery is left, and the segments of a cut model are
    joined into one subgraph.

    With ``re_range`` every trained filter gets new scales from the range of its weights, per channel where it has them,
    and so uses all of -127..127 again. The fractions of the 16-bit update are rounded on that grid and not on the old
    one. The model then computes the same but for the rounding of weights and biases.

    Args:
        zo_model: the model, its path, or its bytes; it is not changed.
        weights: int8 arrays of filters and int32 arrays of biases by tensor name, e.g. ``Runtime.read_weights()``;
            other tensors keep their initial values. None: all do.
        batch: samples per invoke; None: the ZO model's export_batch, or else its own batch.
        fractions: int8 arrays by filter tensor name, unit 2^-8 LSB, e.g. ``Runtime.read_fractions()``, which
            ``re_range`` adds to the weights before it rounds; filters that are not named have none.
        re_range: gives trained filters new scales. Channels that are all zero and channels where a sum might exceed
            int32 keep their scales.

    Returns:
        A model with the original inputs, outputs and signatures. Where the ZO model is cut, it has one signature,
        ``serving_default``, with the names of the original inputs and outputs.

    Raises:
        ConversionError: the model is no ZO model or its graph does not fit its metadata; a name, shape or type of
            ``weights`` or ``fractions`` is wrong, or there are fractions without ``re_range``; or the batch size cannot
            be changed.
        OSError: the file cannot be read.

    Example:
        >>> export_model(zo, runtime.read_weights(), batch=1).save("trained.tflite")  # doctest: +SKIP
    """
    model = zo_model.copy() if isinstance(zo_model, Model) else load_model(zo_model)
    metadata = read_metadata(model)
    initial = initial_weights(model)
    values = dict(initial)
    values.update(checked_weights(metadata, weights or {}, "weights"))
    rest = checked_weights(metadata, fractions or {}, "fractions")
    if rest and not re_range:
        raise InjectError("fractions", "be given only with new ranges, because an int8 model cannot hold them")
    batch = metadata.original.batch if batch is None else checked_integer("batch", batch, 1, MOST_SAMPLES)
    before = model.referenced_buffers()

    for op in (op for graph in model.subgraphs for op in graph.operators):
        use_builtin(op)
    # Biases first: new scales of a filter change the bias with it.
    for t in sorted(metadata.trainable, key=lambda t: not t.bias):
        graph = model.subgraphs[t.segment]
        tensor = _make_constant(graph, t.name, values[t.name])
        if re_range and not t.bias:
            in_256ths = values[t.name].astype(np.int32) * 256
            adapt_range(graph, tensor, in_256ths + rest[t.name] if t.name in rest else in_256ths)
    joined = _Joined(metadata)
    for k, graph in enumerate(model.subgraphs):
        joined.add(k, graph)
    _replace_graphs(model, metadata, joined)
    if batch is not None and batch != metadata.batch:
        rewrite_batch(model.subgraphs[0], batch, metadata.batch)
    close_states(model)

    # Statistics are of the layers as they were: a trained layer's own mean and deviation are other ones.
    stale = {METADATA_NAME}
    if any(not np.array_equal(values[name], initial[name]) for name in initial):
        stale.add(STATISTICS_NAME)
    model.metadata = [m for m in model.metadata or () if m.name not in stale] or None
    model.operator_codes = [c for c in model.operator_codes if not c.name.startswith(OP_PREFIX)]
    # Buffers in use are numbered by their first use, so that the file is the same whether the ZO model came
    # from memory or from a file. Buffers that the original did not use are kept.
    model.buffers = [b for i, b in enumerate(model.buffers) if i == 0 or b not in before]
    return model


def _is_added(op: Operator) -> bool:
    """Returns whether `inject` has added an operator."""
    return op.code.name.startswith(OP_PREFIX) or op.outputs[0].name.startswith(OUTPUTS)


def _make_constant(graph: Subgraph, name: str, values: WeightArray) -> Tensor:
    (found,) = (t for t in graph.all_tensors() if t.name == name and t.is_variable)
    found.is_variable = False
    found.set_data(values)
    return found


class _Joined:
    """The one subgraph of the plain model, made from the segments in execution order. A tensor of a segment stands for
    one of an earlier segment where both are the same original input, constant or boundary.
    """

    def __init__(self, metadata: ZoMetadata) -> None:
        self.metadata = metadata
        self.graph = Subgraph(_SUBGRAPH)
        self.inputs: dict[int, Tensor] = {}
        self.outputs: dict[int, Tensor] = {}
        self.boundaries: list[Tensor] = []
        self.constants: dict[Any, Tensor] = {}

    def add(self, number: int, graph: Subgraph) -> None:
        """Appends a segment without its ZO operators and the tensors that only they mention."""
        segment = self.metadata.segments[number]
        ports = [*zip(segment.inputs, graph.inputs, strict=True), *zip(segment.outputs, graph.outputs, strict=True)]
        disconnect_states(graph)
        removed = [op for op in graph.operators if _is_added(op) and not is_state(op)]
        kept = [op for op in graph.operators if op not in removed]
        stays = {t for op in kept for t in [*op.inputs, *op.outputs, *(op.intermediates or ())]}
        stays |= {t for port, t in ports if port.role in _KEPT and not t.name.startswith(OUTPUTS)}
        leaves = {t for op in removed for t in [*op.inputs, *op.outputs]}
        leaves |= {t for port, t in ports if t not in stays}

        own: dict[Tensor, Tensor] = {}
        for port, tensor in zip(segment.inputs, graph.inputs, strict=True):
            if port.role == "boundary":
                own[tensor] = self.boundaries[-1]  # only the first segment has none, as read_metadata knows
            elif port.role == "skip" and port.index is not None:
                own[tensor] = self.boundaries[port.index - 1]
            elif port.role == "input" and port.index is not None:
                own[tensor] = self.inputs.setdefault(port.index, tensor)
        own = {tensor: t for tensor, t in own.items() if not t.name.startswith(OUTPUTS)}
        for tensor in graph.all_tensors():
            if tensor in own or (tensor in leaves and tensor not in stays):
                continue
            own[tensor] = tensor
            if tensor.is_constant and number:
                own[tensor] = self.constants.get(self._key(tensor), tensor)
        known = set(self.graph.tensors)
        self.graph.tensors += [t for t in dict.fromkeys(own.values()) if t not in known]
        for tensor in self.graph.tensors:
            if tensor.is_constant:
                self.constants.setdefault(self._key(tensor), tensor)
        self.graph.operators += [op.copy(own) for op in kept]
        for port, tensor in zip(segment.outputs, graph.outputs, strict=True):
            if port.role == "boundary":
                self.boundaries.append(own.get(tensor, tensor))  # nothing that stays reads a tensor that leaves
            elif port.role == "output" and port.index is not None:
                self.outputs[port.index] = own[tensor]

    @staticmethod
    def _key(tensor: Tensor) -> Any:
        return tensor.name, tensor.buffer, tensor.shape, tensor.type


def _replace_graphs(model: Model, metadata: ZoMetadata, joined: _Joined) -> None:
    original = metadata.original
    graph = joined.graph
    graph.inputs = [joined.inputs[i] for i in range(len(original.inputs))]
    graph.outputs = [joined.outputs[i] for i in range(len(original.outputs))]
    if len(metadata.segments) > 1:
        inputs = list(zip(original.inputs, graph.inputs, strict=True))
        outputs = list(zip(original.outputs, graph.outputs, strict=True))
        model.signatures = [Signature(_SIGNATURE, graph, inputs, outputs)]
    else:
        # The subgraph stays the object it was: the original signatures belong to it.
        whole = model.subgraphs[0]
        whole.tensors, whole.operators = graph.tensors, graph.operators
        whole.inputs, whole.outputs = graph.inputs, graph.outputs
        graph = whole
        # One that names inputs or outputs of the ZO machinery is none of the original's.
        there = set(whole.all_tensors())
        kept = [
            s
            for s in model.signatures or ()
            if s.key != segment_key(0) and all(t in there for _, t in [*s.inputs, *s.outputs])
        ]
        model.signatures = kept or None
    model.subgraphs = [graph]
