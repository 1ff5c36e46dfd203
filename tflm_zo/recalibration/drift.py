"""The drift of data: how far the channels of a model's layers are from those of the data that it was made for."""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass

from ..converters import Model, load_model
from ..data import Samples
from .moments import moments_of
from .recalibrate import kept_statistics, shift_of
from .running_moments import RunningMoments
from .walk import corrected_layers, corrected_names, layer_outputs


@dataclass(frozen=True)
class Drift:
    """The drift of samples."""

    samples: int  #: number of samples.
    layers: dict[str, float]  #: drift of each layer by name, in execution order, in old deviations, >= 0.

    @property
    def score(self) -> float:
        """The median of the drifts of the layers, in old deviations, >= 0."""
        return statistics.median(self.layers.values())


def drift(
    model: Model | str | os.PathLike[str] | bytes, x: Samples | RunningMoments, *, runtime: str = "litert"
) -> Drift:
    """Measures how far new data are from the data that a model was made for, without labels.

    The means and deviations of the channels of each layer that `recalibrate` corrects are compared with those of the
    old data. With the shift of a mean in old deviations and the logarithm of new / old deviation, both as root mean
    squares over the channels, the drift of a layer is

        sqrt(s_m mean_shift^2 + s_d deviation_shift^2)

    s_m and s_d, 0..1, are the shares of the shifts that are not chance, those that `recalibrate` corrects.

    Args:
        model: a plain int8 model that keeps statistics (of ``convert``, ``recalibrate`` or ``train``).
        x: samples, as `Trainer.fit` takes them, of which labels are not read; or `RunningMoments` of one layer.
        runtime: name of the runtime that runs the model.

    Raises:
        ConversionError: the model keeps no statistics.
        DataError: the samples or moments cannot be used.

    Example:
        >>> tflm_zo.drift("model.tflite", x).score  # doctest: +SKIP
    """
    source = load_model(model)
    old, layers, names = kept_statistics(source), corrected_layers(source), corrected_names(source)
    if isinstance(x, RunningMoments):
        x.check_use(source)
        count, found = x.samples, {x.layer: x.moments}
    else:
        outputs = layer_outputs(source, layers, x, runtime)
        count, found = len(outputs[0]), {i: moments_of(values) for i, values in enumerate(outputs)}
    return Drift(count, {names[i]: shift_of(layers[i], old, i, now, count).size for i, now in found.items()})
