# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The ZO model of a run that a command was given, or that it makes of a plain model, and its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..converters import ConversionError, Model, read_metadata
from ..converters.segments import with_batch
from ..training import Settings, SettingsError, algorithm, algorithm_for
from ..training.injection import inject_for, is_zo, trainable_model
from ..training.setting_names import changed
from ..training.setting_texts import parse_set, with_run
from .failures import note
from .injection import parse_loss_output, say_loss_output
from .set_option import make_settings, parse_injection, split_set

__all__ = ["ZoSource", "zo_source"]


@dataclass(frozen=True)
class ZoSource:
    """The ZO model of a run.

    Attributes:
        zo: the ZO model.
        settings: settings of the run.
        make: function that returns the ZO model of other settings, with so many bits of an update, or, for
            None, as many as they ask for; of a model that was one already, that model.
        fixed: names of the settings that were given, of a run or of `inject`.
    """

    zo: Model
    settings: Settings
    make: Callable[[Settings, int | None], Model]
    fixed: frozenset[str]


def zo_source(
    source: Model,
    path: Path,
    name: str | None,
    set_options: Sequence[str] | None,
    given: Mapping[str, Any],
    loss_output: str | None = None,
    *,
    batch: int | None = None,
    length: Mapping[str, object],
) -> ZoSource:
    """Returns the ZO model of a run and its settings.

    Args:
        source: the model that was given.
        path: its path, for messages.
        name: name of the algorithm; None: the one that the model was made for.
        set_options: texts of ``--set``, NAME=VALUE each.
        given: settings that have options of their own.
        loss_output: value of ``--loss-output``, or None.
        batch: samples per invoke of a ZO model that is made, or that train has made for its run, unless an
            operator ties it to others; None: those of a ZO model, and as many as suit the minibatch of one
            that is made.
        length: length of the run as it was given, which a ZO model that is made keeps with its settings.

    Raises:
        SettingsError: the settings are wrong, or the model does not fit them.
        ConversionError: a plain model cannot be injected.
    """
    texts, injection_texts = split_set(set_options)
    for option in given:
        if option in texts:
            raise SettingsError(f"--set {option.replace('_', '-')}", "be given once")

    def values(usual: Settings) -> dict[str, Any]:
        return {**given, **parse_set(usual, texts)}

    injection = parse_injection(injection_texts)
    if loss_output is not None:
        injection["loss_output"] = parse_loss_output(loss_output)
    if is_zo(source):
        if injection:
            first = "--loss-output" if loss_output is not None else f"--set {next(iter(injection_texts))}"
            raise ValueError(f"{first.replace('_', '-')}: {path} is a ZO model already; give the plain model")
        usual = _of_zo_model(source, path, name)
        zo = source if batch is None else _of_batch(source, path, batch)
    else:
        if batch is not None:
            injection["batch"] = batch
        zo, settings = trainable_model(
            source,
            None if name is None else algorithm(name),
            lambda usual: changed(usual, values(usual)),
            **injection,
        )
        usual = algorithm(settings.algorithm)
        say_loss_output(zo, loss_output)

    def make(settings: Settings, bits: int | None) -> Model:
        if zo is source:
            return zo
        own = {} if bits is None else {"update_bits": bits}
        made = zo if is_zo(source) else inject_for(source, settings, **{**injection, **own})
        return with_run(made, settings, algorithm(settings.algorithm), length)

    own = make_settings(usual, values(usual), read_metadata(zo))
    fixed = {*given, *texts, *injection_texts}
    if is_zo(source):  # what is part of the model
        fixed |= {"update_bits"} if own.is_layerwise else {"update_bits", "layers"}
    kept = zo if zo is source else with_run(zo, own, algorithm(own.algorithm), length)
    return ZoSource(kept, own, make, frozenset(fixed))


def _of_batch(zo: Model, path: Path, batch: int) -> Model:
    metadata = read_metadata(zo)
    own = metadata.batch
    try:
        return with_batch(zo, batch) if metadata.run and own != batch else zo
    except ConversionError:
        note(f"an operator ties {path} to its batch of {own}")
        return zo


def _of_zo_model(zo: Model, path: Path, name: str | None) -> Settings:
    metadata = read_metadata(zo)
    settings = algorithm_for(metadata, name)
    if settings.algorithm == "node" and not metadata.nodes:
        raise SettingsError(
            "algorithm",
            f"fit {path}, which carries no nodes",
            settings.algorithm,
            "Give the plain model, or inject it with",
            inject={"algorithm": settings.algorithm},
        )
    return settings
