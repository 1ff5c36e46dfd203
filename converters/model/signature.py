# SPDX-License-Identifier: Apache-2.0
"""A signature: names for the inputs and outputs of a subgraph."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from .subgraph import Subgraph
from .tensor import Tensor


@dataclasses.dataclass(eq=False)
class Signature:
    """A signature of a model.

    Attributes:
        key: name of the signature.
        subgraph: subgraph that the signature runs.
        inputs: (name, tensor) pairs of the inputs, in the order of the file.
        outputs: (name, tensor) pairs of the outputs, in the order of the file.
    """

    key: str
    subgraph: Subgraph
    inputs: list[tuple[str, Tensor]] = dataclasses.field(default_factory=list)
    outputs: list[tuple[str, Tensor]] = dataclasses.field(default_factory=list)

    def copy(self, subgraphs: Mapping[Subgraph, Subgraph], tensors: Mapping[Tensor, Tensor]) -> Signature:
        """Returns a copy that refers to ``subgraphs[g]`` and ``tensors[t]`` where this one has g and t."""
        inputs, outputs = ([(name, tensors[t]) for name, t in side] for side in (self.inputs, self.outputs))
        return Signature(self.key, subgraphs[self.subgraph], inputs, outputs)
