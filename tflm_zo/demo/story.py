# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The main job from one end to the other, on real data."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..converters import Model, export_model, inject
from ..logs import SeedLog
from ..runtime import available
from ..runtime.arena import arena_bytes
from ..training import Callback, Settings, Trainer, algorithms, replay_log
from .memory import backpropagation_bytes
from .tasks import TASKS

__all__ = ["DemoResult", "run_demo"]

BATCH = 32


@dataclass(frozen=True)
class DemoResult:
    """What the demo found.

    Attributes:
        title: of the task.
        weights: trainable ones.
        upright: accuracy of the int8 model on the old domain.
        before: accuracy on the new domain before adaptation.
        after: the same after it.
        steps: of adaptation.
        forwards: forward passes (samples) of adaptation.
        equivalents: what it cost in forward equivalents, see `Trainer`.
        seconds: of adaptation.
        inference_arena: TFLM's arena of the plain model, bytes (64-bit structs); None without TFLM.
        training_arena: the same of the ZO model at batch 1.
        backpropagation: bytes by the papers' equation.
        replayed: whether the log alone gave the trained weights.
        tflm_identical: whether TFLM repeated the run bit for bit; None without TFLM.
        files: what was written, by kind.
    """

    title: str
    weights: int
    upright: float
    before: float
    after: float
    steps: int
    forwards: int
    equivalents: float
    seconds: float
    inference_arena: int | None
    training_arena: int | None
    backpropagation: int
    replayed: bool
    tflm_identical: bool | None
    files: dict[str, str]


def run_demo(
    output: str | os.PathLike[str],
    *,
    dataset: str = "digits",
    seed: int = 0,
    steps: int | None = None,
    say: Callable[[str], None] = lambda _: None,
    callbacks: tuple[Callback, ...] = (),
    exact: bool = True,
) -> DemoResult:
    """Pre-trains in Keras, converts, injects, adapts by forward passes, exports, replays, repeats in TFLM.

    Args:
        output: folder for the files; made where it does not exist. Files of an earlier demo are replaced.
        dataset: a name of `TASKS`.
        seed: of pre-training and adaptation.
        steps: of adaptation; default: the task's.
        say: told what happens.
        callbacks: of the adaptation.
        exact: repeat the run in TFLM.

    Raises:
        ValueError: no such dataset.
        KeyboardInterrupt: Ctrl-C.
    """
    if dataset not in TASKS:
        raise ValueError(f"no dataset {dataset!r}; there are {', '.join(TASKS)}")
    say("loading data and Keras")
    task = TASKS[dataset]()
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)

    say("pre-training in Keras, with backpropagation")
    plain = _pretrained(task, seed)
    plain_path = plain.save(folder / f"{dataset}.tflite", force=True)
    zo = inject(plain, trainable="all", batch=BATCH, headroom=2, update_bits=16)
    zo_path = zo.save(folder / f"{dataset}.zo.tflite", force=True)

    settings = algorithms.weight(seed=seed, learning_rate=task.rate)
    trainer = Trainer(zo, settings, runtime="litert-ref")
    upright, before = trainer.evaluate(*task.upright), trainer.evaluate(*task.test)
    say(
        f"int8: {100 * upright['accuracy']:.1f} % {task.old}, "
        f"{100 * before['accuracy']:.1f} % {task.new}; adapting"
    )
    log_path = folder / f"{dataset}.zolog"
    log_path.unlink(missing_ok=True)
    begin = time.perf_counter()
    total = steps or task.steps
    history = trainer.fit(*task.adapt, steps=total, log=log_path, callbacks=callbacks, keep="last")
    seconds = time.perf_counter() - begin
    if trainer.interrupted:  # half a story has no end
        raise KeyboardInterrupt
    after = trainer.evaluate(*task.test)
    exported = trainer.export()
    exported_path = exported.save(folder / f"{dataset}.adapted.tflite", force=True)

    say("replaying the log")
    weights, fractions = replay_log(zo, SeedLog.read(log_path))
    trained = trainer.runtime.read_weights()
    replayed = all(np.array_equal(weights[name], trained[name]) for name in trained)

    identical: bool | None = None
    arenas: tuple[int, int] | tuple[None, None] = (None, None)
    if "tflm" in available():
        arenas = (arena_bytes(plain), arena_bytes(inject(plain, headroom=2, update_bits=16)))
        if exact:
            say("repeating the run in TFLM")
            identical = _repeat_in_tflm(zo, settings, task.adapt, total, log_path, exported, callbacks)
    return DemoResult(
        title=task.title,
        weights=sum(t.size for t in trainer.runtime.metadata.trainable),
        upright=upright["accuracy"],
        before=before["accuracy"],
        after=after["accuracy"],
        steps=total,
        forwards=history.forwards,
        equivalents=history.equivalents,
        seconds=seconds,
        inference_arena=arenas[0],
        training_arena=arenas[1],
        backpropagation=backpropagation_bytes(plain),
        replayed=replayed,
        tflm_identical=identical,
        files={
            "int8 model": str(plain_path),
            "ZO model": str(zo_path),
            "seed log": str(log_path),
            "adapted int8 model": str(exported_path),
        },
    )


def _pretrained(task: Any, seed: int) -> Model:
    from ..converters.keras import convert, quiet
    from ..keras_models import pretrain

    # TensorFlow has much to say when it is imported and first used.
    with quiet():
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import keras

        keras.utils.set_random_seed(seed)
        model = task.build()
    x, y = task.pretrain
    pretrain(model, x, y, epochs=task.epochs, seed=seed)
    return convert(model, x[:300]).model


def _repeat_in_tflm(
    zo: Model,
    settings: Settings,
    data: Any,
    steps: int,
    log_path: Path,
    exported: Model,
    callbacks: tuple[Callback, ...],
) -> bool:
    trainer = Trainer(zo, settings, runtime="tflm")
    path = log_path.with_suffix(".tflm.zolog")
    path.unlink(missing_ok=True)
    try:
        trainer.fit(*data, steps=steps, log=path, callbacks=callbacks, keep="last")
        if trainer.interrupted:
            raise KeyboardInterrupt
        same_log = path.read_bytes() == log_path.read_bytes()
    finally:
        path.unlink(missing_ok=True)
    return same_log and export_model(zo, trainer.runtime.read_weights()).to_bytes() == exported.to_bytes()
