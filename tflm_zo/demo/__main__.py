# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""python -m tflm_zo.demo [--dataset digits] [--output demo_output]."""

from __future__ import annotations

import argparse

from rich.console import Console

from ..training import ProgressBar
from .report import print_report
from .story import run_demo
from .tasks import TASKS


def main() -> int:
    """Runs the demo; 0 where everything held."""
    parser = argparse.ArgumentParser(prog="python -m tflm_zo.demo", description=__doc__)
    parser.add_argument("--dataset", default="digits", choices=list(TASKS))
    parser.add_argument("--output", default="demo_output", help="folder for the files")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    console = Console()
    result = run_demo(
        arguments.output,
        dataset=arguments.dataset,
        seed=arguments.seed,
        say=lambda text: console.print(f"• {text}"),
        callbacks=(ProgressBar(),),
    )
    print_report(result, console)
    return 0 if result.replayed and result.tflm_identical is not False else 1


if __name__ == "__main__":
    raise SystemExit(main())
