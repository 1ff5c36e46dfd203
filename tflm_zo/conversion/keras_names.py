# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Names of a converted model: those of the Keras layers, without what the converter adds."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from ..converters.model import Model, Tensor

__all__ = ["KerasNames", "all_layers", "order_and_name"]

# What a layer is called while TensorFlow names what it computes. TensorFlow tells scopes of one name apart by
# numbers, and enters that of a layer twice: Keras' dense, dense_1 and dense_2 become dense_1, dense_1_2 and
# dense_2_1, from which nobody can tell them.
_SCOPE: Final = "zo.{}.layer"
_IN_SCOPE: Final = re.compile(r"zo\.(\d+)\.layer(?:_\d+)*")


def all_layers(model: Any) -> list[Any]:
    """Returns all layers, those of nested models included."""
    flatten = getattr(model, "_flatten_layers", None)
    return [] if flatten is None else list(flatten(include_self=False, recursive=True))


def _paths(model: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yields the identity of each layer and its name behind those of the models and layers that it is in."""
    flatten = getattr(model, "_flatten_layers", None)
    for layer in () if flatten is None else flatten(include_self=False, recursive=False):
        yield id(layer), (*above, layer.name)
        yield from _paths(layer, (*above, layer.name))


class KerasNames:
    """The names that the layers of a Keras model have, for the tensors that TensorFlow makes of them.

    A layer's name is its own, behind those of the models that it is in where another layer has the same.

    Args:
        model: Keras model, or a SavedModel as a layer, whose own layers nobody knows.
    """

    def __init__(self, model: Any) -> None:
        self._layers = all_layers(model)
        paths: dict[int, tuple[str, ...]] = {}
        for layer, path in _paths(model):
            paths.setdefault(layer, path)
        found = [paths[id(layer)] for layer in self._layers]
        counts = Counter(path[-1] for path in found)
        self._names = ["/".join(path) if counts[path[-1]] > 1 else path[-1] for path in found]

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Calls layers, while TensorFlow converts the model, so that scopes tell them apart."""
        own = [layer.name for layer in self._layers]
        try:
            for i, layer in enumerate(self._layers):
                layer.name = _SCOPE.format(i)
            yield
        finally:
            for layer, name in zip(self._layers, own, strict=True):
                layer.name = name

    def layer_of(self, tensor: str) -> str | None:
        """Returns the innermost layer that a tensor comes from; None where its name does not tell."""
        for part in tensor.split(";"):
            if found := _IN_SCOPE.findall(part):
                return self._names[int(found[-1])]
        return None

    def own(self, text: str) -> str:
        """Returns a message of TensorFlow's with the layers' own names."""
        return _IN_SCOPE.sub(lambda found: self._names[int(found[1])], text)

    def shorten(self, tensor: str) -> str:
        """Returns a tensor's name without the scopes outside the layer, which has its own name."""
        parts = [re.sub(rf"^.*(?={_IN_SCOPE.pattern})", "", part) for part in tensor.split(";")]
        return self.own(";".join(parts))


def order_and_name(model: Model, inputs: list[str], outputs: list[str], layers: KerasNames) -> None:
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
        base = names.get(tensor) or layers.shorten(tensor.name)
        name, number = base, 1
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        taken.add(name)
        tensor.name = name
