# SPDX-License-Identifier: Apache-2.0
"""An operator of a subgraph."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from ..errors import ConversionError
from .operator_code import OperatorCode
from .schema import schema
from .tensor import Tensor


@dataclasses.dataclass(eq=False)
class Operator:
    """An operator; compared by identity.

    Attributes:
        code: what it does.
        inputs: tensors, None for an optional input that is absent.
        outputs: tensors.
        intermediates: tensors of some recurrent kernels, or None where the file has no such list.
        custom_options: bytes of a custom operator's options, or None.
        raw: the generated object, for what is not modelled; its ``builtinOptions`` are the options.
    """

    code: OperatorCode
    inputs: list[Tensor | None]
    outputs: list[Tensor]
    intermediates: list[Tensor | None] | None = None
    custom_options: bytes | None = None
    raw: Any = dataclasses.field(default_factory=schema.OperatorT)

    @property
    def builtin(self) -> int:
        """The ``BuiltinOperator``."""
        return self.code.builtin

    @property
    def options(self) -> Any:
        """Options of a builtin operator: a generated object to read and write, or None."""
        return self.raw.builtinOptions

    def option(self, name: str, default: Any) -> Any:
        """One field of the builtin options; the default where the operator has none or the field is absent.

        Raises:
            ConversionError: the options are those of another operator.
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
        return f"{self.code.name} «{name}»" if name else self.code.name

    def input(self, index: int) -> Tensor | None:
        """Input ``index``; None where it is absent or beyond the end."""
        return self.inputs[index] if index < len(self.inputs) else None

    def replace_input(self, old: Tensor, new: Tensor) -> None:
        """Makes every use of ``old`` one of ``new``."""
        self.inputs = [new if t is old else t for t in self.inputs]

    def copy(self, tensors: dict[Tensor, Tensor]) -> Operator:
        """A copy that names ``tensors[t]`` wherever this one names t."""
        return dataclasses.replace(
            self,
            inputs=[None if t is None else tensors[t] for t in self.inputs],
            outputs=[tensors[t] for t in self.outputs],
            intermediates=None
            if self.intermediates is None
            else [None if t is None else tensors[t] for t in self.intermediates],
            raw=copy.deepcopy(self.raw),
        )
