"""The bit-by-bit comparison of runtimes that train the same steps."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from ..converters import Model
from ..data import Labels, Samples
from ..logs.replay import checksum_of
from .settings import Settings
from .trainer import Trainer


@dataclass(frozen=True)
class RuntimeRun:
    """A run in one runtime."""

    runtime: str  #: name of the runtime.
    losses: list[float]  #: mean loss of each step, in nats or the output's unit squared.
    checksum: int  #: checksum of the final weights.
    log: bytes  #: the seed log's bytes.
    exported: bytes  #: the exported model's bytes.

    def equals(self, other: RuntimeRun) -> bool:
        """Returns whether every bit agrees: losses, log, weights and exported model."""
        return self == replace(other, runtime=self.runtime)

    def first_difference(self, other: RuntimeRun) -> int | None:
        """Returns the first step whose loss differs, or None."""
        pairs = zip(self.losses, other.losses, strict=True)
        return next((step for step, (a, b) in enumerate(pairs) if a != b), None)


def compare_runtimes(
    model: Model,
    x: Samples,
    y: Labels | None = None,
    *,
    runtimes: list[str],
    settings: Settings | None = None,
    steps: int = 20,
) -> list[RuntimeRun]:
    """Trains the same steps in each runtime. KeyboardInterrupt, by Ctrl-C, ends a run.

    Args:
        model: ZO model that is trained.
        x: samples, as `Trainer.fit` takes them.
        y: labels, as `Trainer.fit` takes them.
        runtimes: names of runtimes that are installed.
        settings: settings of the runs.
        steps: number of steps.
    """
    runs = []
    for name in runtimes:
        trainer = Trainer(model, settings, runtime=name)
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "run.zolog"
            history = trainer.fit(x, y, steps=steps, log=log, keep="last")
            data = log.read_bytes()
        if trainer.interrupted:  # runs of different lengths have nothing to say
            raise KeyboardInterrupt
        checksum = checksum_of(trainer.runtime.metadata.trainable, *trainer.runtime.all_weight_views())
        runs.append(RuntimeRun(name, history.steps, checksum, data, trainer.export().to_bytes()))
    return runs
