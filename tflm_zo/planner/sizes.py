# SPDX-License-Identifier: Apache-2.0
"""Bytes that ways to train take of a device: RAM, flash, log.

Those of backpropagation follow the equations of ElasticZO (arXiv 2501.04287, sec. 4).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from ..converters import Model, ZoMetadata
from ..converters.kernels import FILTER_OPERATORS
from ..converters.model import Operator
from ..data import Data
from ..firmware.device_model import DeviceModel, device_models
from ..firmware.planning import plan_blocks, plan_run
from ..firmware.resolver import operators_of
from ..firmware.sizes import Ram, arenas_of_devices, flash_of_training, log_size_of, ram_of
from ..training.lowering import LoweredRun
from .ways import Way

__all__ = ["Backpropagation", "SAMPLES", "Sizes", "backpropagation", "sizes_of"]


@dataclass(frozen=True)
class Backpropagation:
    """Bytes that backpropagation of some layers takes.

    Attributes:
        float32: in float32, by stochastic gradient descent (eq. 2, or eq. 4 where the first layers are left).
        adam: in float32, by Adam, which keeps two moments of each gradient besides (eq. 5).
        int8: in int8 with 32-bit sums, as NITI trains (eq. 13, or eq. 15).
    """

    float32: int
    adam: int
    int8: int


def backpropagation(model: Model, trained: Collection[str], batch_size: int) -> Backpropagation:
    """Returns the memory that backpropagation of layers takes.

    All buffers are counted for the whole of a step, as the paper does: weights of all layers, activations of
    a minibatch, and, from the first trained layer on, errors of activations and gradients of weights.

    Args:
        model: a plain model, of one sample an invoke.
        trained: names of the filters that are trained.
        batch_size: samples of a minibatch.
    """
    (graph,) = model.subgraphs
    layers = graph.operators
    weights = gradients = activations = errors = sums = 0
    begun = False
    for op in layers:
        filters = _filter(op)
        own = op.outputs[0].size * batch_size
        activations += own
        is_trained = filters is not None and filters[0] in trained
        if filters is not None:
            weights += filters[1]
            sums += own  # eq. 13 to 15: the 32-bit sums of an activation
        if begun and filters is not None and op.inputs[0] is not None:
            sums += op.inputs[0].size * batch_size  # the 32-bit errors that a layer passes back
        begun = begun or is_trained
        if begun:
            errors += own
        if is_trained and filters is not None:
            gradients += filters[1]
    values = weights + gradients + activations + errors
    return Backpropagation(
        float32=4 * values, adam=4 * (values + 2 * gradients), int8=values + 4 * (sums + gradients)
    )


def _filter(op: Operator) -> tuple[str, int] | None:
    """Name of an operator's filter, and the number of its weights and biases."""
    filters = op.input(1)
    if op.builtin not in FILTER_OPERATORS or filters is None or not filters.is_constant:
        return None
    biases = op.input(2)
    return filters.name, filters.size + (0 if biases is None else biases.size)


#: Samples of a run that is planned before there are any; a step's bytes do not depend on them.
SAMPLES = 100
# Bytes of flash of a program that infers, without its model, as a sum over kinds of operators: fitted to what
# docs/costs.md has, of a Cortex-M4 with CMSIS-NN's kernels (benchmarks/firmware_flash.py).
_PROGRAM, _KERNEL = 22_000, 5_200


@dataclass(frozen=True)
class Sizes:
    """Bytes that a way to train takes.

    Attributes:
        ram: bytes of RAM by part.
        flash: bytes of flash in all: a program, model, training.
        log: bytes of log a step, averaged; of the block with the longest, where one is chosen.
    """

    ram: Ram
    flash: int
    log: int


def sizes_of(model: Model, found: Sequence[Way]) -> list[Sizes]:
    """Returns the bytes of each way to train a model.

    Args:
        model: the plain model.
        found: ways to train it.
    """
    inference = _PROGRAM + _KERNEL * len(operators_of([model])) + len(model.to_bytes())
    runs = [_run(way) for way in found]
    # A device's models are the same whatever the minibatch is, and TFLM's recording allocator takes longer to
    # start than to record all of them.
    keys = [(id(way.zo), way.settings.layers, way.search) for way in found]
    devices: dict[object, list[DeviceModel]] = {}
    for key, way, run in zip(keys, found, runs, strict=True):
        if key not in devices:
            devices[key] = device_models(way.zo, run)
    every = iter(arenas_of_devices([device for own in devices.values() for device in own]))
    arenas = {key: [next(every) for _ in own] for key, own in devices.items()}
    sizes = []
    for key, way, run in zip(keys, found, runs, strict=True):
        ram, _ = ram_of(way.zo, way.metadata, run, devices[key], arenas=arenas[key])
        sizes.append(Sizes(ram, inference + flash_of_training(run), _log_bytes(way.metadata, run)))
    return sizes


def _run(way: Way) -> LoweredRun:
    if way.search is None:
        return plan_run(way.zo, way.settings, steps=1, samples=SAMPLES)
    # Where nothing is measured, a search looks at the number of samples alone.
    samples = Data([], np.zeros(SAMPLES, np.int32))
    return plan_blocks(way.zo, way.settings, way.search, samples, steps=1, measures=False)


def _log_bytes(metadata: ZoMetadata, run: LoweredRun) -> int:
    """Returns the bytes that a step adds to the log (docs/file-formats.md): a record, and, of a layer-wise
    run, its share of a snapshot.
    """
    log = log_size_of(metadata, run)
    return log.record + (-(-log.slot // run.interval) if run.tasks else 0)
