# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Options that several commands have, spelled and described alike."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..runtime import RUNTIMES
from ..training import SettingsError
from ..training.block_search import BlockSearch

__all__ = [
    "BlockSearchOption",
    "Force",
    "Json",
    "LossOutput",
    "DataFile",
    "LabelsFile",
    "ModelFile",
    "OutputModel",
    "OutputReport",
    "RuntimeName",
    "ZoModelFile",
    "choice",
    "parse_block_search",
]


def choice(names: Iterable[str], *, listed: bool = True) -> dict[str, Any]:
    """Arguments of an option that takes one of these names: shells complete them, others are wrong usage.

    Args:
        names: the choices; people may write their dashes as underscores.
        listed: the help shows them in the place of the value.
    """
    known = tuple(names)

    def check(value: str | None) -> str | None:
        found = None if value is None else value.replace("_", "-")
        if found is not None and found not in known:
            raise typer.BadParameter(f"no {value!r}; there are {', '.join(known)}")
        return found

    metavar = f"[{'|'.join(known)}]" if listed else "NAME"
    return {"callback": check, "autocompletion": lambda: list(known), "metavar": metavar}


ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A .tflite file.", show_default=False)]
ZoModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A ZO model: what inject wrote.", show_default=False)
]
DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="An .npz file (x and y), or .npy (x).",
        show_default=False,
    ),
]
LabelsFile = Annotated[
    Path | None,
    typer.Argument(metavar="LABELS", help="An .npy file (y).", show_default=False),
]
OutputModel = Annotated[
    Path, typer.Option("-o", "--output", metavar="FILE", help="Where the model goes.", show_default=False)
]
OutputReport = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write the result, as JSON, to a file as well."),
]
LossOutput = Annotated[
    str | None,
    typer.Option(
        "--loss-output",
        metavar="OUTPUT",
        help="Output of a plain MODEL that the loss belongs to, its name or number (default: the first one "
        "behind a SOFTMAX or LOGISTIC, else the first one).",
        show_default=False,
        rich_help_panel="Data",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.", rich_help_panel="Output")]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print the result as JSON, and nothing else, on stdout.", rich_help_panel="Output"
    ),
]
RuntimeName = Annotated[
    str,
    typer.Option("--runtime", help="Runtime of the model.", rich_help_panel="Run", **choice(RUNTIMES)),
]
BlockSearchOption = Annotated[
    str | None,
    typer.Option(
        "--choose-block",
        metavar="N[:EPOCHS]",
        help="Split the layers into N blocks, train each for an epoch (EPOCHS), then the best one alone.",
        show_default=False,
        rich_help_panel="Algorithm",
    ),
]


def parse_block_search(text: str, held_out: float | None) -> BlockSearch:
    """Reads ``--choose-block``, the number of blocks and the epochs of a probe, and ``--held-out``.

    Raises:
        SettingsError: it is something else.
    """
    parts = text.split(":")
    if len(parts) > 2 or not all(part.isascii() and part.isdecimal() and int(part) for part in parts):
        raise SettingsError(f"--choose-block: expected N or N:EPOCHS, got {text!r}")
    share = BlockSearch.held_out if held_out is None else held_out
    return BlockSearch(int(parts[0]), share, int(parts[1]) if len(parts) == 2 else BlockSearch.epochs)
