# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Processor time of commands whose end people wait for, as a ratio to a start that does nothing else.

    python benchmarks/commands.py vww_96_int8.tflite …

For each int8 model: `plan`, and `report` on a seed log of 100,000 steps that nobody has trained. The start is
`tflm-zo algorithms`, which imports the command line and prints a table. `import tflm_zo` is measured alone,
in seconds more than an empty program. Figures are medians over rounds; time is that of the processor, of the
command and the processes that it starts. Without models the LeNet-5 of the tests is taken.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import add_models_argument, chosen_models, trainable_model

from tflm_zo.converters import Model

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.long_runs import seed_log


def processor_seconds(*arguments: Any, program: str = "from tflm_zo.cli import main; main()") -> float:
    words = [sys.executable, "-c", program, *map(str, arguments)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ratios(model: Model, steps: int, rounds: int, folder: Path) -> dict[str, float]:
    plain, zo = folder / "model.tflite", trainable_model(model, 8)
    model.save(plain)
    zo.save(folder / "long.zo.tflite")
    (folder / "long.zolog").write_bytes(seed_log(zo, steps)[0])
    commands = {
        "start": ("algorithms",),
        "plan": ("plan", plain, "--board", "nano-33-ble"),
        "report": ("report", folder / "long.zolog", "-o", folder / "long.html", "--force"),
    }
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, arguments in commands.items():
            found[name].append(processor_seconds(*arguments))
    medians = {name: statistics.median(times) for name, times in found.items()}
    return {"start_s": medians["start"], **{name: medians[name] / medians["start"] for name in ("plan", "report")}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models_argument(parser, "int8 models")
    parser.add_argument("--steps", type=int, default=100_000, help="of the report's run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    import_s = statistics.median(
        processor_seconds(program="import tflm_zo") - processor_seconds(program="pass") for _ in range(chosen.rounds)
    )
    results = {}
    for name, model in chosen_models(chosen.models).items():
        with tempfile.TemporaryDirectory() as folder:
            results[name] = ratios(model, chosen.steps, chosen.rounds, Path(folder))
    if chosen.json:
        print(json.dumps({"import_s": import_s, "models": results}))
        return
    for name, found in results.items():
        print(
            f"{name}: plan {found['plan']:.1f}, report {found['report']:.1f} times a start ({found['start_s']:.2f} s)"
        )
    print(f"import tflm_zo: {import_s:.3f} s more than an empty program")


if __name__ == "__main__":
    main()
