# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Tables of tflm_zo and its alternatives: RAM, flash, instructions, accuracy and energy.

    python benchmarks/alternatives/report.py --ours build/learning/results.jsonl

Reads the rows of learning_curves.py, of device_costs.py, and, with --ours, of learning/compare.py, and prints the
tables of docs/alternatives.md.

* accuracy: mean over the targets, of the longest run;
* to 90, 95, 98 %: instructions of the shortest run whose accuracy is that share of the best one in the table; 0 if
  the network has it before, by the rows of learning/compare.py. A stored embedding is computed once; everything
  else is computed for each sample of each step;
* energy: of the run to 95 %, by boards.toml: instructions, cycles of an instruction as
  in the planner, clock, current and voltage of the data sheet.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

sys.path.insert(0, str(Path(__file__).parents[1]))
from alternatives import ALTERNATIVES, FAMILIES

from tflm_zo.planner.boards import find_board, find_core

Row = dict[str, Any]
SHARES = (0.90, 0.95, 0.98)
ENERGY_SHARE = 0.95
OURS = {
    "weight": "**tflm_zo: weight perturbation**",
    "head-exact": "**tflm_zo: last layer, exact**",
    "node": "**tflm_zo: node perturbation**",
    "exact": "**tflm_zo: exact gradients**",
    "recalibrated-head-exact": "**tflm_zo: recalibration, last layer**",
    "recalibrated-node": "**tflm_zo: recalibration, node perturbation**",
    "recalibrated-exact": "**tflm_zo: recalibration, exact gradients**",
}


@dataclass(frozen=True)
class Point:
    """A run: its instructions, and its accuracy as the mean over the targets."""

    instructions: float
    accuracy: float


@dataclass(frozen=True)
class Line:
    """A method on a family of tasks: its costs, and its runs by length."""

    method: str
    costs: Row
    points: tuple[Point, ...]

    def reached(self, accuracy: float) -> Point | None:
        """Returns the run with the fewest instructions that is as accurate."""
        fitting = [point for point in self.points if point.accuracy >= accuracy]
        return min(fitting, key=lambda point: point.instructions, default=None)


def rows(path: Path) -> list[Row]:
    """Reads a file with a row in each line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _by_length(found: Iterable[tuple[Any, str, float, float]], targets: tuple[str, ...]) -> tuple[Point, ...]:
    """Returns a point for each length that all targets have, the shortest first.

    Args:
        found: (length, target, instructions, accuracy) of each run.
        targets: names.
    """
    lengths: dict[Any, dict[str, Point]] = defaultdict(dict)
    for length, target, instructions, accuracy in found:
        lengths[length][target] = Point(instructions, accuracy)
    whole = [list(own.values()) for own in lengths.values() if set(own) == set(targets)]
    means = [Point(statistics.mean(p.instructions for p in w), statistics.mean(p.accuracy for p in w)) for w in whole]
    return tuple(sorted(means, key=lambda point: point.instructions))


def lines(family: str, curves: list[Row], device: list[Row], ours: list[Row]) -> list[Line]:
    """Returns the methods of a family for which there are costs and runs."""
    targets = FAMILIES[family].targets
    costs = {row["method"]: row for row in device if (row["family"], row["core"]) == (family, "cortex-m4")}
    # A desktop recalibrates the network: nothing changes on the device but the values of its weights.
    costs |= {m: costs[after] for m in (*OURS, *ALTERNATIVES) if (after := m.removeprefix("recalibrated-")) in costs}
    made = []
    for method, own in costs.items():
        if method in OURS:
            sample = own["train"] * own["minibatch"]
            runs = [r for r in ours if r["method"] == method and r["task"] in targets]
            found = [(r["budget"], r["task"], r["steps"] * sample, r["test"]) for r in runs]
        else:
            runs = [r for r in curves if (r["family"], r["method"]) == (family, method)]
            found = [(r["step"], r["task"], _instructions(method, own, r), r["test"]) for r in runs]
        if points := _by_length(found, targets):
            made.append(Line(method, own, points))
    order = [*OURS, *ALTERNATIVES]
    return sorted(made, key=lambda line: order.index(line.method))


def _instructions(method: str, costs: Row, run: Row) -> float:
    """Returns the instructions of a run of an alternative."""
    stored = min(run["samples"], run["stored"])
    return stored * costs.get("embed", 0) + run["samples"] * costs["train"]


def label(method: str) -> str:
    return OURS[method] if method in OURS else ALTERNATIVES[method].summary


def _reached(line: Line, accuracy: float) -> str:
    point = line.reached(accuracy)
    return "–" if point is None else _millions(point.instructions)


def _millions(count: float) -> str:
    return f"{count / 1e6:,.0f} M" if count >= 1e7 else f"{count / 1e6:,.1f} M"


def before(family: str, ours: list[Row], recalibrated: bool = False) -> float:
    """Returns the mean accuracy of the int8 network before training, or 0 if it is not known."""
    # Weight perturbation begins with other weights, which have headroom.
    own = [r for r in ours if r["method"].startswith("recalibrated-") == recalibrated and r["method"] != "weight"]
    found = {row["task"]: row["before"] for row in own if row["task"] in FAMILIES[family].targets}
    return statistics.mean(found.values()) if found else 0.0


def table(own: list[Line], start: float = 0.0, recalibrated: float = 0.0) -> list[str]:
    """Returns a family's table of memory, instructions and accuracy.

    Args:
        own: the methods.
        start: accuracy before training.
        recalibrated: accuracy of the recalibrated network before training.
    """
    best = max(line.points[-1].accuracy for line in own)
    heads = ("method", "RAM", "flash", "a sample", *(f"to {share:.0%}" for share in SHARES), "accuracy")
    made = [f"| {' | '.join(heads)} |", "| --- |" + " ---: |" * (len(heads) - 1)]
    for line in own:
        begin = recalibrated if line.method.startswith("recalibrated-") else start
        reached = ["0" if begin >= share * best else _reached(line, share * best) for share in SHARES]
        cells = (
            label(line.method),
            f"{line.costs['ram']:,} B",
            f"{line.costs['flash']:,} B",
            f"{line.costs['train'] + line.costs.get('embed', 0):,.0f}",
            *reached,
            f"{line.points[-1].accuracy:.1f}",
        )
        made.append(f"| {' | '.join(cells)} |")
    return made


def core_table(device: list[Row]) -> list[str]:
    """Returns the table of whole networks: RAM on the last core, and a sample's instructions on each one."""
    cores = sorted({row["core"] for row in device})
    made = [f"| network | method | RAM | {' | '.join(cores)} |", "| --- | --- | ---: |" + " ---: |" * len(cores)]
    for family in FAMILIES:
        for method in ("exact", "backpropagation"):
            own = {r["core"]: r for r in device if (r["family"], r["method"]) == (family, method)}
            if own:
                counts = (f"{own[core]['train']:,.0f}" if core in own else "–" for core in cores)
                ram = f"{own[cores[-1]]['ram']:,} B" if cores[-1] in own else "–"
                made.append(f"| {FAMILIES[family].label} | {label(method)} | {ram} | {' | '.join(counts)} |")
    return made


def energy_table(families: dict[str, list[Line]], boards: dict[str, Row]) -> list[str]:
    """Returns the table of joules of the run that reaches 95 % of the best accuracy."""
    made = [f"| method | {' | '.join(FAMILIES[f].label for f in families)} |", "| --- |" + " ---: |" * len(families)]
    methods = list(dict.fromkeys(line.method for own in families.values() for line in own))
    for method in methods:
        cells = []
        for own in families.values():
            best = max(line.points[-1].accuracy for line in own)
            line = next((one for one in own if one.method == method), None)
            point = None if line is None else line.reached(ENERGY_SHARE * best)
            found = [] if point is None else [joules(point.instructions, name, b) for name, b in boards.items()]
            cells.append(" / ".join(map(_joules, found)) or "–")
        made.append(f"| {label(method)} | {' | '.join(cells)} |")
    return made


def _joules(energy: float) -> str:
    return (
        f"{energy:.0f} J"
        if energy >= 10
        else f"{energy:.1f} J"
        if energy >= 1
        else f"{1000 * energy:.{0 if energy >= 0.01 else 1}f} mJ"
    )


def joules(instructions: float, name: str, board: Row) -> float:
    """Returns the energy of instructions: cycles divided by the clock, times current and voltage."""
    cycles = instructions * find_core(find_board(name).core).cycles
    return float(cycles / (board["clock"] * 1e6) * board["milliamperes"] * 1e-3 * board["volts"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = Path("build/alternatives")
    parser.add_argument("--curves", type=Path, default=folder / "curves.jsonl", help="of learning_curves.py")
    parser.add_argument("--device", type=Path, default=folder / "device.jsonl", help="of device_costs.py")
    parser.add_argument("--ours", type=Path, help="of learning/compare.py; without it, the alternatives alone")
    parser.add_argument("--json", action="store_true", help="points of the curves as JSON")
    arguments = parser.parse_args()
    ours = rows(arguments.ours) if arguments.ours else []
    curves, device = rows(arguments.curves), rows(arguments.device)
    families = {family: own for family in FAMILIES if (own := lines(family, curves, device, ours))}
    if arguments.json:
        whole = {
            family: {line.method: [(p.instructions, p.accuracy) for p in line.points] for line in own}
            for family, own in families.items()
        }
        print(json.dumps(whole, indent=1))
        return
    for family, own in families.items():
        print(
            f"\n### {FAMILIES[family].label}\n", *table(own, before(family, ours), before(family, ours, True)), sep="\n"
        )
        for row in device:
            if (row["family"], row["method"], row["core"]) == (family, "inference", "cortex-m4"):
                print(f"\ninference alone: {row['ram']:,} B, {row['flash']:,} B, {row['predict']:,.0f} instructions")
        print(f"\nbefore training: {before(family, ours):.1f} %")
        if int8 := [row["int8"] for row in curves if row["family"] == family and "int8" in row]:
            print(f"\nbackpropagation in float32, converted to int8: {statistics.mean(int8):.1f} %")
    print("\n### Cores\n", *core_table(device), sep="\n")
    boards = tomllib.loads(Path(__file__).with_name("boards.toml").read_text(encoding="utf-8"))
    print("\n### Energy\n", *energy_table(families, boards), sep="\n")


if __name__ == "__main__":
    main()
