# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How much faster a seed log is replayed than the run was that wrote it.

    python benchmarks/replay.py lenet5.tflite kws_ref_model.tflite …

For each int8 classifier (all weights trainable, 16-bit update, antithetic SPSA with one query) and each size
of the minibatch, on random data: `Trainer.fit` in LiteRT (one thread) trains with a seed
log on disk, and the log is replayed

* from memory: `replay_log` on the loaded model and the read log;
* from file to file: load the ZO model, read the log, `replay_log`, export, write the plain model, as `tflm-zo
  replay`.

A training step costs two forward passes of the minibatch, a replayed step one pass over the weights for any
minibatch: the speed-up is proportional to the minibatch and to the network's operations per weight. Times of
replays are medians over rounds. Seconds are processor time: one thread does all the work, so on an idle
machine they are those of the clock, and other load does not count. The replayed weights must be the trained
ones, bit for bit, or the benchmark fails. Without arguments the LeNet-5 of the tests, with random weights, is
measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import add_models_argument, chosen_models, progress, random_data, trainable_model
from rich.console import Console
from rich.table import Table

from tflm_zo.converters import Model, export_model, load_model
from tflm_zo.logs import Log, replay_log
from tflm_zo.training import Callback, RunProgress, Settings, Trainer, Weights

#: Steps after which a run says how far it is: seldom enough to cost nothing.
REPORT_EVERY = 50


class _Report(Callback):
    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance = advance

    def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        if progress.step % REPORT_EVERY == 0:
            self._advance(REPORT_EVERY)


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Measures a call's seconds of processor time. Returns also its result."""
    begin = time.process_time()
    result = run()
    return time.process_time() - begin, result


def replay_files(model: Path, log: Path, output: Path) -> None:
    """Rebuilds the trained model from the ZO model and its log."""
    base, read = load_model(model), Log.read(log)
    weights, _ = replay_log(base, read)
    export_model(base, weights).save(output, force=True)


def measure(
    model: Model, minibatch: int, batch: int, steps: int, rounds: int, advance: Callable[[int], None]
) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        zo_path, log, output = (Path(folder) / name for name in ("m.zo.tflite", "run.zolog", "m.tflite"))
        trainable_model(model, min(batch, minibatch)).save(zo_path)
        zo = load_model(zo_path)
        trainer = Trainer(zo, Settings(tasks=(Weights(),), batch_size=minibatch), runtime="litert")
        x, y = random_data(trainer.runtime, 512)
        callbacks = [_Report(advance)]
        training, _ = timed(lambda: trainer.fit(x, y, steps=steps, log=log, callbacks=callbacks, keep="last"))
        advance(steps % REPORT_EVERY)
        reading, replaying, files = [], [], []
        for _ in range(rounds):
            seconds, read = timed(lambda: Log.read(log))
            reading.append(seconds)
            seconds, (weights, fractions) = timed(lambda: replay_log(zo, read))  # noqa: B023
            replaying.append(seconds)
            files.append(timed(lambda: replay_files(zo_path, log, output))[0])
        if output.read_bytes() != trainer.export().to_bytes():
            raise SystemExit("the model replayed from its log differs from the trained one")
        bytes_of_log = log.stat().st_size
    trained = trainer.runtime.read_weights(), trainer.runtime.read_fractions()
    for one, other in zip((weights, fractions), trained, strict=True):
        if one.keys() != other.keys() or any(not np.array_equal(one[k], other[k]) for k in one):
            raise SystemExit("the replayed weights differ from the trained ones")
    weights_moved = sum(w.size for w in weights.values())
    return {
        "weights": weights_moved,
        "steps": steps,
        "log_bytes": bytes_of_log,
        "training_s": training,
        "read_s": statistics.median(reading),
        "replay_s": statistics.median(replaying),
        "files_s": statistics.median(files),
        "ns_per_weight_and_step": statistics.median(replaying) / steps / weights_moved * 1e9,
        "speedup": training / statistics.median(replaying),
        "speedup_files": training / statistics.median(files),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models_argument(parser, "int8 classifiers")
    parser.add_argument("--steps", type=int, default=5000, help="of each run")
    parser.add_argument("--minibatches", type=int, nargs="+", default=[8, 16, 32, 64])
    parser.add_argument("--batch", type=int, default=32, help="samples per invoke, at most the minibatch")
    parser.add_argument("--rounds", type=int, default=5, help="replays of each log")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()

    models = chosen_models(arguments.models)
    results: dict[str, dict[str, dict[str, float]]] = {name: {} for name in models}
    # The time of a step is proportional to its minibatch, so the bar counts samples.
    total = len(models) * arguments.steps * sum(arguments.minibatches)
    with progress("training", total) as advance:
        for name, model in models.items():
            for minibatch in arguments.minibatches:

                def report(steps: int, minibatch: int = minibatch) -> None:
                    advance(steps * minibatch)

                results[name][str(minibatch)] = measure(
                    model, minibatch, arguments.batch, arguments.steps, arguments.rounds, report
                )
    if arguments.json:
        json.dump({"batch": arguments.batch, "models": results}, sys.stdout, indent=2)
        print()
        return
    table = Table(title=f"Replay of {arguments.steps:,} steps against the run, LiteRT")
    columns = ("model", "minibatch", "run, s", "replay, s", "ns/weight/step", "faster", "file to file")
    for column in columns:
        table.add_column(column, justify="left" if column == "model" else "right")
    for name, runs in results.items():
        for minibatch_text, r in runs.items():
            table.add_row(
                name,
                minibatch_text,
                f"{r['training_s']:.1f}",
                f"{r['replay_s']:.3f}",
                f"{r['ns_per_weight_and_step']:.2f}",
                f"{r['speedup']:.0f}x",
                f"{r['speedup_files']:.0f}x",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
