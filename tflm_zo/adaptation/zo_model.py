"""The ZO model of a run, and the file that keeps it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..converters import ConversionError, Model, ZoMetadata, load_model, read_metadata
from ..converters.segments import with_batch
from ..converters.settings import InjectChanges
from ..io.errors import SettingsError
from ..io.files import write_output
from ..training import Callback, RunProgress, Settings, algorithm, algorithm_for, inject_for
from ..training.algorithms import with_fitting_minibatch
from ..training.injection import is_zo, trainable_model
from ..training.setting_texts import MEASURED_RATE, run_of, with_found, with_run

_Path = str | os.PathLike[str]

Changes = Callable[[Settings, ZoMetadata | None], Settings]
"""Function that returns the settings of a run, made of the usual ones and the metadata of the ZO model, which
is None while a plain model has none.
"""


@dataclass(frozen=True)
class ModelOfRun:
    """The ZO model of a run.

    `make` returns the ZO model of other settings, with so many bits of an update or, for None, as many as they ask
    for; of a model that was one already, that model.
    """

    zo: Model
    settings: Settings
    make: Callable[[Settings, int | None], Model]


def model_of_run(
    source: Model,
    settings: Settings | str | None = None,
    changes: Changes | None = None,
    *,
    inject: InjectChanges | None = None,
    batch: int | None = None,
    length: Mapping[str, object],
) -> ModelOfRun:
    """Returns the ZO model of a run and its settings.

    Args:
        source: a plain int8 model or a ZO model; it is not changed.
        settings: settings of the run, the name of their algorithm, or None, as for `adapt`.
        changes: function that changes these settings, as for `adapt`.
        inject: further settings of `inject` for a plain model.
        batch: samples per invoke of a ZO model that is made, or that was made for its run, unless an operator
            ties it to others; None: those of a ZO model, and as many as suit the minibatch of one that is made.
        length: length of the run as it was given, which a ZO model that is made keeps with its settings.

    Raises:
        SettingsError: the settings are wrong, or the model does not fit them.
        ConversionError: a plain model cannot be injected.
    """
    given, name = (settings, None) if isinstance(settings, Settings) else (None, settings)

    def fitting(settings: Settings, metadata: ZoMetadata | None) -> Settings:
        return settings if given or metadata is None else with_fitting_minibatch(settings, metadata)

    change = changes or fitting
    injection: InjectChanges = {**(inject or {})}
    if is_zo(source):
        for name in injection:
            raise SettingsError(name, "be left out, since the model is a ZO model already")
        usual = given or _usual(read_metadata(source), name)
        zo = source if batch is None else _of_batch(source, batch)
    else:
        if batch is not None:
            injection["batch"] = batch
        wanted = algorithm(name) if name else given
        zo, own = trainable_model(source, wanted, lambda usual: change(usual, None), **injection)
        usual = given or algorithm(own.algorithm)

    def keep(zo: Model, settings: Settings) -> Model:
        # A model cannot say how settings differ from those of no algorithm.
        return with_run(zo, settings, algorithm(settings.algorithm), length) if settings.algorithm else zo

    def make(settings: Settings, bits: int | None) -> Model:
        if zo is source:
            return zo
        own = injection.copy()
        if bits is not None:
            own["update_bits"] = bits
        return keep(zo if is_zo(source) else inject_for(source, settings, **own), settings)

    own = change(usual, read_metadata(zo))
    return ModelOfRun(zo if zo is source else keep(zo, own), own, make)


def _of_batch(zo: Model, batch: int) -> Model:
    metadata = read_metadata(zo)
    try:
        return with_batch(zo, batch) if metadata.run and metadata.batch != batch else zo
    except ConversionError:
        return zo


def _usual(metadata: ZoMetadata, name: str | None) -> Settings:
    settings = algorithm_for(metadata, name)
    if settings.algorithm == "node" and not metadata.nodes:
        raise SettingsError(
            "algorithm",
            "fit the model, which carries no nodes",
            settings.algorithm,
            "Give the plain model, or inject it with",
            inject={"algorithm": settings.algorithm},
        )
    return settings


@dataclass(frozen=True)
class KnownChoice:
    """The way to train that an interrupted run had chosen."""

    start: str
    settings: Settings
    update_bits: int
    steps: int | None
    ram: int | None


def chosen_before(path: _Path) -> KnownChoice | None:
    """Returns the choice of the run that a file's ZO model was made for; None: there is no such file, or no choice."""
    try:
        metadata = read_metadata(load_model(path))
    except (ConversionError, OSError):
        return None
    run = run_of(metadata)
    if "start" not in run:
        return None
    steps, ram = (int(run[name]) if name in run else None for name in ("steps", "ram"))
    return KnownChoice(run["start"], algorithm_for(metadata), metadata.update_bits, steps, ram)


def of_resumed_run(zo: Model, path: _Path) -> Model:
    """Returns the ZO model of a resumed run from its file, with the learning rate that the run measured."""
    try:
        found = run_of(read_metadata(load_model(path)))
    except (ConversionError, OSError):
        return zo  # none, or another file, which `KeptZoModel` refuses
    return with_found(zo, found.get(MEASURED_RATE, "auto"))


class KeptZoModel(Callback):
    """Writes the ZO model when a run begins: replay and resumption need the very one it was trained as.

    Args:
        path: path of the file, or None to write none.
        zo: the ZO model.
        log: path of the run's log, or None.
        replace: True if it may replace another file.
        resume: True if a file with the same bytes, of the run that is resumed, is left alone.

    Raises:
        ValueError: the run is resumed, and the file is another model; raised at construction.
    """

    def __init__(self, path: _Path | None, zo: Model, log: _Path | None, *, replace: bool, resume: bool) -> None:
        self._path, self._log, self._replace, self._written = None if path is None else Path(path), log, replace, False
        there = self._path.read_bytes() if resume and self._path and self._path.exists() else None
        self._there = there is not None and there == zo.to_bytes()
        if there is not None and not self._there and not replace:
            raise ValueError(
                f"{self._path} is another ZO model than the given model makes now; resume with {self._path}, "
                "or with the model and the options that it was made from"
            )

    def on_train_begin(self, progress: RunProgress) -> None:
        """Writes the ZO model with the learning rate that the run has measured."""
        if self._path and not self._there:
            write_output(self._path, progress.model.to_bytes(), force=self._replace)
            self._written = True

    def withdraw(self) -> None:
        """Removes it again where the run has failed before it had a log."""
        if self._path and self._written and not (self._log and os.path.exists(self._log)):
            self._path.unlink(missing_ok=True)
