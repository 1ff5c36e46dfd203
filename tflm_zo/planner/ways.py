"""The ways to train a model that are worth a comparison, and the bytes that they take of a device.

Those of backpropagation follow the equations of ElasticZO (arXiv 2501.04287, sec. 4).
"""

from __future__ import annotations

import dataclasses
import glob
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ..converters import ConversionError, InjectSettings, Model, ZoMetadata, read_metadata
from ..converters.kernels import FILTER_OPERATORS
from ..converters.model import Operator, Tensor
from ..converters.selections import Last
from ..converters.settings import NODES, InjectChanges
from ..converters.states import is_streaming
from ..firmware.boundaries import Rerun, boundaries_of
from ..firmware.device_model import DeviceModel, device_model
from ..firmware.planning import plan_run
from ..firmware.resolver import operators_of
from ..firmware.sizes import Ram, arenas_of_devices, flash_of_training, log_size_of, ram_within
from ..training import algorithms
from ..training.algorithms import with_fitting_minibatch
from ..training.checks import SettingsError
from ..training.injection import inject_plain, inject_settings
from ..training.lowering import LoweredRun
from ..training.model_fit import check_model
from ..training.settings import Settings
from ..training.trained_layers import TrainedLayers, trained_layers

#: Algorithms of the ladder.
LADDER = ("exact", "node", "weight")
_MINIBATCHES = (8, 4, 2, 1)  # the default of runs, and those that take less memory
# Bits of an update, and how it is asked for.
_BITS: dict[int, tuple[str, ...]] = {16: (), 8: ("update-bits=8",)}
_QUARTERS = 4  # of a network's layers, the last of which are trained alone


@dataclass(frozen=True)
class Way:
    """A way to train a model: a rung of the ladder."""

    name: str  # name in tables
    settings: Settings  # settings of the run
    update_bits: int  # bits of an update, 8 or 16
    zo: Model  # the ZO model of batch size 1; ways may share it
    metadata: ZoMetadata  # the ZO model's metadata
    trained: TrainedLayers  # the trained layers
    set_options: tuple[str, ...]  # settings that differ from the algorithm's, as --set takes them
    # sort key, which puts the way first that is likely to learn most (docs/results.md): exact gradients, then node
    # perturbation, the last layer alone, weight perturbation; then more layers, then larger minibatches
    rank: tuple[float, ...]

    @property
    def is_whole(self) -> bool:
        """Returns whether it trains all layers that its algorithm can train."""
        return self.settings.layers is None

    @property
    def trains_last_layer_alone(self) -> bool:
        """Returns whether it trains the last layer alone."""
        return self.settings.layers == Last(1)


class _Models:
    """A cache of the ZO models of a plain model."""

    def __init__(self, model: Model, given: InjectChanges) -> None:
        self._model, self._given = model, given
        self._made: dict[InjectSettings, tuple[Model, ZoMetadata]] = {}

    def of(self, settings: Settings, bits: int) -> tuple[Model, ZoMetadata]:
        """Returns the ZO model of a run and its metadata; raises ConversionError or SettingsError if the model, which
        may have fewer layers, does not fit the run.
        """
        own: InjectChanges = {**self._given, "batch": 1, "update_bits": bits}
        key = inject_settings(settings, **own)
        if key not in self._made:
            zo = inject_plain(self._model, self._with_known_layers(key), batch=1)
            self._made[key] = zo, read_metadata(zo)
        zo, metadata = self._made[key]
        check_model(with_fitting_minibatch(settings, metadata), metadata)
        return zo, metadata

    def _with_known_layers(self, key: InjectSettings) -> InjectSettings:
        """Returns the settings with the layer names of a model with other update bits, which saves half of the time."""
        for other, (_, metadata) in self._made.items():
            if key.trainable == NODES and dataclasses.replace(other, update_bits=key.update_bits) == key:
                names = dict.fromkeys(glob.escape(t.layer) for t in metadata.trainable)
                return dataclasses.replace(key, trainable=list(names))
        return key


def ways(model: Model, inject: InjectChanges | None = None, *, forward_only: bool = False) -> list[Way]:
    """Returns the ladder: the ways to train a plain int8 model. The first is likely to learn most. With `update_bits`
    among the settings of `inject`, ways with others are left out; with `forward_only` those that pass errors back
    through layers. Raises ConversionError if the model cannot be trained.
    """
    models, found, error = _Models(model, inject or {}), list[Way](), None
    # Weights alone can be perturbed for a whole sequence.
    first = 3 if is_streaming(model) else 1 if forward_only else 0
    for make in (_by_exact, _by_nodes, _last_layer, _by_weights)[first:]:
        try:
            found.extend(make(models))
        except (ConversionError, SettingsError) as this:
            error = error or this
    if not found:
        assert error is not None
        raise error
    bits = (inject or {}).get("update_bits")
    return sorted((way for way in found if bits in (None, way.update_bits)), key=lambda way: way.rank)


def _by_exact(models: _Models) -> Iterator[Way]:
    # One sample at a time learns as much as a minibatch (docs/results.md) and takes the least memory.
    settings = algorithms.exact()
    whole = list(_of_all_sizes(models, settings, "exact gradients", (), 0, (settings.batch_size,)))
    yield from whole
    layers = len(whole[0].trained.layers)
    # The last layer alone has a way of its own.
    for count in sorted({2, *(layers * i // _QUARTERS for i in range(1, _QUARTERS))}):
        if 1 < count < layers:
            part = dataclasses.replace(settings, layers=Last(count))
            options = (f"layers=last:{count}",)
            yield from _of_all_sizes(models, part, f"exact, last {count}", options, 0, (part.batch_size,))


def _by_nodes(models: _Models) -> Iterator[Way]:
    yield from _of_all_sizes(models, algorithms.node(), "nodes", (), 1, _MINIBATCHES)


def _last_layer(models: _Models) -> Iterator[Way]:
    options = ("exact.last=1", "layers=last:1")
    yield from _of_all_sizes(models, algorithms.last_layer(), "last layer, exact", options, 2, _MINIBATCHES)


def _by_weights(models: _Models) -> Iterator[Way]:
    settings = algorithms.weight()
    yield from _of_all_sizes(models, settings, "weights", (), 3, (settings.batch_size,))
    biases = dataclasses.replace(settings, tasks=(dataclasses.replace(settings.weights, parameters="biases"),))
    yield from _of_all_sizes(models, biases, "biases", ("parameters=biases",), 4, (settings.batch_size,))


def _of_all_sizes(
    models: _Models, settings: Settings, name: str, options: tuple[str, ...], order: int, minibatches: Sequence[int]
) -> Iterator[Way]:
    for bits, given in _BITS.items():
        zo, metadata = models.of(settings, bits)
        trained = trained_layers(zo, settings)
        # An operator may tie the model to a batch.
        runs = (with_fitting_minibatch(dataclasses.replace(settings, batch_size=n), metadata) for n in minibatches)
        for own in {run.batch_size: run for run in runs}.values():
            rank = (order, -trained.weights, -own.batch_size, -bits)
            yield Way(name, own, bits, zo, metadata, trained, (*options, *given), rank)


@dataclass(frozen=True)
class Backpropagation:
    """Memory of backpropagation in some layers, bytes."""

    float32: int  # with stochastic gradient descent in float32 (eq. 2, or eq. 4 without the first layers).
    adam: int  # with Adam in float32, which keeps two moments of each gradient (eq. 5).
    int8: int  # in int8 with 32-bit sums, as in NITI (eq. 13, or eq. 15).


def backpropagation(model: Model, trained: Collection[str], minibatch: int) -> Backpropagation:
    """Returns the memory of backpropagation in layers, for a plain model of batch size 1; `trained` has the names of
    filters or biases. As in the paper, it counts all buffers of a step: weights of all layers, activations of a
    minibatch, and, from the first trained layer on, errors of activations and gradients of weights.
    """
    layers = [op for op in model.only_graph.operators if op.outputs]
    weights = gradients = activations = errors = sums = 0
    begun = False
    for op in layers:
        tensors = _parameters(op)
        own = op.outputs[0].size * minibatch
        activations += own
        is_trained = any(t.name in trained for t in tensors)
        if tensors:
            weights += sum(t.size for t in tensors)
            sums += own  # eq. 13 to 15: the 32-bit sums of an activation
        if begun and tensors and op.inputs[0] is not None:
            sums += op.inputs[0].size * minibatch  # the 32-bit errors that a layer passes back
        begun = begun or is_trained
        if begun:
            errors += own
        if is_trained:
            # Filters are trained with their biases, or biases alone.
            gradients += sum(t.size for t in tensors[0 if tensors[0].name in trained else 1 :])
    values = weights + gradients + activations + errors
    return Backpropagation(float32=4 * values, adam=4 * (values + 2 * gradients), int8=values + 4 * (sums + gradients))


def _parameters(op: Operator) -> list[Tensor]:
    """Returns an operator's filter and biases; [] for an operator without a filter."""
    filters, biases = op.input(1), op.input(2)
    if op.builtin not in FILTER_OPERATORS or filters is None or not filters.is_constant:
        return []
    return [filters] if biases is None else [filters, biases]


#: Samples of a run that is planned before there are any; a step's bytes do not depend on them.
SAMPLES = 100
# Flash of a program that infers, without its model, as a sum over kinds of operators, bytes; fitted to
# docs/costs.md, for a Cortex-M4 with CMSIS-NN's kernels (benchmarks/firmware_flash.py).
_PROGRAM, _KERNEL = 22_000, 5_200


@dataclass(frozen=True)
class Sizes:
    """Sizes of a way to train."""

    run: LoweredRun  # one step of the run
    ram: Ram  # bytes of RAM by part
    flash: int  # total flash (program, model, training), bytes
    log: int  # average size of the log per step, bytes
    reruns: tuple[Rerun, ...] = ()  # segments that run again in a step to save memory


def sizes_of(model: Model, found: Sequence[Way], limit: int | None = None) -> list[Sizes]:
    """Returns the sizes of each way to train a plain model; one beyond `limit` bytes of RAM saves all it can."""
    inference = _PROGRAM + _KERNEL * len(operators_of([model])) + len(model.to_bytes())
    runs = [plan_run(way.zo, way.settings, steps=1, samples=SAMPLES) for way in found]
    # A device's model does not depend on the minibatch, and TFLM's recording allocator takes longer to start
    # than to record all of them.
    keys = [(id(way.zo), way.settings.layers) for way in found]
    devices: dict[object, DeviceModel] = {}
    for key, way, run in zip(keys, found, runs, strict=True):
        if key not in devices:
            devices[key] = device_model(way.zo, run)
    arenas = dict(zip(devices, arenas_of_devices(list(devices.values())), strict=True))
    sizes = []
    for key, way, run in zip(keys, found, runs, strict=True):
        own = dataclasses.replace(devices[key], plan=run)
        ram, saving = ram_within(way.zo, way.metadata, own, limit, arena=arenas[key])
        reruns = tuple(boundaries_of(way.zo, way.metadata, saving).reruns) if saving.plan.memory.recomputed else ()
        flash, log = inference + flash_of_training(run), _log_bytes(way.metadata, run)
        sizes.append(Sizes(saving.plan, ram, flash, log, reruns))
    return sizes


def _log_bytes(metadata: ZoMetadata, run: LoweredRun) -> int:
    """Returns a step's bytes in the log (docs/file-formats.md): a record and its share of a snapshot."""
    log = log_size_of(metadata, run)
    return log.record + (-(-log.slot // run.interval) if run.tasks else 0)
