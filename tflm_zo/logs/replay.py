"""The replay of a log: the weights of a run from its model and its log only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from .. import core
from ..converters import Model, WeightArray, ZoTrainable, initial_weights, read_metadata, step_multipliers
from ..core import Distribution, best_of
from ..core.arguments import Queries
from .layout import LogError
from .log import Log

Arrays = dict[str, WeightArray]


def replay_log(model: Model, log: Log | str | os.PathLike[str], steps: int | None = None) -> tuple[Arrays, Arrays]:
    """Restores the weights of a run from its model and its log, without data or a forward pass.

    Args:
        model: the ZO model that the log was recorded on.
        log: path of the log; or a `Log`, which has all steps in memory.
        steps: number of steps to replay; for a snapshot log the step of a snapshot. None: the best
            measurement or, without measurements, all steps or the last snapshot.

    Returns:
        Weights and, for 16-bit updates, fractions of all trainable tensors by tensor name, int8 (biases:
        int32) in the tensors' shapes.

    Raises:
        LogError: the file is no log, belongs to another model, or has no snapshot after these steps.
        OSError: the log cannot be read.
    """
    first = next(iter(_parts(log)))
    if first.tasks:
        return _of_snapshot(model, first, steps)
    if steps is None:
        best = best_of(m for part in _parts(log) for m in part.measurements)
        steps = None if best is None else best.step
    replay = Replay(model)
    for part in _parts(log):
        if not part.first_step:
            part.check_model(model)
        wanted = len(part.steps) if steps is None else min(max(steps - part.first_step, 0), len(part.steps))
        replay.add(part.first(wanted))
    return replay.weights, replay.fractions


class Replay:
    """The replay of a log, part by part, on the ZO model that it was recorded on. `begin` are weights and fractions
    before the first step, which are updated in place; None: copies of the model's initial ones.
    """

    def __init__(self, model: Model, begin: tuple[Arrays, Arrays] | None = None) -> None:
        self._metadata = read_metadata(model)
        self._multipliers = step_multipliers(model)
        self.weights, self.fractions = _initial(model) if begin is None else begin

    def add(self, log: Log) -> None:
        """Applies the next steps of weight perturbation."""
        for number, t in enumerate(self._metadata.trainable):
            for distribution, steps in log.steps_of_block(t.block):
                self.move(number, distribution, steps)

    def move(self, number: int, distribution: Distribution, steps: Sequence[Queries] | NDArray[np.void]) -> None:
        """Updates a trainable tensor, by its number, along the directions of steps; see `core.replay`."""
        t = self._metadata.trainable[number]
        core.replay(
            self.weights[t.name],
            self.fractions.get(t.name),
            self._multipliers.get(t.name),
            t.channels,
            t.inner,
            t.stream,
            127 - self._metadata.headroom,
            distribution,
            steps,
        )


def checksum_of(tensors: Iterable[ZoTrainable], weights: Arrays, fractions: Arrays) -> int:
    """Returns the checksum of the weights and fractions of trainable tensors, 0..2^32-1."""
    return sum(core.checksum(weights[t.name], fractions.get(t.name), t.stream) for t in tensors) & 0xFFFFFFFF


def _parts(log: Log | str | os.PathLike[str]) -> Iterable[Log]:
    return [log] if isinstance(log, Log) else Log.parts(log)


def _initial(model: Model) -> tuple[Arrays, Arrays]:
    metadata = read_metadata(model)
    tensors = [t for t in metadata.trainable if metadata.update_bits == 16 and not t.bias]
    return initial_weights(model), {t.name: np.zeros(t.shape, np.int8) for t in tensors}


def _of_snapshot(model: Model, log: Log, step: int | None) -> tuple[Arrays, Arrays]:
    log.check_model(model)
    trainable = read_metadata(model).trainable
    weights, fractions = _initial(model)
    if step is None:
        step = log.best.step if log.best else log.snapshot.step if log.snapshot else 0
    snapshot = log.after(step)
    if snapshot is None and step:
        there = sorted({s.step for s in (log.snapshot, log.best_slot) if s is not None})
        raise LogError(
            f"The log must have a snapshot after step {step}. It has snapshots after step "
            f"{' and step '.join(map(str, there)) or '(none)'}. Other steps of a layer-wise run need the data."
        )
    if snapshot is not None:
        trained = [trainable[i] for task in log.tasks for i in task.tensors]
        size = sum(t.nbytes for t in trained)
        weights |= _split(snapshot.weights[:size], trained)
        if size < len(snapshot.weights):
            fractions |= _split(snapshot.weights[size:], [t for t in trained if not t.bias])
    return weights, fractions


def _split(values: NDArray[np.int8], tensors: Sequence[ZoTrainable]) -> Arrays:
    parts = np.split(values, np.cumsum([t.nbytes for t in tensors])[:-1])
    return {t.name: p.copy().view(t.dtype).reshape(t.shape) for t, p in zip(tensors, parts, strict=True)}
