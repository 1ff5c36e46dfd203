# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Options of plain models, and the ZO model that a run writes."""

from __future__ import annotations

from pathlib import Path

from ..converters import ConversionError, Model, load_model, read_metadata
from ..training import Callback, RunProgress
from ..training.setting_texts import FOUND, run_of, with_found
from .failures import note
from .output_file import write_output

__all__ = [
    "KeepZoModel",
    "of_resumed_run",
    "parse_loss_output",
    "parse_nodes",
    "say_loss_output",
]


def of_resumed_run(zo: Model, path: Path) -> Model:
    """Returns the ZO model of a run that is resumed, with what the run has found, as its file has it."""
    try:
        found = run_of(read_metadata(load_model(path)))
    except (ConversionError, OSError):
        return zo  # none, or another file, which `KeepZoModel` refuses
    for name in FOUND:
        zo = with_found(zo, name, found.get(name, "auto"))
    return zo


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


class KeepZoModel(Callback):
    """Writes the ZO model when a run begins: replay and resumption need the very one it was trained as.

    Args:
        path: path of the file.
        model: the ZO model as the bytes of a file.
        log: path of the run's log.
        force: True if it may replace another file.
        resume: True if a file with the same bytes, of the run that is resumed, is left alone.

    Raises:
        ValueError: the run is resumed, and the file is another model; raised at construction.
    """

    def __init__(self, path: Path, model: bytes, log: Path, *, force: bool, resume: bool) -> None:
        self._path, self._log, self._force, self._written = path, log, force, False
        there = resume and path.exists()
        self._there = there and path.read_bytes() == model
        if there and not self._there and not force:
            raise ValueError(
                f"{path} is another ZO model than MODEL makes now; resume with it as MODEL, or with the "
                "model and the options that it was made from"
            )

    def on_train_begin(self, progress: RunProgress) -> None:
        """Writes it, with what the run has found."""
        if not self._there:
            write_output(self._path, progress.model.to_bytes(), force=self._force)
            self._written = True

    def withdraw(self) -> None:
        """Removes it again where the run has failed before it had a log."""
        if self._written and not self._log.exists():
            self._path.unlink(missing_ok=True)
