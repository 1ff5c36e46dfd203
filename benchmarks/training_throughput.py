# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How near training comes to the forward passes it consists of, and how fast its log is replayed.

    python benchmarks/training_throughput.py lenet5.tflite kws_ref_model.tflite …

For each int8 classifier, all weights trainable, random data:

* samples per second of `Trainer.fit` (LiteRT, optimized kernels, one thread; antithetic SPSA, minibatch 64,
  16-bit update, seed log on disk) against the bare forward passes of the plain model in the same runtime with
  the same kernels and batch. The two alternate in one process; the ratio is the median over rounds.
* the time to replay the log's steps against the time to train them.

Without arguments the LeNet-5 of the tests, with random weights, is measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from rich.console import Console
from rich.progress import track
from rich.table import Table
from tflm_zo.converters import Model, load_model, set_batch

from tflm_zo import inject
from tflm_zo.seedlog import SeedLog
from tflm_zo.training import Trainer, TrainSettings, replay_log

MINIBATCH = 64


def bare_forwards(model: Model, batch: int, x: np.ndarray[Any, Any], seconds: float) -> float:
    """Samples per second of the plain model."""
    interpreter = Interpreter(
        model_content=set_batch(model, batch).to_bytes(),
        num_threads=1,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x[:batch])
    interpreter.invoke()
    done, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        interpreter.invoke()
        done += batch
    return done / (time.perf_counter() - begin)


def measure(model: Model, batch: int, rounds: int, seconds: float) -> dict[str, float]:
    zo = inject(model, trainable="all", head_room=2, batch=batch, update_bits=16)
    settings = TrainSettings(batch_size=MINIBATCH, queries=1)
    trainer = Trainer(zo, settings, runtime="litert")
    shape, dtype, _, _ = trainer.runtime.input_details()
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (512, *shape[1:])).astype(dtype)
    loss = trainer.runtime.metadata.loss
    assert loss is not None
    y = rng.integers(0, loss.elements, len(x))

    speed = bare_forwards(model, batch, x, seconds)
    steps = max(1, round(seconds * speed / (2 * MINIBATCH)))
    ratios, replays = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "run.zolog"
            bare = bare_forwards(model, batch, x, seconds)
            begin = time.perf_counter()
            trainer.fit(x, y, steps=steps, log=log)
            training = time.perf_counter() - begin
            ratios.append(steps * 2 * MINIBATCH / training / bare)
            read = SeedLog.read(log)
            begin = time.perf_counter()
            replay_log(zo, read)
            replays.append(training / (time.perf_counter() - begin))
    return {
        "weights": sum(t.size for t in trainer.runtime.metadata.trainable),
        "bare_samples_per_s": speed,
        "ratio": statistics.median(ratios),
        "steps": steps,
        "replay_speedup": statistics.median(replays),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path, help="int8 classifiers (.tflite)")
    parser.add_argument("--batch", type=int, default=32, help="samples per invoke")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()

    if arguments.models:
        models = {path.stem: load_model(path) for path in arguments.models}
    else:
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
        from models import MODELS

        models = {"lenet5 (random weights)": load_model(MODELS["lenet5"]())}
    results = {}
    for name, model in track(models.items(), "measuring", console=Console(stderr=True)):
        results[name] = measure(model, arguments.batch, arguments.rounds, arguments.seconds)
    if arguments.json:
        print(json.dumps({"batch": arguments.batch, "models": results}, indent=2))
        return
    table = Table(title=f"Training against its forward passes, LiteRT, batch {arguments.batch}")
    for column in ("model", "weights", "forwards/s", "training / forwards", "replay speed-up"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for name, r in results.items():
        table.add_row(
            name,
            f"{r['weights']:,}",
            f"{r['bare_samples_per_s']:,.0f}",
            f"{r['ratio']:.3f}",
            f"{r['replay_speedup']:.0f}x ({r['steps']} steps)",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
