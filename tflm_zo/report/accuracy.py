# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The model before and after a run, on data: loss, accuracy, right classes and mistakes."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..data import Data
from ..logs.replay import Arrays
from ..runtime import Runtime
from ..training.evaluation import evaluate, predict
from .document import Classes, Evaluated, Evaluation, Mistake
from .recorded_run import RecordedRun

__all__ = ["MOST_CLASSES", "evaluation_of"]

#: Classes of a confusion matrix at most: more make cells too small to read, and a large page.
MOST_CLASSES: Final = 32

_MOST_MISTAKES: Final = 30


def evaluation_of(run: RecordedRun, runtime: Runtime, data: Data, name: str) -> Evaluation:
    """Returns what the model says of data before the first step and with the weights that the run kept.

    Args:
        run: the run.
        runtime: the run's model, loaded; it keeps the weights of the run.
        data: samples and labels.
        name: what the report calls the data.
    """
    before, confusion_before = _measure(run, runtime, data, run.initial, {})
    after, confusion = _measure(run, runtime, data, run.weights, run.fractions)
    if confusion is None or confusion_before is None:
        labelled = evaluate(runtime, data).labelled
        return Evaluation(name, labelled, before, after, None, (), (), ())
    counts = confusion.sum(axis=1)
    columns = np.arange(len(counts)), counts, confusion_before.diagonal(), confusion.diagonal()
    return Evaluation(
        name,
        int(counts.sum()),
        before,
        after,
        Classes(*(tuple(column[counts > 0].tolist()) for column in columns)),
        *((_rows(confusion_before), _rows(confusion)) if len(counts) <= MOST_CLASSES else ((), ())),
        _mistakes(confusion_before, confusion),
    )


def _measure(
    run: RecordedRun, runtime: Runtime, data: Data, weights: Arrays, fractions: Arrays
) -> tuple[Evaluated, NDArray[np.int64] | None]:
    """Returns loss and accuracy, and the number of samples by true and predicted class, if it has classes."""
    runtime.write_weights(weights, fractions)
    found = evaluate(runtime, data)
    measured = Evaluated(found.loss, found.accuracy)
    if not run.is_of_classes:
        return measured, None
    outputs = predict(runtime, list(data.inputs))
    guesses, labels = outputs.reshape(len(outputs), -1).argmax(1), data.labels
    classes, known = outputs[0].size, data.labels >= 0
    cells = labels[known].astype(np.int64) * classes + guesses[known]
    return measured, np.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def _rows(confusion: NDArray[np.int64]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in confusion.tolist())


def _mistakes(before: NDArray[np.int64], after: NDArray[np.int64]) -> tuple[Mistake, ...]:
    wrong = after.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_MISTAKES]
    pairs = [divmod(int(cell), len(wrong)) for cell in order if wrong.flat[cell]]
    return tuple(Mistake(i, j, int(before[i, j]), int(wrong[i, j])) for i, j in pairs)
