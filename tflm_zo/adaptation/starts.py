"""The model that a run begins with: as it is or recalibrated, with its own last layer or one by class means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..converters import ConversionError, Model
from ..converters.grow_classes import QUIET, class_layer
from ..converters.model import Subgraph
from ..converters.passes.loss import logits_of, output_number
from ..data import Data
from ..recalibration.walk import outputs_of

# Slopes of logits that are tried, as shares of the largest one that clamps none.
_SLOPES: Final = 2.0 ** (-np.arange(17) / 2)
# Scale of weights whose class means are all the same.
_SMALLEST_SCALE: Final = 1e-6
_INT32: Final = np.iinfo(np.int32)

_AS_IS, _RECALIBRATED, _CLASS_MEANS = "as is", "recalibrated", "class means"


@dataclass(frozen=True)
class Start:
    """A model that a run may begin with."""

    model: Model  # plain, with its own last layer
    is_recalibrated: bool = False
    has_class_means: bool = False  # whether its last layer is one by class means

    @classmethod
    def named(cls, name: str, model: Model) -> Start:
        """Returns the start of a name."""
        return cls(model, _RECALIBRATED in name, _CLASS_MEANS in name)

    @property
    def name(self) -> str:
        """For example "recalibrated, class means"."""
        name = _RECALIBRATED if self.is_recalibrated else _AS_IS
        return f"{name}, {_CLASS_MEANS}" if self.has_class_means else name

    def for_samples(self, data: Data, loss_output: int | str | None, runtime: str) -> Model:
        """Returns the model before a run on samples; see `with_class_means`."""
        return with_class_means(self.model, data, loss_output, runtime) if self.has_class_means else self.model


def with_class_means(model: Model, data: Data, loss_output: int | str | None = None, runtime: str = "litert") -> Model:
    """Returns a copy of a classifier whose last layer knows each class by the mean of its samples.

    The input of the last layer is a sample's embedding x. The logit of a class with the mean m is a (m x - |m|^2 / 2),
    plus a number that all classes share, so the largest logit belongs to the nearest mean (Snell et al., "Prototypical
    networks for few-shot learning", 2017). The slope a has the least cross-entropy, where each sample is left out of
    its own class's mean. A class without samples has weights of zero and an improbable logit. The quantization of
    embedding and logits stays.

    Args:
        model: a plain int8 model; it is not changed.
        data: prepared samples, with class numbers as labels.
        loss_output: index or tensor name of the classifier's output; None: as `inject` finds it.
        runtime: name of the runtime that computes embeddings.

    Raises:
        ConversionError: the logits do not come from a FULLY_CONNECTED layer with constant int8 weights and a bias.
    """
    result = model.copy()
    graph = result.only_graph
    logits, _ = logits_of(graph, graph.outputs[output_number(graph, loss_output)])
    layer = class_layer(graph, logits)
    if layer.input(2) is None:
        raise ConversionError(f"class means: {layer.label} has no bias")
    embedding, weights, bias = layer.inputs[0], graph.own_input(layer, 1), graph.own_input(layer, 2)
    assert embedding is not None
    into, out, own = embedding.quantization, logits.quantization, weights.quantization
    assert into is not None and out is not None and own is not None
    part = Subgraph("embedding", [], list(graph.inputs), [embedding], graph.operators[: graph.operators.index(layer)])
    labels = data.labels[data.labels >= 0]
    (found,) = outputs_of(part, [x[data.labels >= 0] for x in data.inputs], runtime)
    x = found.reshape(len(labels), -1).astype(np.float64) - into.zero_point
    counts = np.bincount(labels, minlength=logits.shape[-1])
    known = counts > 0
    means = np.stack([x[labels == c].mean(axis=0) if n else x.mean(axis=0) for c, n in enumerate(counts)])
    lowest, highest = ((level - out.zero_point) * out.scale for level in (-128, 127))
    slope = _slope(x, labels, means, counts, (highest - lowest) / 2)
    centre = means[known].mean(axis=0)
    rows = np.where(known[:, None], slope / into.scale * (means - centre), 0.0)
    offsets = (lowest + highest) / 2 - slope / 2 * ((means**2).sum(axis=1) - (centre**2).sum())
    offsets[~known] = lowest + QUIET * (highest - lowest)
    scale = max(float(np.abs(rows).max()) / 127, _SMALLEST_SCALE)
    levels = np.rint(rows / scale)
    offsets += into.scale * (rows - scale * levels) @ centre  # so that rounding changes nothing at the centre
    own.scales = np.full_like(own.scales, scale)
    weights.set_data(levels.astype(np.int8).reshape(weights.shape))
    if bias.quantization is not None:
        bias.quantization.scales = np.full_like(bias.quantization.scales, into.scale * scale)
    bias.set_data(np.clip(np.rint(offsets / (into.scale * scale)), _INT32.min, _INT32.max).astype(np.int32))
    return result


def _slope(x: NDArray[Any], labels: NDArray[Any], means: NDArray[Any], counts: NDArray[Any], reach: float) -> float:
    """Returns the slope with the least cross-entropy of those whose logits stay within a reach of their centre."""
    known = counts > 0
    scores = -((x[:, None] - means[known]) ** 2).sum(axis=-1) / 2
    spread = float(np.abs(scores - scores.mean(axis=1, keepdims=True)).max())
    own = np.arange(len(x)), np.cumsum(known)[labels] - 1
    # Without the sample, the mean of its n samples is n / (n - 1) times as far away.
    scores[own] *= (counts / np.maximum(counts - 1, 0.5))[labels] ** 2

    def loss(slope: float) -> float:
        logits = slope * scores
        largest = logits.max(axis=1)
        return float((largest + np.log(np.exp(logits - largest[:, None]).sum(axis=1)) - logits[own]).mean())

    return min((float(reach / max(spread, 1.0) * share) for share in _SLOPES), key=loss)
