"""Programs of examples/, imported or run as a user runs them."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from helpers.commands import result_of
from helpers.pages import REPOSITORY


def path_of(name: str) -> Path:
    return REPOSITORY / "examples" / name / f"{name}.py"


def program(name: str) -> ModuleType:
    """Imports an example's module, with names that a test may change."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", path_of(name))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def run(name: str, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the example as a process, without TFLM_ZO_DATA and TFLM_ZO_MODELS unless they are given."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("TFLM_ZO_")}
    return subprocess.run(
        [sys.executable, path_of(name), *map(str, words)],
        env=inherited | {"COLUMNS": "120", "TF_CPP_MIN_LOG_LEVEL": "3"} | environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )


def table(output: str) -> dict[str, list[float]]:
    """Reads means of a printed table, by the name of their row."""
    rows = re.findall(r"^│ (.*?) +│ (.*) │$", output, re.MULTILINE)
    return {name: [float(mean) for mean in re.findall(r"([\d.]+) ±", cells)] for name, cells in rows}


def evaluated(model: str) -> float:
    """Measures a model's accuracy on test.npz in the working directory by `tflm-zo evaluate`, per cent."""
    return 100 * float(result_of("evaluate", model, "test.npz")["accuracy"])


def data(variable: str, *files: str) -> Path:
    """Returns the folder that a variable of the environment names; skips with a message if one of the files
    is missing."""
    folder = Path(os.environ.get(variable, ""))
    if not os.environ.get(variable) or not all((folder / name).is_file() for name in files):
        pytest.skip(f"{variable} NAMES NO FOLDER WITH {', '.join(files)}: THE EXAMPLE WAS NOT RUN")
    return folder
