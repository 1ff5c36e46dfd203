# SPDX-License-Identifier: Apache-2.0
"""The ways to train a model that are worth a comparison, and which of them is likely to learn most."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from ..converters import ConversionError, Model, read_metadata
from ..training import algorithms
from ..training.checks import SettingsError
from ..training.injection import inject_for
from ..training.model_fit import check_model
from ..training.settings import Settings
from ..training.tasks import Exact, Nodes
from ..training.trained_layers import TrainedLayers, trained_layers

__all__ = ["Way", "ways"]

_BATCH = 32  # the default of runs
_SMALLER = (16, 8, 4)  # fewer samples make too noisy a step
# Bits of an update, and how it is asked for.
_BITS: dict[int, tuple[str, ...]] = {16: (), 8: ("update-bits=8",)}
_MOST_PARTS = 4  # of a network's layers, that are trained alone


@dataclass(frozen=True)
class Way:
    """A way to train a model.

    Attributes:
        name: what it is called in tables.
        settings: settings of the run.
        update_bits: bits of an update, 8 or 16.
        zo: the ZO model, of one sample an invoke.
        trained: the layers that it trains.
        set_options: what `train` and `firmware` are told besides, by --set and --algorithm.
        rank: key by which ways are sorted, the one first that is likely to learn most (docs/results.md):
            layers by their nodes or exact gradients, more of them, then large minibatches; at last weight
            perturbation, which needs many more forward passes.
    """

    name: str
    settings: Settings
    update_bits: int
    zo: Model
    trained: TrainedLayers
    set_options: tuple[str, ...]
    rank: tuple[float, ...]


def ways(model: Model) -> list[Way]:
    """Returns the ways to train a model, the one first that is likely to learn most.

    Args:
        model: a plain int8 model with a loss that can be trained.

    Raises:
        ConversionError: it can be trained in none.
    """
    found, error = list[Way](), None
    for make in (_by_nodes, _by_exact_tail, _last_layer, _by_weights):
        try:
            found.extend(make(model))
        except (ConversionError, SettingsError) as this:
            error = error or this
    if not found:
        assert error is not None
        raise error
    return sorted(found, key=lambda way: way.rank)


def _by_nodes(model: Model) -> Iterator[Way]:
    settings = algorithms.node()
    whole = list(_layerwise(model, settings, "nodes", (), better=1))
    yield from whole
    layers = len(whole[0].trained.layers)
    # The last layer alone has an exact gradient.
    counts = range(2, layers)
    chosen = counts if len(counts) <= _MOST_PARTS else [layers * i // (_MOST_PARTS + 1) for i in counts]
    for count in sorted({c for c in chosen if 1 < c < layers}, reverse=True)[:_MOST_PARTS]:
        part = dataclasses.replace(settings, layers=f"last:{count}")
        yield from _layerwise(model, part, f"nodes, last {count}", (f"layers=last:{count}",), better=1)


def _by_exact_tail(model: Model) -> Iterator[Way]:
    settings = algorithms.node()
    settings = dataclasses.replace(settings, tasks=(*settings.tasks, Exact(last="block")))
    yield from _layerwise(model, settings, "nodes, last block exact", ("exact.last=block",), better=0)


def _last_layer(model: Model) -> Iterator[Way]:
    settings = dataclasses.replace(algorithms.node(), tasks=(Nodes(), Exact(last=1)), layers="last:1")
    options = ("exact.last=1", "layers=last:1")
    yield from _layerwise(model, settings, "last layer, exact", options, better=2)


def _layerwise(
    model: Model, settings: Settings, name: str, options: tuple[str, ...], better: int
) -> Iterator[Way]:
    for bits, given in _BITS.items():
        zo = _zo(model, settings, bits)
        trained = trained_layers(zo, settings)
        for batch_size in (_BATCH, *_SMALLER):
            own = dataclasses.replace(settings, batch_size=batch_size)
            rank = (0, better, -trained.weights, -batch_size, -bits)
            yield Way(name, own, bits, zo, trained, (*options, *given), rank)


def _by_weights(model: Model) -> Iterator[Way]:
    settings = algorithms.weight()
    for bits, given in _BITS.items():
        zo = _zo(model, settings, bits)
        trained = trained_layers(zo, settings)
        rank = (1, 0, -trained.weights, -settings.batch_size, -bits)
        yield Way("weights", settings, bits, zo, trained, given, rank)


def _zo(model: Model, settings: Settings, bits: int) -> Model:
    """Returns the ZO model of a run.

    Raises:
        ConversionError: there is none.
        SettingsError: the run is not of this model, as exact gradients are of cross-entropy alone.
    """
    zo = inject_for(model, settings, batch=1, update_bits=bits)
    check_model(settings, read_metadata(zo))
    return zo
