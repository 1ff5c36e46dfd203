# SPDX-License-Identifier: Apache-2.0
"""What a platform lays out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Project:
    """Generated sources, before they are laid out. Includes are relative to their common folder.

    Attributes:
        name: an identifier.
        command: what generated them.
        sources: of the library, text by path.
        example: of the program, text by path.
        definitions: macros that every source of the library, and whoever includes its headers, must see.
    """

    name: str
    command: str
    sources: Mapping[str, str]
    example: Mapping[str, str]
    definitions: Mapping[str, str]

    def compiled(self) -> list[str]:
        """Paths of the library's sources that are compiled."""
        return sorted(path for path in self.sources if path.endswith((".c", ".cc")))

    def compiled_example(self) -> list[str]:
        """The same of the example."""
        return sorted(path for path in self.example if path.endswith((".c", ".cc")))
