"""Short runs of each kind that tests interrupt, and their results without an interruption."""

import warnings
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.runs import packed, random_samples, state, weight_settings
from helpers.weight_runs import SETTINGS as BY_WEIGHTS
from helpers.weight_runs import zo_model
from tflm_zo.converters import Model
from tflm_zo.logs import Log, replay_log
from tflm_zo.training import Exact, History, Nodes, Settings, Trainer

X, Y = random_samples(3)
VALIDATION = random_samples(4, 9)
STEPS, EVERY = 14, 4
BY_NODES = Settings(tasks=(Nodes(queries=2),), batch_size=8, learning_rate=1.0, seed=9, snapshot_every=EVERY)
NODE_SETTINGS = {"nodes": BY_NODES, "head": replace(BY_NODES, tasks=(*BY_NODES.tasks, Exact()), snapshot_every=5)}
WEIGHT_SETTINGS = {
    "8": weight_settings(batch_size=8, queries=2, estimator="one-sided", learning_rate=2.0),
    "weights": replace(BY_WEIGHTS, learning_rate=2.0),
    "cut": weight_settings(batch_size=4, queries=2, scope="blocks", learning_rate=2.0),
}
SETTINGS_OF = NODE_SETTINGS | WEIGHT_SETTINGS


@cache
def model_of(kind: str) -> Model:
    """Makes both layers with nodes and fractions, a head of 8 bit whose prefix runs once, or a model without nodes."""
    if kind == "nodes":
        return inject_all(MODELS["small_cnn"](), nodes="*", batch=4)
    if kind == "head":
        return inject_all(MODELS["small_cnn"](), nodes="fc", batch=8, update_bits=8)
    return zo_model({"weights": "16"}.get(kind, kind))


def make(kind: str) -> Trainer:
    return Trainer(model_of(kind), SETTINGS_OF[kind])


def fit(trainer: Trainer, x: Any = X, y: Any = Y, **more: Any) -> History:
    return trainer.fit(x, y, **{"steps": STEPS, "keep": "last", **more})


def train(log: Path, kind: str, **more: Any) -> Trainer:
    trainer = make(kind)
    fit(trainer, log=log, **more)
    return trainer


def snapshot(trainer: Trainer) -> bytes:
    """Returns the trained weights and fractions in a snapshot's form."""
    metadata = trainer.runtime.metadata
    numbers = [n.trainable for n in metadata.nodes] or range(len(metadata.trainable))
    views = [trainer.runtime.weight_views(metadata.trainable[i].name) for i in numbers]
    return b"".join(v.tobytes() for v in [*(w for w, _ in views), *(f for _, f in views if f is not None)])


@cache
def layout(kind: str) -> tuple[int, int, int]:
    """Returns the offsets of slots and records of the log, and the bytes of a record."""
    if kind in WEIGHT_SETTINGS:
        return 132, 132, 28
    trainer = make(kind)
    tasks = len(trainer.runtime.metadata.nodes)
    header = 164 + 32 * tasks
    return header, header + 2 * (16 + 8 * tasks + len(snapshot(trainer)) + 4), 12


@dataclass(frozen=True)
class Ended:
    """The results of a run."""

    log: bytes
    weights: bytes
    exported: bytes


def ended(trainer: Trainer, log: Path) -> Ended:
    return Ended(log.read_bytes(), snapshot(trainer), trainer.export().to_bytes())


@cache
def uninterrupted(kind: str) -> Ended:
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        return ended(train(log, kind), log)


def check_resumed(log: Path, kind: str) -> None:
    """Checks that resuming ends with the bits of the uninterrupted run, without a message."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer = train(log, kind, resume=True)
    assert ended(trainer, log) == uninterrupted(kind)


def check_interrupted(trainer: Trainer, log: Path, kind: str) -> int:
    """Checks that weights and log are those of the last complete step, and that it can resume. Returns its steps."""
    slots, records, size = layout(kind)
    data, read, whole = log.read_bytes(), Log.read(log), uninterrupted(kind)
    steps = len(read.losses)
    assert trainer.step == steps
    assert data[:slots] == whole.log[:slots]
    assert data[records:] == whole.log[records : records + size * steps]
    if kind in WEIGHT_SETTINGS:
        assert state(trainer) == packed(*replay_log(model_of(kind), read))
    elif steps:
        assert read.snapshot is not None and read.snapshot.step == steps
        assert read.snapshot.weights.tobytes() == snapshot(trainer)
    else:
        assert read.snapshot is None and snapshot(trainer) == snapshot(make(kind))
    check_resumed(log, kind)
    return steps
