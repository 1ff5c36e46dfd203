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
from ..converters.channel_statistics import Statistics, read_statistics, with_statistics
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
    """The shift of a layer and its correction."""

    layer: str  #: name of the layer.
    operator: str  #: kind of the operator, e.g. "CONV_2D".
    channels: int  #: number of its output channels.
    corrected: int = 0  #: number of channels that were corrected.
    mean_shift: float = 0.0  #: shift of the channels' means, in old deviations, root mean square.
    deviation_shift: float = 0.0  #: logarithm of new deviation / old deviation, root mean square.
    mean_share: float = 0.0  #: share of ``mean_shift`` that was corrected, 0..1; the rest may be chance.
    deviation_share: float = 0.0  #: share of ``deviation_shift`` that was corrected.
    left_alone: str | None = None  #: reason why the layer was not corrected, or None.


@dataclasses.dataclass(frozen=True)
class Recalibration:
    """A recalibrated model and its corrections."""

    model: Model  #: plain int8 model, which keeps the old statistics.
    samples: int  #: number of new samples.
    source_samples: int  #: number of samples of the old statistics.
    #: True if no layer was corrected because the shift differs between places of the image, as after a rotation or with
    #: samples of one class.
    uneven: bool
    layers: tuple[LayerChange, ...]  #: every layer with a filter, in execution order.

    @property
    def sentence(self) -> str:
        """A sentence about the corrections and the number of samples, or the reason why there were none."""
        if self.uneven:
            return (
                "nothing is recalibrated: the data differ from the old ones more from place to place than as "
                "a whole, as rotated images do, or samples of one class alone; scales and biases cannot undo "
                "that"
            )
        channels = sum(layer.corrected for layer in self.layers)
        layers = sum(layer.corrected > 0 for layer in self.layers)
        return (
            f"{channels:,} channels in {layers} of {len(self.layers)} layers corrected from {self.samples:,} "
            f"new samples and {self.source_samples:,} of the old data"
        )

    def save(self, path: str | os.PathLike[str], force: bool = False) -> Path:
        """Writes the model; see ``Model.save``."""
        return self.model.save(path, force)


def channel_statistics_of(model: Model, x: Samples, *, runtime: str = "litert", threads: int = 1) -> Statistics:
    """Returns the statistics of a plain model's layers on at least 2 samples of the data that it was made for.

    Raises:
        ConversionError: the model cannot be recalibrated.
        DataError: the samples cannot be used.
    """
    layers = corrected_layers(model)
    return statistics_of_outputs(layers, layer_outputs(model, layers, x, runtime, threads))


def statistics_of_outputs(layers: Sequence[Operator], outputs: Sequence[NDArray[np.int8]]) -> Statistics:
    """Returns statistics of corrected layers from their outputs, [samples, ...]. DataError: one sample."""
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
    """Restores the mean and deviation of a model's channels on new data.

    Each channel of a layer's output gets a factor a = old deviation / new deviation, 1/3 to 3, and an offset b = old
    mean - a * new mean. They change the filter's scales and the bias; weights, operators and arena do not change.
    Layers are corrected in execution order, each measured after the earlier corrections, and up to three times if its
    output is clamped. Constant channels are not corrected. The part of a shift that may be chance is not corrected
    either (`LayerChange.mean_share`), so samples of the old data change almost nothing. The layer that computes the
    model's answer is excluded, because its mean depends on the frequencies of the classes.

    No layer is corrected if the first layer's shift differs much between places of the image (`Recalibration.uneven`),
    as with rotated images or samples of one class.

    Args:
        model: a plain int8 model, its path or its bytes; it is not changed.
        x: at least 16 samples of the new data, of all classes, without labels; or `RunningMoments` of a layer of this
            model, to correct that layer only; or a function that returns the `Walk` of samples in other places
            (`fleet.flower.recalibrate_fleet`).
        source: a few hundred samples of the data that the model was made for; None: the statistics that `convert` and
            `recalibrate` store in the model.
        runtime: name of the runtime that runs the model.
        threads: number of threads. Does not affect results.
        watch: function that wraps the iterator of layers, for a progress bar.

    Returns:
        The model, which keeps the old statistics for the next recalibration, and its corrections.

    Raises:
        ConversionError: the model has no statistics and `source` is None, or the model cannot be recalibrated.
        DataError: the samples or moments cannot be used.
        OSError: a file cannot be read.

    Example:
        >>> tflm_zo.recalibrate("model.tflite", x).save("recalibrated.tflite")  # doctest: +SKIP
    """
    loaded = load_model(model)
    corrected_layers(loaded)  # refuses a model without such layers first
    old = (
        kept_statistics(loaded)
        if source is None
        else channel_statistics_of(loaded, source, runtime=runtime, threads=threads)
    )
    result = with_statistics(loaded, old)
    before = result.referenced_buffers()
    graph, layers = result.subgraphs[0], corrected_layers(result)
    changes: dict[Operator, tuple[Shift, int]] = {}
    uneven = False
    if isinstance(x, RunningMoments):
        x.check_use(loaded)
        samples, layer = x.samples, layers[x.layer]
        shift = shift_of(layer, old, x.layer, x.moments, samples)

        def rescale(_: int, factors: NDArray[np.float64], shifts: NDArray[np.float64]) -> NDArray[np.bool_]:
            return rescale_channels(graph, layer, factors, shifts)

        _, corrected = _correct(layer, x.layer, shift, x.moments, np.ones(len(old.layers[x.layer].mean)), rescale)
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
    # Buffers that new biases replaced would waste flash. Buffers that the original did not use are kept.
    after = result.referenced_buffers()
    result.buffers = [b for b in result.buffers if b not in before or b in after]
    return Recalibration(result, samples, old.samples, uneven, _report(result, changes))


def kept_statistics(model: Model) -> Statistics:
    """Returns the statistics of the old data that a model keeps; raises ConversionError if there are none."""
    found = read_statistics(model)
    if found is None:
        raise ConversionError(
            "the model keeps no statistics of the data that it was made for; give samples of them as source"
        )
    return found


def shift_of(layer: Operator, old: Statistics, number: int, now: Moments, samples: int) -> Shift:
    """Returns the shift of the corrected layer of a number, from the old statistics to its moments on new samples."""
    return shift_between(old.layers[number], old.samples, now, samples, _zero_point(layer))


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


def _recalibrate_layer(layer: Operator, old: Statistics, number: int, now: Moments, walk: Walk) -> tuple[Shift, int]:
    shift = shift_of(layer, old, number, now, walk.samples)
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
    """Corrects a layer once. Returns the product of its factors so far, and the changed channels."""
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
