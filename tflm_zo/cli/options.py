"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, overload

import typer

from ..planner.boards import boards
from ..runtime import RUNTIMES
from ..training import SettingsError


def choice(names: Iterable[str], *, listed: bool = True, others: str = "") -> dict[str, Any]:
    """Returns the arguments of an option that takes one of some names, which shells complete and, if `listed`,
    the help lists. People may write their dashes as underscores. Values with the character `others` are none of them,
    and are passed on.
    """
    known = tuple(names)

    def check(value: str | None) -> str | None:
        if value is not None and others and others in value:
            return value
        found = None if value is None else value.replace("_", "-")
        if found is not None and found not in known:
            raise typer.BadParameter(f"must be one of {', '.join(known)}. Received: {value!r}.")
        return found

    metavar = f"[{'|'.join(known)}]" if listed else "NAME"
    return {"callback": check, "autocompletion": lambda: list(known), "metavar": metavar}


def argument(metavar: str, text: str) -> Any:
    """Returns an argument with a name and a text for the help."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


def option(text: str, panel: str | None, /, *names: str, **more: Any) -> Any:
    """Returns an option with a text for the help, in a panel of it. `names` are those of the option; none: its
    parameter's. `more` are other arguments of `typer.Option`, such as the result of `choice`.
    """
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


def optional(metavar: str | None, text: str, panel: str | None, /, *names: str, **more: Any) -> Any:
    """Returns an `option` without a default value, which its text describes. `metavar` is the name of the value; None:
    the value's type.
    """
    return option(text, panel, *names, show_default=False, **{"metavar": metavar, **more})


ModelFile = Annotated[Path, argument("MODEL", "A .tflite file.")]
ZoModelFile = Annotated[Path, argument("MODEL", "A ZO model, as inject or train writes it.")]
DataFile = Annotated[Path, argument("DATA", "An .npz file with x and y, or an .npy file of x.")]
NewSamples = Annotated[
    Path, argument("DATA", "An .npz file with x, or an .npy file of x: new samples, of which labels are not read.")
]
LabelsFile = Annotated[Path | None, argument("LABELS", "An .npy file of y.")]
OutputModel = Annotated[Path, optional("FILE", "Output file of the model.", "Output", "-o", "--output")]
OutputReport = Annotated[
    Path | None, optional("FILE", "Output file of the result as JSON.", "Output", "-o", "--output")
]
ModelExplorer = Annotated[
    Path | None,
    optional(
        "FOLDER",
        "Output folder of node data for Model Explorer, which draws numbers onto the graph.",
        "Output",
        "--model-explorer",
    ),
]
LossOutput = Annotated[
    str | None,
    optional(
        "OUTPUT",
        "Output of a plain MODEL for the loss, by name or number (default: the first after a SOFTMAX or "
        "LOGISTIC, else the first).",
        "Data",
        "--loss-output",
    ),
]
ExportBatch = Annotated[
    int | None,
    optional(None, "Samples per invoke of the plain model (default: as train exports it).", "Output", "--batch"),
]
ReRange = Annotated[
    bool, option("Give the filters new scales, from the range of their weights.", "Output", "--re-range")
]
Force = Annotated[bool, option("Replace existing files.", "Output", "--force")]
Json = Annotated[bool, option("Print only the result, as JSON.", "Output", "--json")]
RuntimeName = Annotated[str, option("Runtime that runs the model.", "Run", "--runtime", **choice(RUNTIMES))]
Threads = Annotated[int, option("Number of threads. Does not affect results.", "Run", min=1, metavar="N")]
WorkerCount = Annotated[
    int | None,
    optional("N", "Workers for weight perturbation, in the Ray cluster of RAY_ADDRESS.", "Run", "--workers", min=1),
]
Epochs = Annotated[
    int | None, optional(None, "Passes over the samples (default: 10, or as many as take 300 steps).", "Run")
]
Steps = Annotated[int | None, optional(None, "Number of steps instead of epochs.", "Run")]
BoardName = Annotated[
    str | None,
    optional(
        "NAME",
        "Board whose memory the run must fit: nano-33-ble, pico, nucleo-f746zg, … (tflm-zo plan --boards lists them).",
        "Device",
        "--board",
        autocompletion=lambda: list(boards()),
    ),
]
Ram = Annotated[
    str | None, optional("BYTES", "RAM that the run must fit, like 256K (default: the board's).", "Device", "--ram")
]
ForwardOnly = Annotated[
    bool, optional(None, "Leave out ways to train that pass errors back through layers.", "Device", "--forward-only")
]
_UNITS = {"": 1, "K": 1024, "M": 1024**2}


@overload
def parse_bytes(option: str, text: None) -> None: ...
@overload
def parse_bytes(option: str, text: str) -> int: ...
def parse_bytes(option: str, text: str | None) -> int | None:
    """Returns a number of bytes: 262144, 256K or 1M, with B or iB behind the unit or without; None for None."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KM]?)(?:i?B)?", text.strip().replace(" ", ""), re.IGNORECASE)
    size = 0 if found is None else int(float(found[1]) * _UNITS[found[2].upper()])
    if size < 1:
        raise SettingsError(option, "be bytes like 262144, 256K or 1M", text)
    return size
