"""The evaluation of a model, of its file or its bytes."""

from __future__ import annotations

import os

from ..converters import InjectSettings, Model, load_model
from ..converters.settings import LossKind
from ..data import Labels, Samples, prepare
from ..io.errors import SettingsError
from ..runtime import load
from ..training.evaluation import Evaluation, Watch
from ..training.evaluation import evaluate as evaluate_loaded
from ..training.injection import inject_plain, is_zo


def with_loss(
    model: Model | bytes | str | os.PathLike[str], loss: LossKind | None = None, loss_output: int | str | None = None
) -> Model:
    """Returns a ZO model as it is, and a plain model with a loss, which computes the same outputs.

    Args:
        model: a plain int8 model or a ZO model, its bytes or its path.
        loss: loss of a plain model, see `InjectSettings`; None: "auto".
        loss_output: output of a plain model that the loss belongs to, see `InjectSettings`.

    Raises:
        ConversionError: the model cannot have the loss.
        SettingsError: a loss is given for a ZO model, which has its own.
    """
    source = load_model(model)
    if not is_zo(source):
        return inject_plain(source, InjectSettings(trainable="none", loss=loss or "auto", loss_output=loss_output))
    for name, value in (("loss", loss), ("loss_output", loss_output)):
        if value is not None:
            raise SettingsError(name, "be left out, since a ZO model has its own loss")
    return source


def evaluate(
    model: Model | bytes | str | os.PathLike[str],
    x: Samples,
    y: Labels | None = None,
    *,
    runtime: str = "litert",
    threads: int = 1,
    loss: LossKind | None = None,
    loss_output: int | str | None = None,
    watch: Watch | None = None,
) -> Evaluation:
    """Measures the accuracy and the mean loss of a model on labelled samples, as ``tflm-zo evaluate`` does.

    Args:
        model: a plain int8 model or a ZO model, its bytes or its path.
        x: samples, as `Trainer.fit` takes them.
        y: labels, as `Trainer.fit` takes them.
        runtime: name of the runtime that runs the model.
        threads: number of threads. Does not affect results.
        loss: loss of a plain model, as `with_loss` takes it.
        loss_output: output that the loss belongs to, as `with_loss` takes it.
        watch: function that passes on the batches' first samples, for a progress bar.

    Raises:
        ConversionError: the model cannot have the loss.
        DataError: the data do not fit the model, or have no label at all.
    """
    loaded = load(with_loss(model, loss, loss_output), runtime, threads=threads)
    return evaluate_loaded(loaded, prepare(loaded, x, y), watch)
