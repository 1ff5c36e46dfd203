# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Plain models where a ZO model is needed: for every command that takes both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..converters import ConversionError, InjectSettings, Model, read_metadata
from ..converters import inject as inject_model
from ..converters.constants import METADATA_NAME
from ..training import ALGORITHMS, Algorithm, Callback, algorithm
from .failures import note, warn
from .output_file import write_output

__all__ = [
    "BATCH",
    "KeepZoModel",
    "inject_for_training",
    "inject_plain",
    "is_zo",
    "own_batch",
    "parse_loss_output",
    "parse_nodes",
    "say_loss_output",
]

BATCH = 32  # samples per invoke of a plain model, where it can be had


def is_zo(model: Model) -> bool:
    """Whether it is a ZO model."""
    return model.find_metadata(METADATA_NAME) is not None


def own_batch(model: Model) -> int:
    """Samples per invoke of a plain model; 1 where it has no inputs, which inject will refuse."""
    inputs = model.subgraphs[0].inputs if model.subgraphs else []
    return max(inputs[0].shape[0], 1) if inputs and inputs[0].shape else 1


def inject_plain(model: Model, settings: InjectSettings, batch: int = BATCH) -> Model:
    """A plain model made a ZO model, of that batch where it can be had.

    Args:
        model: a plain model; it is not changed.
        settings: how; their batch does not count.
        batch: of a model whose own batch is 1; where it is another, or an operator ties the model to it, the
            ZO model has that one.

    Raises:
        ConversionError: it cannot be injected.
    """
    own = own_batch(model)
    if own == 1:
        try:
            return _injected(model, settings, batch)
        except ConversionError:
            pass  # an operator may tie the model to its batch; anything else is said again below
    return _injected(model, settings, own)


def _injected(model: Model, settings: InjectSettings, batch: int) -> Model:
    own = own_batch(model)
    zo = inject_model(model, settings, batch=batch, export_batch=None if own == batch else own)
    say_loss_output(zo, settings)
    return zo


def say_loss_output(zo: Model, settings: InjectSettings) -> None:
    """Says which of several outputs the loss was given to, where nobody has said it."""
    metadata = read_metadata(zo)
    names, loss = metadata.original.outputs, metadata.loss
    if loss is not None and len(names) > 1 and settings.loss_output is None:
        note(
            f"the loss belongs to output {loss.output} of {len(names)}, «{names[loss.output]}»; "
            "--loss-output chooses another"
        )


def inject_for_training(
    model: Model,
    name: str | None,
    minibatch: int | None,
    options: Callable[[Algorithm], Mapping[str, Any]] = lambda _: {},
    **injection: Any,
) -> tuple[Model, Algorithm]:
    """A plain model as an algorithm needs it.

    Args:
        model: a plain model; it is not changed.
        name: of the algorithm; None: node perturbation, or weight perturbation, with a warning, where no
            layer can carry nodes.
        minibatch: samples of a step, where it was given: the model's batch divides it.
        options: an algorithm's settings that were given, for what the injection takes from them.
        **injection: settings of `inject` that were given.

    Raises:
        ConversionError: it cannot be injected.
        SettingsError: there is no such algorithm.
    """

    def made(chosen: Algorithm) -> tuple[Model, Algorithm]:
        samples = minibatch or int(chosen.options["batch_size"])
        batch = max((b for b in range(1, BATCH + 1) if samples % b == 0), default=1)
        return inject_plain(model, chosen.inject_settings(options(chosen), **injection), batch), chosen

    if name is not None:
        return made(algorithm(name))
    try:
        return made(ALGORITHMS["node"])
    except ConversionError as error:
        if injection.get("nodes"):
            raise
        result = made(ALGORITHMS["weight"])
        warn(f"training by weight perturbation, not by node perturbation: {error}")
        return result


def parse_loss_output(given: str | None) -> int | str | None:
    """Reads ``--loss-output``: a number is one, anything else a name."""
    return int(given) if given is not None and given.isascii() and given.isdecimal() else given


def parse_nodes(given: list[str]) -> str | list[str] | None:
    """Reads ``--nodes``: names separated by commas, auto or last:N; None where there is none.

    Raises:
        ConversionError: it is something else.
    """
    names = [name.strip() for item in given for name in item.split(",")]
    if not all(names):
        raise ConversionError(f"--nodes takes names of layers, not {', '.join(map(repr, given))}")
    if len(names) == 1 and (names[0] == "auto" or names[0].startswith("last:")):
        return names[0]
    if "auto" in names or any(name.startswith("last:") for name in names):
        raise ConversionError("--nodes auto and last:N cannot be combined with others")
    return names or None


class KeepZoModel(Callback):
    """Writes the ZO model when a run begins: replay and resumption need the very one it was trained as.

    Args:
        path: of the file.
        model: its bytes.
        log: path of the run's log.
        force: whether it may replace another file.
        resume: whether a file with the same bytes, of the run that is resumed, is left alone.

    Raises:
        ValueError: at construction: the run is resumed, and the file is another model.
    """

    def __init__(self, path: Path, model: bytes, log: Path, *, force: bool, resume: bool) -> None:
        self._path, self._model, self._log, self._force, self._written = path, model, log, force, False
        there = resume and path.exists()
        self._there = there and path.read_bytes() == model
        if there and not self._there and not force:
            raise ValueError(
                f"{path} is another ZO model than MODEL makes now; resume with it as MODEL, or with the "
                "model and the options that it was made from"
            )

    def on_train_begin(self, trainer: object, steps: int) -> None:
        """Writes it."""
        if not self._there:
            write_output(self._path, self._model, force=self._force)
            self._written = True

    def withdraw(self) -> None:
        """Removes it again where the run has failed before it had a log."""
        if self._written and not self._log.exists():
            self._path.unlink(missing_ok=True)
