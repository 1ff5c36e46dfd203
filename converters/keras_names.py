# SPDX-License-Identifier: Apache-2.0
"""Names of a converted model: those of the Keras layers, without what the converter adds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .model import Model, Tensor

__all__ = ["all_layers", "layer_names", "layer_of", "order_and_name"]


def all_layers(model: Any) -> list[Any]:
    """Returns all layers, those of nested models included."""
    flatten = getattr(model, "_flatten_layers", None)
    return [] if flatten is None else list(flatten(include_self=False, recursive=True))


def layer_names(model: Any) -> list[str]:
    """Returns the names of all layers, those of nested models included."""
    return [layer.name for layer in all_layers(model)]


def _layer_at(path: Sequence[str], layers: Sequence[str]) -> tuple[int, str] | None:
    """Returns the innermost layer's place in a path, and its name; Keras makes scopes unique by numbers."""
    for i in range(len(path) - 1, -1, -1):
        if path[i] in layers:
            return i, path[i]
        shortened = re.sub(r"_\d+$", "", path[i])
        if shortened != path[i] and shortened in layers:
            return i, shortened
    return None


def layer_of(name: str, layers: Sequence[str]) -> str | None:
    """Returns the layer that a tensor comes from; None where its name does not tell."""
    for part in name.split(";"):
        found = _layer_at(part.split("/"), layers)
        if found:
            return found[1]
    return None


def _shorten(name: str, layers: Sequence[str]) -> str:
    """«m_1/functional_1_1/conv_1/convolution» becomes «conv/convolution»."""
    parts = []
    for part in name.split(";"):
        path = part.split("/")
        found = _layer_at(path, layers)
        parts.append("/".join([found[1], *path[found[0] + 1 :]]) if found else part)
    return ";".join(parts)


def order_and_name(model: Model, inputs: list[str], outputs: list[str], layers: Sequence[str]) -> None:
    """Inputs and outputs in the order of the Keras model; names without the converter's scopes."""
    graph = model.subgraphs[0]
    signature = next((s for s in model.signatures or () if s.subgraph is graph), None)
    names: dict[Tensor, str] = {}
    if signature is not None:
        fed = dict(signature.inputs)
        if set(fed) == set(inputs) and len(fed) == len(graph.inputs):
            graph.inputs = [fed[name] for name in inputs]
            signature.inputs = [(name, fed[name]) for name in inputs]
        # The converter calls them output_0, output_1, … and sorts by the alphabet.
        signature.outputs = sorted(signature.outputs, key=lambda item: (len(item[0]), item[0]))
        read = [t for _, t in signature.outputs]
        if len(outputs) == len(read):
            signature.outputs = list(zip(outputs, read, strict=True))
        if set(read) == set(graph.outputs) and len(read) == len(graph.outputs):
            graph.outputs = read
        names.update({t: n for n, t in [*signature.outputs, *signature.inputs]})
    taken: set[str] = set()
    # Inputs and outputs choose first.
    for tensor in [*names, *(t for t in graph.all_tensors() if t not in names)]:
        base = names.get(tensor) or _shorten(tensor.name, layers)
        name, number = base, 1
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        taken.add(name)
        tensor.name = name
