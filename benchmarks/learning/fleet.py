# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A fleet of ten clients over Flower, beside the same steps on pooled data and beside Flower's FedAvg.

    python benchmarks/learning/fleet.py [--cases mean median …] [--seeds 0 1 2] [--steps 400]

LeNet-5, made for upright MNIST, meets images rotated by 45 degrees: the 1,000 to adapt on are divided among
ten clients, each of which has two classes, about 50 images of each. All runs go through Flower's ServerApp,
ClientApp and messages, in one process (`LocalGrid`); bytes are those of Flower's protocol buffers. Queries,
minibatches and rate were chosen by validation images on pooled data, FedAvg's rate and epochs likewise.

Cases: the server's aggregation of answers (mean, median, trimmed, krum, multi-krum, bulyan; clipped: the mean
of answers with clipped norms), one of ten clients that sends garbage instead (garbage-…) or nothing
(absent-mean), 30 % of the messages lost (lost-mean), clipping and noise (noise-Z: Z times the clipping norm
over all ten clients), FedAvg of the network in Keras, whose weights travel as float32 or as int8, and
averages of each client's changes by some steps of node perturbation (node-averaging). A run counts only if
all ten clients end with the server's weights, bit for bit.

Every run is a line in --results as soon as it is done; a later call resumes from there.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MessageType, MetricRecord
from flwr.serverapp import NeighboringRelation, PrivacyConfig, SamplingMethod
from flwr.serverapp.strategy import (
    Bulyan,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    FedMedian,
    FedTrimmedAvg,
    Krum,
    MultiKrum,
    Strategy,
)
from rich.console import Console
from rich.table import Table
from task import Labelled, Task
from tasks import TASKS

from tflm_zo import Trainer, algorithms, inject, load_model
from tflm_zo.converters import Model
from tflm_zo.fleet import AveragedWeights, FleetLog
from tflm_zo.fleet.flower import (
    AveragingClient,
    AveragingStrategy,
    FleetClient,
    FleetStrategy,
    LocalGrid,
    averaging_app,
    client_app,
)
from tflm_zo.training import Settings, inject_settings

CLIENTS, CLASSES = 10, 10
# Chosen on validation images.
QUERIES, MINIBATCH, RATE = 32, 16, 12.0
AVERAGING_RATE, AVERAGING_EPOCHS, AVERAGING_ROUNDS = 0.1, 1, 60
NODE_STEPS, NODE_RATE, NODE_ROUNDS = 16, 1.0, 120
# Mean differences of a client have a norm of about this in the first steps, nats.
CLIPPING_NORM = 0.3
GARBAGE = 10.0  # standard deviation of a defective client's answers, nats
LOST = 0.3

AGGREGATORS: dict[str, Callable[[], Strategy]] = {
    "mean": FedAvg,
    "median": FedMedian,
    "trimmed": lambda: FedTrimmedAvg(beta=0.1),
    "krum": lambda: Krum(num_malicious_nodes=1),
    "multi-krum": lambda: MultiKrum(num_malicious_nodes=1, num_nodes_to_select=CLIENTS - 1),
    "bulyan": lambda: Bulyan(num_malicious_nodes=1),
    "clipped": lambda: DifferentialPrivacyServerSideFixedClipping(
        FedAvg(min_train_nodes=CLIENTS, min_available_nodes=CLIENTS), 0.0, CLIPPING_NORM, CLIENTS
    ),
}
FLEETS = [
    *AGGREGATORS,
    "lost-mean",
    "absent-mean",
    *(f"garbage-{name}" for name in AGGREGATORS),
    *("noise-1", "noise-3", "noise-10"),
]
CASES = ["pooled", *FLEETS, "fedavg-float32", "fedavg-int8", "node-averaging"]


def parts_of(data: Labelled) -> list[Labelled]:
    """Splits two classes for each client: half of its own and half of the next one's."""
    x, y = data
    found = []
    for client in range(CLIENTS):
        own, following = (np.flatnonzero(y == (client + i) % CLASSES) for i in (0, 1))
        rows = np.concatenate([own[: len(own) // 2], following[len(following) // 2 :]])
        found.append((x[rows], y[rows]))
    return found


def settings_of(seed: int, clients: int = 1) -> Settings:
    return algorithms.weight(batch_size=clients * MINIBATCH, queries=QUERIES, learning_rate=RATE, seed=seed)


def zo_model(task: Task, seed: int) -> Model:
    return inject(load_model(task.model), inject_settings(settings_of(seed), batch=MINIBATCH))


def accuracies(
    model: Model, weights: dict[str, Any] | None, task: Task, settings: Settings | None = None
) -> dict[str, float]:
    """Measures an int8 model with its own weights, or with others. The model was injected for `settings`."""
    trainer = Trainer(model, settings or settings_of(0))
    if weights is not None:
        trainer.runtime.write_weights(weights)
    return {name: 100 * trainer.evaluate(*getattr(task, name))["accuracy"] for name in ("validation", "test")}


def pooled(task: Task, seed: int, steps: int) -> dict[str, Any]:
    model = zo_model(task, seed)
    trainer = Trainer(model, settings_of(seed, CLIENTS))
    trainer.fit(*task.adapt, steps=steps, keep="last")
    return {**accuracies(model, trainer.runtime.read_weights(), task), "before": accuracies(model, None, task)["test"]}


def fleet(case: str, task: Task, seed: int, steps: int, folder: Path) -> dict[str, Any]:
    model, parts = zo_model(task, seed), parts_of(task.adapt)
    kind, _, name = case.partition("-") if case not in AGGREGATORS else ("", "", case)
    app = client_app(lambda c: FleetClient(model, *parts[int(c.node_config["part"])]))
    random = np.random.default_rng(seed)

    def garbling(message: Message, context: Context) -> Message:
        reply = app(message, context)
        if context.node_config["part"] == 0 and reply.has_content() and "arrays" in reply.content:
            values = random.normal(0, GARBAGE, QUERIES)
            reply.content["arrays"] = ArrayRecord({"differences": Array(values)})
        return reply

    def is_lost(message: Message) -> bool:
        if message.metadata.message_type != MessageType.TRAIN:
            return False
        if kind == "absent":
            return message.metadata.dst_node_id == first
        return random.random() < 1 - (1 - LOST) ** 0.5  # a message or its reply: three of ten rounds

    grid = LocalGrid(
        garbling if kind == "garbage" else app,
        [{"part": part} for part in range(CLIENTS)],
        lost=is_lost if kind in ("lost", "absent") else None,
    )
    first = grid.get_node_ids()[0]
    accountant: Any = None
    if kind == "noise":
        aggregator, accountant = _noisy(float(name))
    else:
        aggregator = AGGREGATORS[name]()
    path = folder / f"{case}-{seed}.zolog"
    log = FleetLog(model, settings_of(seed), steps, max(len(y) for _, y in parts), path, replace=True)
    strategy, begin = FleetStrategy(log, aggregator), time.perf_counter()
    strategy.run(grid)
    seconds = time.perf_counter() - begin
    log.close()
    assert not strategy.refusals, strategy.refusals[:3]
    snapshots = {context.state["tflm-zo"]["snapshot"] for context in grid.contexts.values()}
    assert snapshots == {log.snapshot()}, "the clients have other weights than the server"
    result = {**accuracies(model, log.weights[0], task), **_bytes(grid), "seconds": seconds}
    result |= {"record": log.record_bytes, "log": path.stat().st_size}
    if accountant is not None:
        result["epsilon"] = accountant.get_epsilon(1e-3)
    return result


def _noisy(multiplier: float) -> tuple[Strategy, Any]:
    from flwr.serverapp import RdpAccountant

    accountant = RdpAccountant(
        PrivacyConfig(1e-3, CLIENTS, NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.NO_AMPLIFICATION)
    )
    wrapped = FedAvg(min_train_nodes=CLIENTS, min_available_nodes=CLIENTS)
    return (
        DifferentialPrivacyServerSideFixedClipping(wrapped, multiplier, CLIPPING_NORM, CLIENTS, accountant=accountant),
        accountant,
    )


def _bytes(grid: LocalGrid) -> dict[str, float]:
    """Computes bytes of a client, on average."""
    traffic = grid.traffic.values()
    return {
        "messages": statistics.mean(t.messages for t in traffic),
        "down": statistics.mean(t.down for t in traffic),
        "up": statistics.mean(t.up for t in traffic),
    }


def averaging(case: str, task: Task, seed: int) -> dict[str, Any]:
    """Rounds of FedAvg; with each one's accuracy, in floating point, and the bytes so far."""
    import keras
    from federated_averaging import Averaging, averaging_app, weights_of, weights_record

    keras.utils.set_random_seed(seed)
    model, in_int8 = keras.models.load_model(task.keras, compile=False), case.endswith("int8")
    app = averaging_app(model, parts_of(task.adapt), in_int8=in_int8, rate=AVERAGING_RATE, epochs=AVERAGING_EPOCHS)
    grid = LocalGrid(app, [{"part": part} for part in range(CLIENTS)])
    rounds: list[dict[str, float]] = []

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord | None:
        model.set_weights(weights_of(arrays))
        found = {
            name: 100 * float(np.mean(model.predict(x, verbose=0, batch_size=500).argmax(1) == y))
            for name, (x, y) in (("validation", task.validation), ("test", task.test))
        }
        rounds.append({**found, **_bytes(grid)})
        return MetricRecord(found)

    strategy = Averaging(in_int8=in_int8, fraction_evaluate=0.0)
    begin = weights_record(model.get_weights(), in_int8=False)
    strategy.start(grid, begin, AVERAGING_ROUNDS, evaluate_fn=evaluate)
    return {**rounds[-1], "rounds": rounds}


def node_averaging(task: Task, seed: int) -> dict[str, Any]:
    """Rounds of node perturbation at the clients; with each one's accuracy and the bytes so far."""
    settings = algorithms.node(batch_size=MINIBATCH, learning_rate=NODE_RATE, seed=seed)
    model, parts = (inject(load_model(task.model), inject_settings(settings, batch=MINIBATCH)), parts_of(task.adapt))
    app = averaging_app(lambda c: AveragingClient(model, settings, NODE_STEPS, *parts[int(c.node_config["part"])]))
    grid = LocalGrid(app, [{"part": part} for part in range(CLIENTS)])
    weights = AveragedWeights(model)
    strategy = AveragingStrategy(weights, FedAvg(fraction_evaluate=0.0))
    rounds: list[dict[str, float]] = []

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord | None:
        rounds.append({**accuracies(model, weights.weights, task, settings), **_bytes(grid)})
        return None

    strategy.start(grid, strategy.arrays(), NODE_ROUNDS, evaluate_fn=evaluate)
    assert not strategy.refusals, strategy.refusals[:3]
    return {**rounds[-1], "rounds": rounds}


def run(case: str, seed: int, steps: int, folder: Path) -> dict[str, Any]:
    task = TASKS["rotated"](folder, seed)
    if case == "node-averaging":
        return node_averaging(task, seed)
    if case == "pooled":
        return pooled(task, seed, steps)
    if case.startswith("fedavg-"):
        return averaging(case, task, seed)
    return fleet(case, task, seed, steps, folder)


def table(rows: list[dict[str, Any]]) -> Table:
    result = Table("case", "validation", "test", "messages", "down", "up", "epsilon")
    for case in dict.fromkeys(row["case"] for row in rows):
        own = [row for row in rows if row["case"] == case]
        numbers = (
            f"{statistics.mean(row[name] for row in own):,.0f}" if name in own[0] else ""
            for name in ("messages", "down", "up", "epsilon")
        )
        result.add_row(case, *(_mean([row[name] for row in own]) for name in ("validation", "test")), *numbers)
    return result


def reached(rows: list[dict[str, Any]]) -> Table:
    """Finds the step at which averaging first has a fleet's validation accuracy, and the bytes sent by
    then.
    """
    result = Table("case", "of", "round", "test", "down", "up")
    fleets = {row["seed"]: row for row in rows if row["case"] == "mean"}
    for case in ("fedavg-float32", "fedavg-int8", "node-averaging"):
        found = []
        for row in (row for row in rows if row["case"] == case and row["seed"] in fleets):
            goal = fleets[row["seed"]]["validation"]
            found += [(n, r) for n, r in enumerate(row["rounds"]) if r["validation"] >= goal][:1]
        if found:
            means = (f"{statistics.mean(r[name] for _, r in found):,.0f}" for name in ("down", "up"))
            numbers = ", ".join(str(n) for n, _ in found)
            result.add_row(case, f"{len(found)} seeds", numbers, _mean([r["test"] for _, r in found]), *means)
    return result


def _mean(values: list[float]) -> str:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.1f} ± {spread:.1f}"


def _steps(case: str, steps: int) -> int:
    if case == "node-averaging":
        return NODE_ROUNDS
    return AVERAGING_ROUNDS if case.startswith("fedavg-") else steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=CASES, choices=CASES, metavar="CASE")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="(default: 0 1 2)")
    parser.add_argument("--steps", type=int, default=400, help="rounds of a fleet (default: %(default)s)")
    parser.add_argument("--work", type=Path, default=Path("build/learning"), help="folder for models")
    parser.add_argument("--results", type=Path, help="default: fleet.jsonl in --work")
    options = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    options.work.mkdir(parents=True, exist_ok=True)
    path = options.results or options.work / "fleet.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    with open(path, "a", encoding="utf-8") as file:
        for seed in options.seeds:
            for case in options.cases:
                key = {"case": case, "seed": seed, "steps": _steps(case, options.steps)}
                if any(key.items() <= row.items() for row in rows):
                    continue
                rows.append({**key, **run(case, seed, options.steps, options.work)})
                file.write(json.dumps(rows[-1]) + "\n")
                file.flush()
                print(case, seed, f"{rows[-1]['test']:.1f}", file=sys.stderr, flush=True)
    wanted = [
        row
        for row in rows
        if row["case"] in options.cases
        and row["seed"] in options.seeds
        and row["steps"] == _steps(row["case"], options.steps)
    ]
    wanted.sort(key=lambda row: CASES.index(row["case"]))
    console = Console()
    if not console.is_terminal:
        console.width = 120
    console.print(table(wanted))
    console.print(reached(wanted))


if __name__ == "__main__":
    main()
