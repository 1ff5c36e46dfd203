"""A recorded run, read from its log and its model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, ZoMetadata, initial_weights, load_model, read_metadata
from ..converters.constants import METADATA_NAME
from ..logs import Log, LogError, fingerprint
from ..logs.replay import Arrays, replay_log
from ..training.costs import recorded_costs, recorded_task_costs

_ENDING: Final = ".zo.tflite"


@dataclass(frozen=True)
class ZoFile:
    """A ZO model and its path."""

    path: Path
    model: Model

    @classmethod
    def read(cls, path: Path) -> ZoFile:
        """Reads a ZO model; raises LogError if it is a plain model."""
        model = load_model(path)
        if model.find_metadata(METADATA_NAME) is None:
            raise LogError(
                f"{path} is a plain model; a log belongs to the ZO model beside it, which train writes as *{_ENDING}"
            )
        return cls(path, model)


@dataclass(frozen=True)
class RecordedRun:
    """A recorded run."""

    path: Path  #: path of the log
    zo: ZoFile  #: the ZO model
    metadata: ZoMetadata  #: metadata of the model
    log: Log  #: the log
    weights: Arrays  #: final weights of the run, by tensor name
    fractions: Arrays  #: their fractions
    kept_step: int  #: step of these weights

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.path.stem

    @property
    def steps(self) -> int:
        """Number of complete steps in the log."""
        return len(self.log.losses)

    @property
    def losses(self) -> NDArray[np.float64]:
        """Mean loss of each step, in nats or the output's unit squared."""
        return self.log.losses * self.metadata.loss_unit

    @property
    def initial(self) -> Arrays:
        """Weights before the first step."""
        return initial_weights(self.zo.model)

    @property
    def cost(self) -> Callable[[int], float]:
        """Function that computes the cost of a number of steps, forward equivalents."""
        return recorded_costs(self.zo.model, self.log)

    @property
    def costs_of_tensors(self) -> dict[str, float]:
        """Cost of training each tensor in a step of one sample without the forward pass, forward equivalents,
        by name; empty for weight perturbation, which trains all tensors together.
        """
        pairs = recorded_task_costs(self.zo.model, self.log)
        return {self.metadata.trainable[i].name: cost for task, cost in pairs for i in task.tensors[:1]}

    @property
    def is_of_classes(self) -> bool:
        """True if the model is a classifier."""
        return self.metadata.loss is not None and self.metadata.loss.of_samples


def read_run(path: Path, given: Sequence[ZoFile]) -> RecordedRun:
    """Reads a run from its log, and replays it up to its final weights. One of the `given` ZO models belongs to the
    log; without any, the model is read from the log's path with the ending .zo.tflite.

    Raises IncompleteHeaderError if the log ends before its first step, another LogError if the file is no log, or its
    model is missing, and OSError if one cannot be read.
    """
    log = Log.read(path)
    zo = _model_of(path, log.fingerprint, given)
    log.check_model(zo.model)
    kept = log.whole_steps if log.best is None else log.best.step
    weights, fractions = replay_log(zo.model, log, kept)
    return RecordedRun(path, zo, read_metadata(zo.model), log, weights, fractions, kept)


def _model_of(log: Path, mark: bytes, given: Sequence[ZoFile]) -> ZoFile:
    beside = log.with_suffix(_ENDING)
    if not given and not beside.exists():
        raise LogError(f"{log}: its ZO model is not beside it ({beside}); name it with --model")
    candidates = given or [ZoFile.read(beside)]
    for candidate in candidates:
        if fingerprint(candidate.model) == mark:
            return candidate
    names = ", ".join(str(candidate.path) for candidate in candidates)
    raise LogError(f"{log} is of another model: it names the fingerprint {mark.hex()}, not that of {names}")
