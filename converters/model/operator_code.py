# SPDX-License-Identifier: Apache-2.0
"""The code of the kernel that an operator calls."""

from __future__ import annotations

import dataclasses

from .schema import OPERATOR_NAMES, BuiltinOperator


@dataclasses.dataclass(eq=False)
class OperatorCode:
    """Operator code; equal codes become one entry of the file.

    Attributes:
        builtin: a ``BuiltinOperator`` (CUSTOM for custom operators).
        version: version of the kernel, as the file says.
        custom: name of a custom operator; None for a builtin one.
    """

    builtin: int
    version: int = 1
    custom: str | None = None

    @classmethod
    def of_custom(cls, name: str) -> OperatorCode:
        """Returns the code of a custom operator."""
        return cls(BuiltinOperator.CUSTOM, 1, name)

    @property
    def name(self) -> str:
        """Name for messages, e.g. ``CONV_2D`` or the custom operator's own."""
        if self.builtin == BuiltinOperator.CUSTOM:
            return self.custom or "CUSTOM"
        return OPERATOR_NAMES.get(self.builtin, str(self.builtin))
