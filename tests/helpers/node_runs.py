"""A short run of node perturbation that tests interrupt, and its results without an interruption."""

import warnings
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.runs import random_samples
from tflm_zo.converters import Model
from tflm_zo.logs import Log
from tflm_zo.training import Exact, History, Nodes, Settings, Trainer

RNG = np.random.default_rng(3)
X, Y = random_samples(RNG)
VALIDATION = random_samples(RNG, 9)
STEPS, EVERY, RECORD = 14, 4, 12
SETTINGS = Settings(tasks=(Nodes(queries=2),), batch_size=8, learning_rate=1.0, seed=9, snapshot_every=EVERY)
SETTINGS_OF = {"whole": SETTINGS, "head": replace(SETTINGS, tasks=(*SETTINGS.tasks, Exact()), snapshot_every=5)}
KINDS = list(SETTINGS_OF)


@cache
def model_of(kind: str = "whole") -> Model:
    """Makes a model with both layers with fractions; or one of 8 bit with the prefix run once, its head
    exact."""
    if kind == "whole":
        return inject_all(MODELS["small_cnn"](), nodes="*", batch=4)
    return inject_all(MODELS["small_cnn"](), nodes="fc", batch=8, update_bits=8)


def make(kind: str = "whole") -> Trainer:
    return Trainer(model_of(kind), SETTINGS_OF[kind])


def fit(trainer: Trainer, x: Any = X, y: Any = Y, **more: Any) -> History:
    return trainer.fit(x, y, **{"steps": STEPS, "keep": "last", **more})


def train(log: Path, kind: str = "whole", **more: Any) -> Trainer:
    trainer = make(kind)
    fit(trainer, log=log, **more)
    return trainer


def snapshot(trainer: Trainer) -> bytes:
    """Returns the trained weights and fractions in a snapshot's form."""
    metadata = trainer.runtime.metadata
    views = [trainer.runtime.weight_views(metadata.trainable[n.trainable].name) for n in metadata.nodes]
    return b"".join(v.tobytes() for v in [*(w for w, _ in views), *(f for _, f in views if f is not None)])


@cache
def layout(kind: str = "whole") -> tuple[int, int]:
    """Returns the offsets of slots and records of the log."""
    trainer = make(kind)
    tasks = len(trainer.runtime.metadata.nodes)
    header = 164 + 32 * tasks
    return header, header + 2 * (16 + 8 * tasks + len(snapshot(trainer)) + 4)


@dataclass(frozen=True)
class Ended:
    """The results of a run."""

    log: bytes
    weights: bytes
    exported: bytes


def ended(trainer: Trainer, log: Path) -> Ended:
    return Ended(log.read_bytes(), snapshot(trainer), trainer.export().to_bytes())


@cache
def uninterrupted(kind: str = "whole") -> Ended:
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        return ended(train(log, kind), log)


def check_resumed(log: Path, kind: str = "whole") -> None:
    """Checks that resuming ends with the bits of the uninterrupted run, without a message."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer = train(log, kind, resume=True)
    assert ended(trainer, log) == uninterrupted(kind)


def check_interrupted(trainer: Trainer, log: Path, kind: str = "whole") -> int:
    """Checks that an interrupted run's weights are those of its last complete step, as are those of its log;
    it can resume.

    Returns:
        Its steps.
    """
    slots, records = layout(kind)
    data, read, whole = log.read_bytes(), Log.read(log), uninterrupted(kind)
    steps = len(read.losses)
    assert trainer.step == steps
    assert data[:slots] == whole.log[:slots]
    assert data[records:] == whole.log[records : records + RECORD * steps]
    if steps:
        assert read.snapshot is not None and read.snapshot.step == steps
        assert read.snapshot.weights.tobytes() == snapshot(trainer)
    else:
        assert read.snapshot is None and snapshot(trainer) == snapshot(make(kind))
    check_resumed(log, kind)
    return steps
