# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Options of plain models."""

from __future__ import annotations

from ..converters import ConversionError, Model, read_metadata
from .failures import note

__all__ = ["parse_loss_output", "parse_nodes", "say_loss_output"]


def say_loss_output(zo: Model, chosen: int | str | None) -> None:
    """Says which of several outputs the loss was given to, unless one was chosen."""
    metadata = read_metadata(zo)
    names, loss = metadata.original.outputs, metadata.loss
    if chosen is None and loss is not None and len(names) > 1:
        note(
            f"the loss belongs to output {loss.output} of {len(names)}, `{names[loss.output]}`; "
            "--loss-output chooses another"
        )


def parse_loss_output(given: str | None) -> int | str | None:
    """Reads ``--loss-output``: a number is one, anything else a name."""
    return int(given) if given is not None and given.isascii() and given.isdecimal() else given


def parse_nodes(given: list[str], option: str = "--nodes") -> str | list[str] | None:
    """Reads ``--nodes``: names separated by commas, auto or last:N; None where there is none.

    Raises:
        ConversionError: the text is something else.
    """
    names = [name.strip() for item in given for name in item.split(",")]
    if not all(names):
        raise ConversionError(f"{option} takes names of layers, not {', '.join(map(repr, given))}")
    if len(names) == 1 and (names[0] == "auto" or names[0].startswith("last:")):
        return names[0]
    if "auto" in names or any(name.startswith("last:") for name in names):
        raise ConversionError(f"{option} auto and last:N cannot be combined with others")
    return names or None
