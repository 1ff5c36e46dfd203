"""Makes short names for layers from the names that converters give to tensors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from ..kernels import FILTER_OPERATORS
from ..model import Model, Operator, Tensor

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
    filters: dict[Operator, Tensor] = {}
    for op in operators:
        weights = op.input(1)
        if weights is not None and op.builtin in FILTER_OPERATORS:
            filters[op] = weights
    first = {weights: op for op, weights in reversed(filters.items())}
    readers = [op for op, weights in filters.items() if first[weights] is op]
    names = dict(zip(readers, _told_apart([_path(op) for op in readers]), strict=True))
    return {op: names[first[weights]] for op, weights in filters.items()}


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
