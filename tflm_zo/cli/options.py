# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Options that several commands have, spelled and described alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..runtime import RUNTIMES

__all__ = [
    "Force",
    "Json",
    "LossOutput",
    "ModelFile",
    "OutputModel",
    "OutputReport",
    "RuntimeName",
    "ZoModelFile",
]

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A .tflite file.", show_default=False)]
ZoModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A ZO model: what inject wrote.", show_default=False)
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
        help="Of a plain MODEL with several outputs: name or number of the one that the loss belongs to "
        "(default: the first one behind a SOFTMAX or LOGISTIC, else the first one).",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else, on stdout.")]
RuntimeName = Annotated[
    str, typer.Option("--runtime", metavar="NAME", help=f"What runs the model: {', '.join(RUNTIMES)}.")
]
