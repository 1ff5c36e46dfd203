"""The model before and after a run: changes of layers, results on data, and the loss landscape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..converters import ZoTrainable
from ..core import Rademacher, replay
from ..data import Data, labelled
from ..logs.replay import Arrays
from ..runtime import Runtime
from ..training.evaluation import evaluate, predict
from ..training.plan import recorded_tasks
from ..training.tasks import Exact, Nodes, Weights
from .document import Classes, Evaluated, Evaluation, Histogram, Landscape, Mistake, TensorChange
from .recorded_run import RecordedRun

_BINS: Final = 41

# Names of the tasks in a report.
_WAYS: Final = {Nodes: "node perturbation", Exact: "exact gradient", Weights: "weight perturbation"}


def layer_changes(run: RecordedRun) -> tuple[TensorChange, ...]:
    """Returns the changes of each trainable tensor, in execution order."""
    before, bound = run.initial, 127 - run.metadata.headroom
    return tuple(
        _change(t, before[t.name], run.weights[t.name], way, bound)
        for t, way in zip(run.metadata.trainable, ways_of(run), strict=True)
    )


def ways_of(run: RecordedRun) -> list[str]:
    """Returns the method that trained each trainable tensor of the model; "" for untrained ones."""
    tasks = recorded_tasks(run.log.tasks, run.metadata)
    of = {i: _WAYS[task.setting] for task in tasks for i in task.tensors}
    others = "" if tasks else _WAYS[Weights]
    return [of.get(i, others) for i in range(len(run.metadata.trainable))]


def _change(
    t: ZoTrainable, before: NDArray[np.generic], after: NDArray[np.generic], way: str, bound: int
) -> TensorChange:
    old, new = before.astype(np.int64).ravel(), after.astype(np.int64).ravel()
    moves = new - old
    sizes = np.abs(moves)
    return TensorChange(
        layer=t.layer,
        tensor="biases" if t.bias else "weights",
        trained_by=way,
        size=int(moves.size),
        moved=int(np.count_nonzero(moves)),
        mean_move=float(f"{sizes.mean():.6g}"),
        largest_move=int(sizes.max()),
        bound=None if t.bias else bound,
        at_bound_before=0 if t.bias else int(np.count_nonzero(np.abs(old) >= bound)),
        at_bound=0 if t.bias else int(np.count_nonzero(np.abs(new) >= bound)),
        histogram=_histogram(moves) if moves.any() else None,
    )


def _histogram(moves: NDArray[np.int64]) -> Histogram:
    """Returns a histogram whose bins are symmetric around a change of 0."""
    reach = int(np.abs(moves).max())
    # The least odd width with which the bins, an odd number, cover -reach .. reach.
    width = max(1, -(-(2 * reach + 1) // _BINS)) | 1
    half = max(1, -(-(reach - width // 2) // width))
    first = -half * width - width // 2
    counts = np.bincount((moves - first) // width, minlength=2 * half + 1)
    return Histogram(first, width, tuple(counts.tolist()))


#: Classes of a confusion matrix at most: more make cells too small to read, and a large page.
MOST_CLASSES: Final = 32

_MOST_MISTAKES: Final = 30


def evaluation_of(run: RecordedRun, runtime: Runtime, data: Data, name: str) -> Evaluation:
    """Evaluates the model on data of a name with the initial and the kept weights, which the runtime keeps."""
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
    """Returns loss and accuracy, and, for classifiers, the number of samples by true and predicted class."""
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


SEEDS: Final = (1, 2)

#: Distances of a landscape's points along a direction, LSB; a network loses half of its accuracy within 4 to 60.
OFFSETS: Final = range(-24, 25, 4)
_MOST_SAMPLES: Final = 256


def landscape_of(run: RecordedRun, runtime: Runtime, data: Data, watch: Iterable[int]) -> Landscape:
    """Measures the loss landscape on the first 256 labelled samples; `watch` passes on `OFFSETS`.

    Afterwards the runtime has the weights of the run again.
    """
    loss = run.metadata.loss
    assert loss is not None  # data.prepare has refused such a model
    some = data.take(np.flatnonzero(labelled(data.labels, loss.kind))[:_MOST_SAMPLES])
    along, across = (_direction(run, seed) for seed in SEEDS)
    rows = []
    for y in watch:
        row = []
        for x in OFFSETS:
            runtime.write_weights(_moved(run, along, x, across, y), run.fractions)
            row.append(evaluate(runtime, some).loss)
        rows.append(rounded(row))
    runtime.write_weights(run.weights, run.fractions)
    return Landscape(SEEDS, tuple(OFFSETS), tuple(rows), len(some))


def _direction(run: RecordedRun, seed: int) -> dict[str, NDArray[np.int8]]:
    """Returns a random sign for each trained weight, and 0 for biases, whose LSB have another meaning."""
    signs = {}
    for t, way in zip(run.metadata.trainable, ways_of(run), strict=True):
        if way and not t.bias:
            signs[t.name] = np.zeros(t.shape, np.int8)
            # A step whose coefficient is 1 moves each weight by its sign.
            replay(signs[t.name], None, None, t.channels, t.inner, t.stream, 127, Rademacher(1), [[(seed, 1 << 16)]])
    return signs


def _moved(
    run: RecordedRun, along: dict[str, NDArray[np.int8]], x: int, across: dict[str, NDArray[np.int8]], y: int
) -> Arrays:
    bound = 127 - run.metadata.headroom
    moved = dict(run.weights)
    for name, sign in along.items():
        wanted = run.weights[name].astype(np.int16) + x * sign.astype(np.int16) + y * across[name].astype(np.int16)
        moved[name] = np.clip(wanted, -bound, bound).astype(np.int8)
    return moved


def rounded(values: Iterable[float]) -> tuple[float, ...]:
    """Rounds numbers to six significant digits."""
    return tuple(float(f"{value:.6g}") for value in values)
