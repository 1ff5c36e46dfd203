"""Generated folders for tests: every kind of run, every platform, their text and their build systems."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from helpers.models import MODELS
from tflm_zo import Model, inject, load_model
from tflm_zo.firmware import PLATFORMS, Firmware, arena, generate_firmware
from tflm_zo.training import algorithm, inject_settings

#: One of each kind of trainer.
ALGORITHMS = ("node", "weight")
COMMAND = "tflm-zo firmware small.zo.tflite -o small"


@cache
def zo_model(name: str, network: str = "small_cnn", batch: int = 1) -> Model:
    """Injects a network for an algorithm."""
    settings = inject_settings(algorithm(name), batch=batch)
    return load_model(inject(MODELS[network](), settings).to_bytes())


@cache
def firmware(platform: str, name: str = "node", network: str = "small_cnn") -> Firmware:
    """Generates a folder, with the arena's bound: measuring takes a second."""
    assert platform in PLATFORMS
    with mock.patch.object(arena, "recorded", return_value=None):
        return generate_firmware(
            zo_model(name, network), steps=3, samples=5, platform=platform, name="small", command=COMMAND
        )


def write(folder: Path, platform: str, name: str = "node") -> Path:
    """Writes it, and returns the folder."""
    firmware(platform, name).write(folder)
    return folder


def compiled(folder: Path, *, below: str = ".") -> set[str]:
    """Lists C and C++ sources of a folder that are not of its example."""
    found = {p.relative_to(folder).as_posix() for p in (folder / below).rglob("*") if p.is_file()}
    sources = {p for p in found if p.endswith((".c", ".cc", ".cpp"))}
    return {p for p in sources if not p.startswith(("examples/", "samples/", "main.cc", "small_zo_samples."))}


def included(source: Path) -> tuple[list[str], list[str]]:
    """Lists the includes of a source: in quotes, in angle brackets."""
    text = source.read_text(encoding="utf-8")
    return (
        re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M),
        re.findall(r"^\s*#\s*include\s+<([^>]+)>", text, re.M),
    )


def uncommented(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def initializer(text: str, name: str) -> str:
    """Returns the text between the braces of a definition."""
    found = re.findall(rf"\b{name}(?:\[\w*\])+ = \{{(.*?)\n?\}};", uncommented(text), re.S)
    assert len(found) == 1, name
    return str(found[0])


def rows(text: str, name: str) -> list[list[str]]:
    return [[v.strip() for v in row.split(",")] for row in re.findall(r"\{(.*?)\}", initializer(text, name))]


def define(made: Firmware, name: str) -> str:
    return re.findall(
        rf"^#define \w+_{name} (.*)$", next(t for p, t in made.files.items() if p.endswith("_zo_config.h")), re.M
    )[0]


needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="NO cmake: NO GLUE WAS EXECUTED")


def run(*command: Any, folder: Path | None = None) -> str:
    """Runs a tool, which succeeds, and returns its output."""
    done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout
