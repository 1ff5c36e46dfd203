# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How well algorithms adapt int8 models within a budget of forward passes.

    python benchmarks/learning/compare.py [--tasks rotated …] [--methods node weight …] [--budgets 2e4 1e5 …]

Tasks are in tasks.py, methods in methods.py, both with one line each in --list; node:32 is method node with
minibatches of 32, exact:1@0.1 is exact with one sample and a rate of 0.1 LSB, exact@2x with twice the measured rate.
Every method runs with the defaults that the package ships, on splits that are fixed; its budget is in forward
equivalents: multiply-accumulates executed, updates included, divided by those of one forward pass. All forward passes
are int8, in LiteRT. A budget is a run of its own, with its own schedule.

Every run is a line in --results as soon as it is done; a later call resumes from there. The table shows the
mean and the standard deviation over seeds, each with a pre-training of its own; "speakers" is the mean over
the held-out speakers. --plot draws accuracy against forward equivalents.

MNIST is `mnist10k.npz` in the folder TFLM_ZO_DATA, or Keras' own download; the spoken digits are `fsdd.npz`
in that folder.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from ablations import PAIRS
from guard import guard_table
from methods import METHODS, adapt, method_of
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tasks import SHIFTS, TASKS

Row = dict[str, Any]
KEY = ("task", "method", "budget", "seed", "guard")


def run(task: str, method: str, budget: float, seed: int, guard: str, folder: str) -> Row:
    """Measures one line of the results."""
    made = TASKS[task](Path(folder), seed)
    return {
        "task": task,
        "method": method,
        "budget": budget,
        "seed": seed,
        "guard": guard,
        **adapt(made, method_of(method), budget, seed, guard),
    }


def prepare(task: str, seed: int, folder: str) -> None:
    """Trains and converts missing models."""
    TASKS[task](Path(folder), seed)


def read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def _key(row: Row) -> tuple[Any, ...]:
    guard = row.get("guard", "")
    if isinstance(guard, bool):  # of when there was one guard
        row = {**row, "guard": "held-out" if guard else ""}
    return tuple(row.get(name, "") for name in KEY)


def family(task: str) -> str:
    return "speakers" if task.startswith("speaker-") else task


def summary(rows: list[Row]) -> list[Row]:
    """Computes mean and standard deviation over seeds, of means over speakers."""
    groups: dict[tuple[str, str, float], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[family(row["task"]), row["method"], row["budget"]][row["seed"]].append(row)
    result = []
    for (task, method, budget), seeds in sorted(groups.items()):
        line: Row = {"task": task, "method": method, "budget": budget, "seeds": len(seeds)}
        line["runs"] = sum(map(len, seeds.values()))
        for name in ("before", "test", "old", "validation"):
            means = [statistics.mean(r[name] for r in members) for members in seeds.values() if name in members[0]]
            if means:
                line[name] = statistics.mean(means)
                line[f"{name}_sd"] = statistics.stdev(means) if len(means) > 1 else 0.0
        line["steps"] = statistics.mean(r["steps"] for members in seeds.values() for r in members)
        result.append(line)
    return result


def table(lines: list[Row]) -> Table:
    result = Table("task", "method", "budget", "seeds", "steps", "before", "test", "old domain")

    def cell(line: Row, name: str) -> str:
        if name not in line:
            return "–"
        return f"{line[name]:.1f} ± {line[f'{name}_sd']:.1f}"

    for line in lines:
        result.add_row(
            line["task"],
            line["method"],
            _written(line["budget"]),
            str(line["seeds"]),
            f"{line['steps']:,.0f}",
            cell(line, "before"),
            cell(line, "test"),
            cell(line, "old"),
        )
    return result


def ablation_table(lines: list[Row]) -> Table:
    """Lists the change of the test accuracy by each variant, points."""
    found = {(line["task"], line["budget"], line["method"]): line for line in lines}
    places = sorted({(line["task"], line["budget"]) for line in lines})
    result = Table("change", "task", "budget", "without", "with", "gain")
    for claim, without, with_it in PAIRS:
        for task, budget in places:
            pair = found.get((task, budget, without)), found.get((task, budget, with_it))
            if pair[0] is None or pair[1] is None:
                continue
            accuracies = [f"{line['test']:.1f} ± {line['test_sd']:.1f}" for line in pair if line]
            result.add_row(claim, task, _written(budget), *accuracies, f"{pair[1]['test'] - pair[0]['test']:+.1f}")
    return result


def _written(budget: float) -> str:
    return f"{budget:.0e}".replace("e+0", "e")


def plot(lines: list[Row], path: Path) -> None:
    """Plots accuracy against forward equivalents, one panel per task."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    tasks = sorted({line["task"] for line in lines})
    figure, axes = pyplot.subplots(1, len(tasks), figsize=(5 * len(tasks), 4), squeeze=False)
    for axis, task in zip(axes[0], tasks, strict=True):
        for method in sorted({line["method"] for line in lines if line["task"] == task}):
            own = [line for line in lines if (line["task"], line["method"]) == (task, method)]
            own.sort(key=lambda line: line["budget"])
            budgets = [line["budget"] for line in own]
            means, errors = [line["test"] for line in own], [line["test_sd"] for line in own]
            axis.errorbar(budgets, means, errors, marker="o", capsize=3, label=method)
        axis.set(xscale="log", xlabel="forward equivalents", ylabel="test accuracy, %", title=task)
        axis.grid(alpha=0.3)
        axis.legend()
    figure.tight_layout()
    figure.savefig(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["rotated"], help="names, or: speakers, shifts, all")
    parser.add_argument("--methods", nargs="+", default=["node", "node-exact", "weight", "head-zo"])
    parser.add_argument("--budgets", nargs="+", type=float, default=[2e4, 1e5])
    parser.add_argument("--seeds", type=int, default=3, help="0, 1, … (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="Ray cluster that does the runs instead; all its machines need --work, an absolute path",
    )
    parser.add_argument("--work", type=Path, default=Path("build/learning"), help="folder for models")
    parser.add_argument("--results", type=Path, help="default: results.jsonl in --work")
    parser.add_argument("--plot", type=Path, metavar="FILE", help=".png, .svg or .pdf")
    parser.add_argument("--json", action="store_true", help="the table as JSON")
    parser.add_argument(
        "--ablations", action="store_true", help="the methods of ablations.py instead, and a table of their gains"
    )
    parser.add_argument(
        "--guard",
        nargs="?",
        default="",
        const="held-out",
        choices=("held-out", "training"),
        help="keep the best state by a fifth of the samples, which is held out, or by the training samples, "
        "and say how often that was needed",
    )
    parser.add_argument("--list", action="store_true", help="tasks and methods")
    return parser


def main() -> None:
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.list:
        for name, made in TASKS.items():
            print(f"task    {name:16} {(made.__doc__ or '').strip().splitlines()[0]}")
        for name, method in METHODS.items():
            print(f"method  {name:16} {method.summary}")
        return
    if arguments.ablations:
        arguments.methods = list(dict.fromkeys(name for _, *pair in PAIRS for name in pair))
    speakers = [name for name in TASKS if family(name) == "speakers"]
    groups = {"all": list(TASKS), "speakers": speakers, "shifts": list(SHIFTS)}
    tasks: list[str] = []
    for name in arguments.tasks:
        tasks += groups.get(name, [name])
    methods = [re.split("[:@]", name)[0] for name in arguments.methods]
    for what, names, known in (("task", tasks, TASKS), ("method", methods, METHODS)):
        for name in names:
            if name not in known:
                parser.error(f"no {what} {name!r}; there are {', '.join(known)}")
    arguments.work.mkdir(parents=True, exist_ok=True)
    path = arguments.results or arguments.work / "results.jsonl"
    rows = read(path)
    wanted = [
        (task, method, budget, seed, arguments.guard)
        for task in dict.fromkeys(tasks)
        for method in arguments.methods
        for budget in arguments.budgets
        for seed in range(arguments.seeds)
    ]
    done = {_key(row) for row in rows}
    if todo := [key for key in wanted if key not in done]:
        _work(todo, arguments.work, path, arguments.jobs, arguments.ray)
    chosen = [row for row in read(path) if _key(row) in set(wanted)]
    lines = summary(chosen)
    if arguments.plot is not None:
        plot(lines, arguments.plot)
    if arguments.json:
        print(json.dumps(lines, indent=2))
    else:
        console = Console()
        if not console.is_terminal:
            console.width = 120
        if arguments.guard:
            console.print(guard_table(chosen))
        else:
            console.print(ablation_table(lines) if arguments.ablations else table(lines))


@contextlib.contextmanager
def _submitting(jobs: int, ray: str | None) -> Iterator[Callable[..., Future[Any]]]:
    """Yields the function that hands calls to processes, of this machine or of a Ray cluster."""
    if ray is None:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, mp_context=context) as pool:
            yield pool.submit
        return
    import ray as cluster

    here = {"working_dir": str(Path(__file__).parent.parent), "env_vars": {"PYTHONPATH": "learning:."}}
    cluster.init(ray, runtime_env=here, log_to_driver=False, logging_level="error")
    try:
        yield lambda function, *given: cluster.remote(num_cpus=1)(function).remote(*given).future()
    finally:
        cluster.shutdown()


def _work(todo: list[tuple[str, str, float, int, str]], folder: Path, path: Path, jobs: int, ray: str | None) -> None:
    # One thread each: two interpreter threads on two busy cores are far slower than one.
    for variable in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        os.environ.setdefault(variable, "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with (
        _submitting(jobs, ray) as submit,
        Progress(console=Console(stderr=True)) as bar,
        open(path, "a", encoding="utf-8") as results,
    ):
        models = list(dict.fromkeys((task, seed) for task, _, _, seed, _ in todo))
        first = bar.add_task("pre-training", total=len(models))
        for future in as_completed([submit(prepare, t, s, str(folder)) for t, s in models]):
            future.result()
            bar.advance(first)
        second = bar.add_task("adapting", total=len(todo))
        futures = {submit(run, *key, str(folder)): key for key in todo}
        try:
            for done in as_completed(futures):
                try:
                    results.write(json.dumps(done.result()) + "\n")
                except ValueError as error:  # a step costs more than the budget, or no such network is taken
                    bar.console.print(*futures[done][:2], f"left out: {error}", markup=False)
                results.flush()
                bar.advance(second)
        except BaseException:
            for run_of_key in futures:
                run_of_key.cancel()
            raise


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
