"""The threshold of an anomaly: a percentile of the losses of normal samples, as a device computes it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, load_model
from ..core import PERCENTILE_MAX, THRESHOLD_STEP, Measurement, threshold_of
from ..data import Data, Samples, prepare
from ..io.arrays import as_array, integer_labels, naming, read_arrays
from ..io.errors import DataError, SettingsError
from ..logs import checksum_of, keep_threshold, replay_log
from ..runtime import Runtime, load
from ..training.evaluation import Watch, integer_losses
from ..training.injection import is_zo
from .evaluation import with_loss


@dataclass(frozen=True)
class Detection:
    """The samples with a loss above a threshold, among normal samples and anomalies."""

    normal: int  #: number of normal samples.
    false_alarms: int  #: number of normal samples above the threshold.
    anomalies: int  #: number of anomalies.
    detected: int  #: number of anomalies above the threshold.
    #: area under the ROC curve of the losses, 0..1; None without normal samples or without anomalies.
    auc: float | None


@dataclass(frozen=True)
class Calibration:
    """A threshold. A sample with a larger loss is an anomaly."""

    threshold: int  #: the threshold as the device compares it, of which 2^16 are worth `unit`.
    unit: float  #: real value of a loss of 1, see `ZoLoss.unit`.
    loss: float  #: the threshold as a mean squared error, in the output's unit squared.
    percentile: float  #: percentile of the normal samples' losses.
    samples: int  #: number of normal samples.
    above: int  #: number of normal samples above the threshold.
    needed: int  #: least number of normal samples of which one may lie above the percentile; 0 for 100.
    detection: Detection | None  #: the check on known samples, if there are any.


def calibrate(
    model: Model | bytes | str | os.PathLike[str],
    x: Samples,
    *,
    percentile: float = 99.0,
    test: Samples | None = None,
    log: str | os.PathLike[str] | None = None,
    runtime: str = "litert",
    threads: int = 1,
    watch: Watch | None = None,
) -> Calibration:
    """Computes the threshold of an anomaly from the losses of normal samples, with the device's integers: the k-th
    largest of n losses, k = floor((1 - percentile / 100) n) + 1.

    Args:
        model: a plain int8 model or a ZO model whose loss is the mean squared error, its bytes or its path.
        x: normal samples, as `evaluate` takes them. If ``y`` has one number for each sample, 0 for a normal sample and
            1 for an anomaly, the threshold is that of the normal samples, and all samples are its test.
        percentile: percentile in 0.01..100, a multiple of 0.01.
        test: known samples with such a ``y``, a dictionary or file. They do not affect the threshold.
        log: path of the log of a run on `model`, a ZO model. The weights are those that `replay_log` restores, and the
            threshold is written into the log.
        runtime: name of the runtime that runs the model.
        threads: number of threads. Does not affect results.
        watch: function that passes on the batches' first samples, for a progress bar.

    Raises:
        ConversionError: the model cannot have the loss.
        DataError: the data do not fit the model, or have no normal sample.
        LogError: the log is damaged, or belongs to another model.
        SettingsError: the percentile is out of range, or the model has another loss.
        OSError: a file cannot be read or written. The log is unchanged then.
    """
    parts = round(percentile * PERCENTILE_MAX / 100) if 0 < percentile <= 100 else 0
    if not parts or abs(parts * 100 / PERCENTILE_MAX - percentile) > 1e-9:
        raise SettingsError("percentile", "be a multiple of 0.01 in 0.01..100", percentile)
    source = load_model(model)
    zo = with_loss(source, None if is_zo(source) else "mse")
    loaded = load(zo, runtime, threads=threads)
    loss = loaded.metadata.known_loss
    if loss.kind != "mse":
        raise SettingsError("model", "have the mean squared error as its loss, as an autoencoder", loss.kind)
    weights = None if log is None else replay_log(zo, log)
    data, anomalous = _known(loaded, x)
    if weights is not None:
        loaded.write_weights(*weights)
    losses = integer_losses(loaded, data, watch)
    normal = losses if anomalous is None else losses[~anomalous]
    if not len(normal):
        raise DataError("y: no sample is normal (all are 1)")
    threshold = threshold_of(normal, parts)
    if test is not None:
        data, anomalous = _known(loaded, test)
        if anomalous is None:
            raise DataError("`test` must have y, 0 for a normal sample and 1 for an anomaly. Received: no such y.")
        losses = integer_losses(loaded, data, watch)
    if log is not None and weights is not None:
        checksum = checksum_of(loaded.metadata.trainable, *weights)
        keep_threshold(log, Measurement(THRESHOLD_STEP, len(normal), threshold, parts, checksum))
    return Calibration(
        threshold,
        loss.unit,
        threshold / 65536 * loss.unit,
        percentile,
        len(normal),
        int((normal > threshold).sum()),
        -(-PERCENTILE_MAX // (PERCENTILE_MAX - parts)) if parts < PERCENTILE_MAX else 0,
        None if anomalous is None else _detection(losses[~anomalous], losses[anomalous], threshold),
    )


def _known(model: Runtime, x: Samples) -> tuple[Data, NDArray[np.bool_] | None]:
    """Prepares samples. Returns whether each of them is an anomaly, too, if `y` has one number for each."""
    if not isinstance(x, str | os.PathLike | Mapping):
        return prepare(model, x), None
    arrays: dict[str, Any] = dict(x if isinstance(x, Mapping) else read_arrays(x))
    with naming(x):
        y = None if "y" not in arrays else as_array(arrays["y"], "y")
        if y is None or y.size != len(y) or model.metadata.known_loss.elements == 1:
            return prepare(model, arrays), None
        data = prepare(model, {name: array for name, array in arrays.items() if name != "y"})
        if (labels := integer_labels(y, (), 2)).min() < 0 or len(y) != len(data):
            raise DataError(f"`y` must be 0 or 1 for each of {len(data)} samples. Received: {len(y)}, or -1 for some.")
        return data, labels == 1


def _detection(normal: NDArray[np.int32], anomalies: NDArray[np.int32], threshold: int) -> Detection:
    pairs, ordered = len(normal) * len(anomalies), np.sort(normal)
    # Those below count twice, equal ones once.
    wins = np.searchsorted(ordered, anomalies, "left").sum() + np.searchsorted(ordered, anomalies, "right").sum()
    found = (int((losses > threshold).sum()) for losses in (normal, anomalies))
    return Detection(len(normal), next(found), len(anomalies), next(found), float(wins) / 2 / pairs if pairs else None)
