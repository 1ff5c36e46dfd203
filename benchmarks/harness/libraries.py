# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""TFLM's libraries, for benchmarks on emulated cores."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from tflm_checkout.firmware_build import Library

__all__ = ["built_libraries"]


def built_libraries(parser: argparse.ArgumentParser, wanted: Iterable[Library]) -> list[Library]:
    """Returns the libraries that TFLM's own Makefile has built; others are named on stderr.

    Args:
        parser: parser of the benchmark's command line, which ends the program if there is no checkout.
        wanted: libraries that the benchmark measures with.
    """
    if "TFLM_DIR" not in os.environ:
        parser.error("set TFLM_DIR to a checkout of tflite-micro whose libraries its own Makefile has built")
    found = []
    for library in wanted:
        if why := library.why_not():
            print(why, file=sys.stderr)
        else:
            found.append(library)
    return found
