# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The recalibration of a model to new data, without labels and without gradients."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..converters import ConversionError, Model, load_model
from ..converters.channel_statistics import (
    Statistics,
    read_statistics,
    with_statistics,
)
from ..converters.model import Operator
from ..converters.passes.layer_names import layers_of
from ..converters.rescale_channels import is_per_channel, rescale_channels, why_fixed
from ..data import DataError, Samples
from .moments import Moments, Shift, channel_statistics, is_uneven, layout_of, shift_between
from .running_moments import RunningMoments
from .walk import SampleWalk, Walk, corrected_layers, layer_outputs, prepared

#: Corrections of a layer at most, each measured behind the one before: a clamped output takes more than one.
ROUNDS: Final = 3

Watch = Callable[[Sequence[Operator]], Iterable[Operator]]


@dataclasses.dataclass(frozen=True)
class LayerChange:
    """What recalibration has found and done in a layer.

    Attributes:
        layer: name of the layer.
        operator: kind of the operator, e.g. "CONV_2D".
        channels: number of its output channels.
        corrected: number of channels that were corrected.
        mean_shift: how far the channels' means had moved, in their old deviations, root mean square.
        deviation_shift: logarithm of new deviation / old deviation, root mean square.
        mean_share: share of ``mean_shift`` that was taken back, 0..1; the rest may be chance.
        deviation_share: share of ``deviation_shift`` that was taken back.
        left_alone: why the layer was left alone; None where it was not.
    """

    layer: str
    operator: str
    channels: int
    corrected: int = 0
    mean_shift: float = 0.0
    deviation_shift: float = 0.0
    mean_share: float = 0.0
    deviation_share: float = 0.0
    left_alone: str | None = None


@dataclasses.dataclass(frozen=True)
class Recalibration:
    """A recalibrated model, and what was done to it.

    Attributes:
        model: plain int8 model, which keeps the statistics that it was led back to.
        samples: number of new samples.
        source_samples: number of samples that the old statistics are of.
        uneven: True if nothing was corrected, since the data differ from place to place, as by a rotation or
            because they are of one class alone.
        layers: every layer with a filter, in execution order.
    """

    model: Model
    samples: int
    source_samples: int
    uneven: bool
    layers: tuple[LayerChange, ...]

    def save(self, path: str | os.PathLike[str], force: bool = False) -> Path:
        """Writes the model; see ``Model.save``."""
        return self.model.save(path, force)


def channel_statistics_of(
    model: Model, x: Samples, *, runtime: str = "litert", threads: int = 1
) -> Statistics:
    """Returns the statistics of a plain model's layers on data.

    Args:
        model: a plain int8 model.
        x: 2 samples or more, of the data that the model was made for.
        runtime: name of the runtime that runs it.
        threads: number of threads of the runtime.

    Raises:
        ConversionError: the model cannot be recalibrated.
        DataError: the samples cannot be used.
    """
    layers = corrected_layers(model)
    return statistics_of_outputs(layers, layer_outputs(model, layers, x, runtime, threads))


def statistics_of_outputs(layers: Sequence[Operator], outputs: Sequence[NDArray[np.int8]]) -> Statistics:
    """Returns the statistics of a plain model's corrected layers, by their outputs, [samples, ...] each.

    Raises:
        DataError: there is one sample only, or none.
    """
    if len(outputs[0]) < 2:
        raise DataError("statistics take 2 samples at least; some hundred are good")
    found = [channel_statistics(y, _zero_point(op)) for y, op in zip(outputs, layers, strict=True)]
    return Statistics(len(outputs[0]), found, layout_of(outputs[0]))


def recalibrate(
    model: Model | str | os.PathLike[str] | bytes,
    x: Samples | RunningMoments | Callable[[Model], Walk],
    *,
    source: Samples | None = None,
    runtime: str = "litert",
    threads: int = 1,
    watch: Watch = iter,
) -> Recalibration:
    """Leads a model's channels back to the means and deviations that they have on the data it was made for.

    Each channel of a layer's output gets a factor a = old deviation / new deviation and an offset b = old
    mean - a * new mean, which go into the filter's scales and the bias; weights, operators and arena stay as
    they are. Layers follow one another in execution order, each measured behind the corrected ones, and up to
    three times where its output is clamped. a is 1/3 to 3. A channel that is constant stays. Of a shift that
    may be chance the likely part is left (`LayerChange.mean_share`), so samples of the old data change next
    to nothing. The layer that computes the model's answer is left alone, for the mean of an answer depends on
    how frequent the classes are.

    Where the first layer's shift differs much from place to place, more than it is one of the whole picture,
    nothing is corrected (`Recalibration.uneven`): rotated images are like that, and samples of one class.

    Args:
        model: a plain int8 model, its path or its bytes; it is not changed.
        x: samples of the new data, without labels, from 16 on, of all classes; or `RunningMoments` of a layer
            of this very model, which alone is corrected then; or a function that is given the model that is
            corrected and leads samples elsewhere through it (`fleet.flower.recalibrate_fleet`).
        source: samples of the data that the model was made for, some hundred; None: the statistics that the
            model keeps, as `convert` and `recalibrate` leave them.
        runtime: name of the runtime that runs the model.
        threads: number of threads of the runtime; the result is the same for any number.
        watch: function that passes the layers on, for a progress bar.

    Returns:
        The model, which keeps the old statistics, so that it can be recalibrated again, and what was done.

    Raises:
        ConversionError: the model keeps no statistics and there is no source, or it cannot be recalibrated.
        DataError: the samples or moments cannot be used.
        OSError: a file cannot be read.

    Example:
        >>> tflm_zo.recalibrate("model.tflite", x).save("recalibrated.tflite")  # doctest: +SKIP
    """
    loaded = model if isinstance(model, Model) else load_model(model)
    corrected_layers(loaded)  # what cannot be recalibrated is said first
    old = (
        read_statistics(loaded)
        if source is None
        else channel_statistics_of(loaded, source, runtime=runtime, threads=threads)
    )
    if old is None:
        raise ConversionError(
            "the model keeps no statistics of the data that it was made for; give samples of them as source"
        )
    result = with_statistics(loaded, old)
    before = result.referenced_buffers()
    graph, layers = result.subgraphs[0], corrected_layers(result)
    changes: dict[Operator, tuple[Shift, int]] = {}
    uneven = False
    if isinstance(x, RunningMoments):
        x.check_model(loaded)
        if x.samples < 1:
            raise DataError("the moments are of no sample")
        samples = x.samples
        layer, was = layers[x.layer], old.layers[x.layer]
        shift = shift_between(was, old.samples, x.moments, samples, _zero_point(layer))

        def rescale(_: int, factors: NDArray[np.float64], shifts: NDArray[np.float64]) -> NDArray[np.bool_]:
            return rescale_channels(graph, layer, factors, shifts)

        _, corrected = _correct(layer, x.layer, shift, x.moments, np.ones(len(was.mean)), rescale)
        changes[layer] = shift, int(corrected.sum())
    else:
        walk = x(result) if callable(x) else SampleWalk(result, prepared(loaded, x), runtime, threads)
        samples = walk.samples
        for number, layer in enumerate(watch(layers)):
            now = walk.moments(number)
            if number == 0 and _is_uneven(old, walk, _zero_point(layer)):
                uneven = True
                break
            changes[layer] = _recalibrate_layer(layer, old, number, now, walk)
            walk.leave(number)
    # What new biases replaced would only take up flash; buffers that nothing used in the original stay.
    after = result.referenced_buffers()
    result.buffers = [b for b in result.buffers if b not in before or b in after]
    return Recalibration(result, samples, old.samples, uneven, _report(result, changes))


def _zero_point(layer: Operator) -> int:
    quantization = layer.outputs[0].quantization
    assert quantization is not None  # inject has checked it
    return quantization.zero_point


def _is_uneven(old: Statistics, walk: Walk, zero_point: int) -> bool:
    found = walk.cells()
    if old.layout is None or found is None:
        return False
    cells = found[0] / (walk.samples * found[1][:, None]) - zero_point
    return is_uneven(old.layout, old.samples, old.layers[0], cells, walk.samples)


def _recalibrate_layer(
    layer: Operator, old: Statistics, number: int, now: Moments, walk: Walk
) -> tuple[Shift, int]:
    shift = shift_between(old.layers[number], old.samples, now, walk.samples, _zero_point(layer))
    factors, corrected = np.ones(len(now.sums)), np.zeros(len(now.sums), bool)
    for _ in range(ROUNDS):
        factors, moved = _correct(layer, number, shift, now, factors, walk.correct)
        if not moved.any():
            break
        corrected |= moved
        now = walk.moments(number)
    return shift, int(corrected.sum())


def _correct(
    layer: Operator,
    number: int,
    shift: Shift,
    now: Moments,
    before: NDArray[np.float64],
    rescale: Callable[[int, NDArray[np.float64], NDArray[np.float64]], NDArray[np.bool_]],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Corrects a layer once; returns the product of its factors so far, and which channels have changed."""
    quantization = layer.outputs[0].quantization
    assert quantization is not None
    wanted = shift.correction(now, quantization.zero_point, shared=not is_per_channel(layer), before=before)
    if wanted is None:
        return before, np.zeros(len(before), bool)
    factors, shifts = wanted
    done = rescale(number, factors, shifts * quantization.scale)
    return np.where(done, before * factors, before), done & ((factors != 1) | (shifts != 0))


def _report(model: Model, changes: dict[Operator, tuple[Shift, int]]) -> tuple[LayerChange, ...]:
    graph, found = model.subgraphs[0], []
    for layer, name in layers_of(graph.operators).items():
        channels = layer.outputs[0].shape[-1]
        if layer not in changes:
            found.append(LayerChange(name, layer.code.name, channels, left_alone=why_fixed(graph, layer)))
            continue
        shift, corrected = changes[layer]
        found.append(
            LayerChange(
                name, layer.code.name, channels, corrected,
                shift.mean_shift, shift.deviation_shift, shift.mean_share, shift.deviation_share,
            )
        )  # fmt: skip
    return tuple(found)
