# SPDX-License-Identifier: Apache-2.0
"""An operator of a subgraph."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from ..errors import ConversionError
from .operator_code import OperatorCode
from .schema import schema
from .tensor import Tensor


@dataclasses.dataclass(eq=False, repr=False)
class Operator:
    """An operator; compared by identity.

    Attributes:
        code: operator code, which says what the operator computes.
        inputs: tensors that the operator reads; None stands for an optional input that is absent.
        outputs: tensors that the operator computes.
        intermediates: tensors that some recurrent kernels need, or None where the file has no such list.
        custom_options: bytes of a custom operator's options, or None.
        raw: the object of the generated schema, which keeps all that is not modelled here; its
            ``builtinOptions`` are the options.
    """

    code: OperatorCode
    inputs: list[Tensor | None]
    outputs: list[Tensor]
    intermediates: list[Tensor | None] | None = None
    custom_options: bytes | None = None
    raw: Any = dataclasses.field(default_factory=schema.OperatorT)

    def __repr__(self) -> str:
        return f"<Operator {self.label}>"

    @property
    def builtin(self) -> int:
        """Number of the operator, a ``BuiltinOperator``."""
        return self.code.builtin

    @property
    def options(self) -> Any:
        """Options of a builtin operator: a generated object to read and write, or None."""
        return self.raw.builtinOptions

    def option(self, name: str, default: Any) -> Any:
        """Returns a field of the builtin options, or the default where options or field are absent.

        Raises:
            ConversionError: the operator has the options of another operator.
        """
        options = self.raw.builtinOptions
        if options is None:
            return default
        if not hasattr(options, name):
            raise ConversionError(f"{self.label}: has options of another operator; the file is damaged")
        value = getattr(options, name)
        return default if value is None else value

    @property
    def label(self) -> str:
        """Name of the operator in messages: its kind and the name of its first output."""
        name = self.outputs[0].name if self.outputs else ""
        return f"{self.code.name} `{name}`" if name else self.code.name

    def input(self, index: int) -> Tensor | None:
        """Returns input ``index``, or None where it is absent or beyond the end."""
        return self.inputs[index] if index < len(self.inputs) else None

    def replace_input(self, old: Tensor, new: Tensor) -> None:
        """Replaces ``old`` by ``new`` wherever it is an input."""
        self.inputs = [new if t is old else t for t in self.inputs]

    def copy(self, tensors: Mapping[Tensor, Tensor]) -> Operator:
        """Returns a copy that refers to ``tensors[t]`` wherever this operator refers to t."""
        raw = copy.copy(self.raw)  # the writer completes a copy; passes change the options
        raw.builtinOptions = copy.deepcopy(self.raw.builtinOptions)
        return dataclasses.replace(
            self,
            inputs=[None if t is None else tensors[t] for t in self.inputs],
            outputs=[tensors[t] for t in self.outputs],
            intermediates=None
            if self.intermediates is None
            else [None if t is None else tensors[t] for t in self.intermediates],
            raw=raw,
        )
