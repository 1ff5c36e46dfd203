# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..runtime import RUNTIMES
from ..training import SettingsError
from ..training.block_choice import BlockSearch

__all__ = [
    "BlockHeldOut",
    "BlockSearchOption",
    "Epochs",
    "ExportBatch",
    "Force",
    "Json",
    "LossOutput",
    "DataFile",
    "LabelsFile",
    "ModelExplorer",
    "ModelFile",
    "OutputModel",
    "OutputReport",
    "RayAddress",
    "ReRange",
    "RuntimeName",
    "Threads",
    "Steps",
    "WorkerCount",
    "ZoModelFile",
    "block_search",
    "choice",
    "optional",
    "parse_block_search",
    "parse_bytes",
]


def choice(names: Iterable[str], *, listed: bool = True) -> dict[str, Any]:
    """Returns the arguments of an option that takes one of some names, which shells complete.

    Args:
        names: names that the option takes; people may write their dashes as underscores. Any other value is
            wrong usage.
        listed: True if the help lists the names in the place of the value.
    """
    known = tuple(names)

    def check(value: str | None) -> str | None:
        found = None if value is None else value.replace("_", "-")
        if found is not None and found not in known:
            raise typer.BadParameter(f"must be one of {', '.join(known)}. Received: {value!r}.")
        return found

    metavar = f"[{'|'.join(known)}]" if listed else "NAME"
    return {"callback": check, "autocompletion": lambda: list(known), "metavar": metavar}


def optional(metavar: str, text: str, panel: str, *names: str) -> Any:
    """Returns an option with a value that need not be given, and whose default its help tells.

    Args:
        metavar: what the help has in the place of the value.
        text: help of the option.
        panel: part of the help that it is in.
        *names: names of the option; none: its parameter's.
    """
    return typer.Option(*names, metavar=metavar, help=text, show_default=False, rich_help_panel=panel)


ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A .tflite file.", show_default=False)]
ZoModelFile = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A ZO model, as inject or train writes it.", show_default=False),
]
DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="An .npz file with x and y, or an .npy file of x.",
        show_default=False,
    ),
]
LabelsFile = Annotated[
    Path | None,
    typer.Argument(metavar="LABELS", help="An .npy file of y.", show_default=False),
]
OutputModel = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="File that the model is written to.",
        show_default=False,
        rich_help_panel="Output",
    ),
]
OutputReport = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="File that the result is written to as JSON.",
        rich_help_panel="Output",
    ),
]
ModelExplorer = Annotated[
    Path | None,
    optional(
        "FOLDER",
        "Folder that node data for Model Explorer is written to, numbers that it draws onto the graph.",
        "Output",
        "--model-explorer",
    ),
]
LossOutput = Annotated[
    str | None,
    typer.Option(
        "--loss-output",
        metavar="OUTPUT",
        help="Output of a plain MODEL that the loss belongs to, by name or number (default: the first behind "
        "a SOFTMAX or LOGISTIC, else the first).",
        show_default=False,
        rich_help_panel="Data",
    ),
]
ExportBatch = Annotated[
    int | None,
    typer.Option(
        "--batch",
        help="Samples per invoke of the plain model (default: as train exports it).",
        show_default=False,
        rich_help_panel="Output",
    ),
]
ReRange = Annotated[
    bool,
    typer.Option(
        "--re-range",
        help="Give the filters new scales, from the range of their weights.",
        rich_help_panel="Output",
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
    typer.Option("--runtime", help="Runtime that runs the model.", rich_help_panel="Run", **choice(RUNTIMES)),
]
Threads = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        help="Threads, which change no bit.",
        rich_help_panel="Run",
    ),
]
WorkerCount = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        metavar="N",
        help="Processes that share steps of weight perturbation.",
        show_default=False,
        rich_help_panel="Run",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Ray cluster of the workers; auto: this machine's.",
        show_default=False,
        rich_help_panel="Run",
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option(
        help="Passes over the samples (default: 10, or as many as take 300 steps).",
        show_default=False,
        rich_help_panel="Run",
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(help="Number of steps instead of epochs.", show_default=False, rich_help_panel="Run"),
]
BlockSearchOption = Annotated[
    str | None,
    optional(
        "N[:EPOCHS]",
        "Split the layers into N blocks, train each for one epoch or EPOCHS, then the best one alone.",
        "Algorithm",
        "--choose-block",
    ),
]
BlockHeldOut = Annotated[
    float | None,
    optional(
        "SHARE", "Share of the samples by which --choose-block tells the best block (default: 0.2).", "Data"
    ),
]


_UNITS = {"": 1, "K": 1024, "M": 1024**2}


def parse_bytes(option: str, text: str) -> int:
    """Returns a number of bytes: 262144, 256K or 1M, with B or iB behind the unit or without.

    Raises:
        SettingsError: the text is none.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KM]?)(?:i?B)?", text.strip().replace(" ", ""), re.IGNORECASE)
    size = 0 if found is None else int(float(found[1]) * _UNITS[found[2].upper()])
    if size < 1:
        raise SettingsError(option, "be bytes like 262144, 256K or 1M", text)
    return size


def parse_block_search(text: str, held_out: float | None) -> BlockSearch:
    """Returns the search that ``--choose-block`` and ``--held-out`` ask for.

    Raises:
        SettingsError: the text is neither N nor N:EPOCHS.
    """
    parts = text.split(":")
    if len(parts) > 2 or not all(part.isascii() and part.isdecimal() and int(part) for part in parts):
        raise SettingsError("--choose-block", "be N or N:EPOCHS", text)
    share = BlockSearch.held_out if held_out is None else held_out
    return BlockSearch(int(parts[0]), share, int(parts[1]) if len(parts) == 2 else BlockSearch.epochs)


def block_search(text: str | None, held_out: float | None) -> BlockSearch | None:
    """Returns the search that ``--choose-block`` and ``--held-out`` ask for; None without them.

    Raises:
        SettingsError: the text is neither N nor N:EPOCHS, or samples are held out for no search.
    """
    if text is not None:
        return parse_block_search(text, held_out)
    if held_out is not None:
        raise SettingsError("--held-out", "be given with --choose-block, whose probes it judges")
    return None
