# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Which models a benchmark measures."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tflm_zo.converters import ConversionError, Model, load_model

__all__ = ["add_models_argument", "chosen_models"]


def add_models_argument(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds the positional argument `models`: any number of files.

    Args:
        parser: of the benchmark's command line.
        what: a name of the required files, for the help.
    """
    parser.add_argument("models", nargs="*", type=Path, help=f"{what} (.tflite); none: the LeNet-5 of the tests")


def chosen_models(paths: list[Path]) -> dict[str, Model]:
    """Loads the models by name. Without paths: the LeNet-5 of the tests, with random weights.

    Raises:
        SystemExit: with one line that says which file cannot be read, or is no model.
    """
    if paths:
        return {path.stem: _load(path) for path in paths}
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    from helpers.models import MODELS

    return {"lenet5 (random weights)": load_model(MODELS["lenet5"]())}


def _load(path: Path) -> Model:
    try:
        return load_model(path)
    except (ConversionError, OSError) as error:
        raise SystemExit(str(error)) from None
