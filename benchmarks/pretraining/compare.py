# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Does a recipe of pre-training or conversion help adaptation by forward passes?

    python benchmarks/pretraining/compare.py [--seeds 6] [--runs 3] [--only NAME …] [--tune]

Each recipe of recipes.py pre-trains in Keras, converts, injects (all weights, batch 32, 16-bit update) and
adapts to images rotated by 45 degrees, by weight perturbation with a rate of 2: LeNet-5 on MNIST
(10^5 forward passes) and the demo's CNN on scikit-learn's digits (3,000 steps). Every recipe is measured with
the same seeds of pre-training, and for each of them with the same `--runs` seeds of adaptation, so that gains
are paired: the gain is the mean over pre-trainings of the difference to the baseline, with its standard
error. A recipe helps if the gain exceeds two of them.

MNIST is `mnist10k.npz` in the folder TFLM_ZO_DATA, or Keras' own download. Every adaptation is a line in
`--results` as soon as it is done; a later call resumes from there. `--tune` measures the candidates for
hyper-parameters on MNIST's validation images, with seeds of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

if TYPE_CHECKING:
    from recipes import Recipe, Source

TUNING_SEED = 1000
BATCH = 32
# The same rate on both tasks, which have different numbers of steps.
RATE = 2.0
TASKS = ("mnist", "digits")
MEASURES = ("old", "before", "after", "old_after", "validation", "lsb_of_rms")


@dataclass(frozen=True)
class Data:
    """A task with its calibration and, if there are some, rotated validation images."""

    task: Any
    calibration: np.ndarray[Any, Any]
    validation: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None
    steps: int


def load_data(name: str) -> Data:
    from tflm_zo.demo import SCENARIOS

    task = SCENARIOS[name]()
    if name != "mnist":
        return Data(task, task.pretrain[0][:300], None, 3000)
    from tflm_zo.demo.scenarios import load_mnist, rotated

    x, y = (part[7000:8000] for part in load_mnist())
    return Data(task, x[:300], (rotated(x), y), 100_000 // 128)


# --- measuring ----------------------------------------------------------------------------------------------


def pretrained(recipe: Recipe, source: Source) -> Any:
    from recipes import PRETRAININGS

    return PRETRAININGS[recipe.pretraining](source, recipe.value)


def converted(recipe: Recipe, data: Data, model: Any) -> Any:
    """Makes the ZO model."""
    from tflm_zo import inject
    from tflm_zo.conversion.keras import convert

    int8 = convert(
        model,
        data.calibration,
        activation_headroom=recipe.activation_headroom,
        per_channel_dense=recipe.per_channel_dense,
    ).model
    return inject(int8, trainable="all", nodes=(), batch=BATCH, headroom=recipe.headroom, replay=True)


def adapt(recipe: Recipe, data: Data, zo: Any, seed: int) -> dict[str, float]:
    """Measures accuracies in percent, and the LSB of a weight relative to the RMS of its layer's weights."""
    from tflm_zo.training import Trainer, algorithms

    settings = algorithms.weight(seed=seed, **{"learning_rate": RATE, **recipe.settings})
    trainer = Trainer(zo, settings, runtime="litert")
    rms = [math.sqrt(np.mean(np.square(w, dtype=float))) for w in trainer.runtime.read_weights().values()]

    def accuracy(samples: Any) -> float:
        return 100 * trainer.evaluate(*samples)["accuracy"]

    task = data.task
    result = {"old": accuracy(task.upright), "before": accuracy(task.test)}
    trainer.fit(*task.adapt, steps=data.steps, keep="last")
    result |= {"after": accuracy(task.test), "old_after": accuracy(task.upright)}
    if data.validation is not None:
        result["validation"] = accuracy(data.validation)
    return result | {"lsb_of_rms": statistics.mean(1 / r for r in rms)}


def measure(jobs: dict[str, list[Recipe]], seeds: range, runs: int, results: Path) -> None:
    """Measures the jobs that `results` lacks, and appends them."""
    from recipes import Source

    done = {_key(row) for row in read_results(results)}
    todo: list[tuple[str, Recipe, int, list[int]]] = []
    for task, recipes in jobs.items():
        for seed in seeds:
            for recipe in recipes:
                missing = [r for r in range(runs) if (task, recipe.name, seed, r) not in done]
                if missing:
                    todo.append((task, recipe, seed, missing))
    # Recipes that differ in conversion alone share a pre-training, so they come one after the other.
    todo.sort(key=lambda job: (job[2], job[0], job[1].pretraining, job[1].value))
    data = {task: load_data(task) for task in {job[0] for job in todo}}
    last: tuple[Any, ...] = ()
    model: Any = None
    torn = results.exists() and not results.read_bytes().endswith(b"\n")
    with Progress(console=Console(stderr=True)) as progress, results.open("a") as file:
        file.write("\n" if torn else "")
        bar = progress.add_task("adaptations", total=sum(len(job[3]) for job in todo))
        for task, recipe, seed, missing in todo:
            progress.update(bar, description=f"{task}, seed {seed}, {recipe.name}")
            d = data[task]
            this = (task, seed, recipe.pretraining, recipe.value)
            if this != last:
                last = this
                x, y = d.task.pretrain
                source = Source(d.task.build, x, y, d.calibration, d.task.epochs, seed)
                model = pretrained(recipe, source)
            zo = converted(recipe, d, model)
            for run in missing:
                row = {"task": task, "recipe": recipe.name, "seed": seed, "run": run}
                row |= adapt(recipe, d, zo, seed * 100 + run)
                file.write(json.dumps(row) + "\n")
                file.flush()
                progress.advance(bar)


def read_results(path: Path) -> list[dict[str, Any]]:
    """Reads the complete lines. An interrupted measurement is repeated."""
    rows = []
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return rows


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["task"], row["recipe"], row["seed"], row["run"]


# --- reporting ----------------------------------------------------------------------------------------------


def summary(rows: list[dict[str, Any]], names: list[str], judged: str = "after") -> dict[str, Any]:
    """Summarizes one task: mean and spread of each measure, and the paired gain of `judged` over the first
    recipe.
    """
    baseline = _by_seed(rows, names[0], judged)
    out: dict[str, Any] = {}
    for name in names:
        mine = [r for r in rows if r["recipe"] == name]
        if not mine:
            continue
        entry = out[name] = {"pretrainings": len({r["seed"] for r in mine}), "adaptations": len(mine)}
        for measure_ in MEASURES:
            values = [r[measure_] for r in mine if measure_ in r]
            if values:
                entry[measure_] = statistics.mean(values)
                entry[f"{measure_}_spread"] = statistics.stdev(values) if len(values) > 1 else 0.0
        own = _by_seed(rows, name, judged)
        gains = [own[seed] - baseline[seed] for seed in own if seed in baseline]
        if name != names[0] and gains:
            entry["gain"] = statistics.mean(gains)
            if len(gains) > 1:
                entry["gain_error"] = statistics.stdev(gains) / math.sqrt(len(gains))
    return out


def _by_seed(rows: list[dict[str, Any]], name: str, measure_: str) -> dict[int, float]:
    """Averages the adaptations of each pre-trained model."""
    seeds: dict[int, list[float]] = {}
    for r in rows:
        if r["recipe"] == name:
            seeds.setdefault(r["seed"], []).append(r[measure_])
    return {seed: statistics.mean(values) for seed, values in seeds.items()}


def table_of(task: str, recipes: dict[str, Any], judged: str) -> Table:
    table = Table(title=f"{task}: accuracy, % (mean ± spread), gain over the baseline (± standard error)")
    shown = ("old", "before", "after", "old_after", *(["validation"] if judged == "validation" else []))
    for column in ("recipe", *(m.replace("_", ", ") for m in shown), f"gain, {judged}", "LSB / RMS"):
        table.add_column(column, justify="left" if column == "recipe" else "right", no_wrap=True)
    for name, r in recipes.items():
        gain = f"{r['gain']:+.1f} ± {r.get('gain_error', 0):.1f}" if "gain" in r else ""
        figures = (f"{r[m]:.1f} ± {r[f'{m}_spread']:.1f}" for m in shown)
        table.add_row(name, *figures, gain, f"{r['lsb_of_rms']:.4f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=6, help="pre-trainings of each recipe")
    parser.add_argument("--runs", type=int, default=3, help="adaptations of each pre-trained model")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="recipes; the baseline is always measured")
    parser.add_argument("--tune", action="store_true", help="candidates, MNIST's validation images")
    parser.add_argument("--results", type=Path, default=Path("pretraining.jsonl"))
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    arguments = parser.parse_args()

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from recipes import CANDIDATES, RECIPES

    choice = CANDIDATES if arguments.tune else RECIPES
    names = [r.name for r in choice]
    if unknown := set(arguments.only or ()) - set(names):
        parser.error(f"no recipe {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
    recipes = [r for r in choice if not arguments.only or r.name in (names[0], *arguments.only)]
    tasks = ["mnist"] if arguments.tune else arguments.tasks
    judged = "validation" if arguments.tune else "after"
    first = TUNING_SEED if arguments.tune else 0
    seeds = range(first, first + arguments.seeds)
    measure({task: recipes for task in tasks}, seeds, arguments.runs, arguments.results)

    rows = [r for r in read_results(arguments.results) if r["seed"] in seeds and r["run"] < arguments.runs]
    found = {t: summary([r for r in rows if r["task"] == t], [r.name for r in recipes], judged) for t in tasks}
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for task, entries in found.items():
        Console(width=120).print(table_of(task, entries, judged))


if __name__ == "__main__":
    main()
