# SPDX-License-Identifier: Apache-2.0
"""A subgraph: operators in execution order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from .operator import Operator
from .schema import schema
from .tensor import Tensor


@dataclasses.dataclass(eq=False, repr=False)
class Subgraph:
    """A subgraph; compared by identity.

    Attributes:
        name: name of the subgraph, possibly empty.
        tensors: tensors in the order of the file; tensors that operators, inputs or outputs refer to but that
            are missing here are appended when the model is written.
        inputs: tensors that the caller feeds.
        outputs: tensors that the caller reads.
        operators: operators in execution order.
        raw: the object of the generated schema, which keeps all that is not modelled here.
    """

    name: str = ""
    tensors: list[Tensor] = dataclasses.field(default_factory=list)
    inputs: list[Tensor] = dataclasses.field(default_factory=list)
    outputs: list[Tensor] = dataclasses.field(default_factory=list)
    operators: list[Operator] = dataclasses.field(default_factory=list)
    raw: Any = dataclasses.field(default_factory=schema.SubGraphT)

    def __repr__(self) -> str:
        return f"<Subgraph {self.name!r}: {len(self.operators)} operators, {len(self.tensors)} tensors>"

    def all_tensors(self) -> Iterator[Tensor]:
        """Yields every tensor once: the listed ones, then others that are referred to, in execution order."""
        seen: set[Tensor] = set()
        for tensor in self._mentions():
            if tensor is not None and tensor not in seen:
                seen.add(tensor)
                yield tensor

    def copy(self, tensors: Mapping[Tensor, Tensor]) -> Subgraph:
        """Returns a copy that refers to ``tensors[t]`` wherever this subgraph refers to t."""
        return dataclasses.replace(
            self,
            tensors=[tensors[t] for t in self.tensors],
            inputs=[tensors[t] for t in self.inputs],
            outputs=[tensors[t] for t in self.outputs],
            operators=[op.copy(tensors) for op in self.operators],
        )

    def _mentions(self) -> Iterator[Tensor | None]:
        yield from self.tensors
        yield from self.inputs
        for op in self.operators:
            yield from op.inputs
            yield from op.outputs
            yield from op.intermediates or ()
        yield from self.outputs

    def own_input(self, op: Operator, index: int) -> Tensor:
        """Returns an operator's input, or puts a copy in its place if anything else reads that tensor too."""
        tensor = op.inputs[index]
        assert tensor is not None
        if sum(o.inputs.count(tensor) for o in self.operators) == 1 and tensor not in self.outputs:
            return tensor
        own = op.inputs[index] = tensor.copy()
        self.tensors.append(own)
        return own

    def producers(self) -> dict[Tensor, Operator]:
        """Returns the operator that computes each tensor; constants, variables and inputs are missing."""
        return {t: op for op in self.operators for t in op.outputs}

    def consumers(self) -> dict[Tensor, list[Operator]]:
        """Returns the operators that read each tensor, in execution order; unread tensors are missing."""
        result: dict[Tensor, list[Operator]] = {}
        for op in self.operators:
            for tensor in dict.fromkeys(op.inputs):
                if tensor is not None:
                    result.setdefault(tensor, []).append(op)
        return result
