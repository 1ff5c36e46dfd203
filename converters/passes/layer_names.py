"""Makes short names for layers from the names that converters give to tensors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from ..kernels import FILTER_OPERATORS, filters_of, kind_of
from ..model import Model, Operator, Tensor
from ..model.schema import BuiltinOperator

# Names of tensors that are longer are shown by their layer.
_LONGEST: Final = 40

# Names that converters give to constants that lost theirs.
_ANONYMOUS: Final = re.compile(r"^((arith|tfl|tf|std|mhlo)\.\w+|\w*const(ant)?)[_\d]*$", re.IGNORECASE)

# Suffixes that operators append to the name of their layer. The first one found selects the layer's name
# among fused names (`conv/Relu;bn/FusedBatchNorm;conv/Conv2D`).
_SUFFIXES: Final = {
    "CONV_2D": ("Conv2D", "convolution", "separable_conv2d"),
    "DEPTHWISE_CONV_2D": ("depthwise", "DepthwiseConv2dNative", "convolution"),
    "FULLY_CONNECTED": ("MatMul", "Tensordot"),
}

# Names of the filters of an operator, and a name for it.
_GATES: Final = ("input_gate", "forget_gate", "cell_gate", "output_gate")
_PARTS: Final = {
    BuiltinOperator.SVDF: ("svdf", ("features", "time")),
    BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_LSTM: ("lstm", (*_GATES, *(f"recurrent_{gate}" for gate in _GATES))),
}
# Names of what converters call.
_CALL: Final = re.compile(r"^(Stateful)?PartitionedCall|^\W*$")

# Path components that say nothing about the layer.
_NOISE: Final = re.compile(
    r"^(Conv2D|convolution|MatMul|Tensordot|filter|kernel|weights?|BiasAdd|Add|ReadVariableOp|resource|"
    r"Relu6?|Reshape|FusedBatchNormV\d)[_\d]*$"
)


def _path(op: Operator) -> list[str]:
    """Returns the components of the layer's name, outermost first; there is at least one."""
    weights = op.inputs[1]
    assert weights is not None
    name = weights.name if weights.name and not _ANONYMOUS.match(weights.name) else op.outputs[0].name
    parts = [p for p in name.split(";") if p]
    for suffix in _SUFFIXES.get(op.code.name, ()):
        named = [p for p in parts if re.search(rf"/{suffix}\d*$", p)]
        if named:
            # `depthwise` is a layer's own name as well; only as an appendix to one is it dropped.
            path = named[0].split("/")[:-1]
            if len(path) > 1 and path[-1] == "separable_conv2d":  # a part of a layer
                return [*path[:-2], f"{path[-2]}/depthwise"]
            if path and (suffix != "depthwise" or "depthwise" in path[-1] or "dw" in path[-1]):
                return path
            parts = named
            break
    path = [c for c in (parts[0] if parts else "").split("/") if c]
    while len(path) > 1 and _NOISE.match(path[-1]):
        path.pop()
    return path or [op.code.name.lower()]


def shown_name(tensor: str) -> str:
    """Returns a short name of a tensor: the layer's name if the tensor's name has more than 40 characters or was joined
    by TensorFlow from the names of fused operators (`model/relu/Relu;model/bn/FusedBatchNormV3;model/conv/BiasAdd;…`).
    """
    parts = [p for p in tensor.split(";") if p.strip("/")]
    if not parts or (len(parts) == 1 and len(tensor) <= _LONGEST):
        return tensor
    # A bias is not shared, so its name is this layer's. Filters of equal quantization may be shared.
    suffixes = ("BiasAdd", *(suffix for kind in _SUFFIXES.values() for suffix in kind))
    named = (p for suffix in suffixes for p in parts if re.search(rf"/{suffix}\d*$", p))
    path = [c for c in next(named, parts[0]).split("/") if c]
    name = path[-2] if len(path) > 1 else path[0]
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def layers_of(operators: Iterable[Operator]) -> dict[Operator, str]:
    """Returns a short name of the layer of each operator with a filter, given all operators of a model: as many of the
    last parts of its path as tell it from the others, followed by a number where all parts are alike. Operators that
    read the same filter are one layer.
    """
    operators = list(operators)
    names = filter_names(operators)
    return {op: names[w] for op in operators if op.builtin in FILTER_OPERATORS and (w := op.input(1)) is not None}


def filter_names(operators: Iterable[Operator]) -> dict[Tensor, str]:
    """Returns the names of `layers_of` by filters, in execution order. Those of SVDF and LSTM end in the filter's part,
    as ``lstm/input_gate``.
    """
    paths: dict[Tensor, list[str]] = {}
    for op in operators:
        for weights in filters_of(op):
            paths.setdefault(weights, _path(op) if op.builtin in FILTER_OPERATORS else _part(op, weights))
    return dict(zip(paths, _told_apart(list(paths.values())), strict=True))


def _part(op: Operator, weights: Tensor) -> list[str]:
    names = op.outputs[0].name.partition(";")[0].split("/")
    path = [p for p in names if not _CALL.match(p) and not _ANONYMOUS.match(p)]
    kind, parts = _PARTS[kind_of(op)]
    *outer, last = path or [kind]
    return [*outer, f"{last}/{parts[op.inputs.index(weights) - 1]}"]


def operator_names(model: Model, layers: Mapping[str, str]) -> dict[Operator, str]:
    """Returns a name for people of each operator: its layer's, or that of its output, which ends in its kind where the
    name is another one's. `layers` are names of layers that a ZO model has, by their filters.
    """
    operators = [op for graph in model.subgraphs for op in graph.operators]
    names = layers_of(operators)
    for op in names:
        weights = op.inputs[1]
        assert weights is not None  # a layer has a filter
        names[op] = layers.get(weights.name, names[op])
    taken = set(names.values())
    for op in operators:
        if op in names:
            continue
        name = base = shown_name(op.outputs[0].name) if op.outputs else ""
        number = 1
        while name and name in taken:
            name = f"{base}/{op.code.name.lower()}" + (f"_{number}" if number > 1 else "")
            number += 1
        names[op] = name
        taken.add(name)
    return names


def _told_apart(paths: list[list[str]]) -> list[str]:
    """Returns the shortest ends of paths that differ, followed by numbers where whole paths are alike."""
    depth = [1] * len(paths)
    while True:
        names = ["/".join(p[-d:]) for p, d in zip(paths, depth, strict=True)]
        counts = Counter(names)
        longer = [i for i, n in enumerate(names) if counts[n] > 1 and depth[i] < len(paths[i])]
        if not longer:
            break
        for i in longer:
            depth[i] += 1
    unique: list[str] = []
    for name in names:
        candidate, number = name, 1
        while candidate in unique or (candidate != name and candidate in counts):
            number += 1
            candidate = f"{name}_{number}"
        unique.append(candidate)
    return unique
