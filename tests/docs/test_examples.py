"""Every example of every page runs as it stands, or is in `NOT_EXECUTED` with the reason why it cannot.

Python and shell blocks are collected from all pages, so a new one is executed without a line here. Those of a
page share a folder, one for Python and one for commands, that begins with the files of `start`. The tutorial
and the how-to guides are walked through: their blocks are executed in their order, in one folder. The guide's
are executed by test_guide.py, in the order in which the guide needs them.
"""

import argparse
import ctypes
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import click
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from helpers.examples import slow_but
from helpers.firmware_folders import firmware
from helpers.models import MODELS
from helpers.models.detectors import grid
from helpers.models.streaming_networks import FEATURES, with_variables
from helpers.pages import GUIDE, HOW_TO, README, REPOSITORY, TUTORIAL, blocks, pages, run_command
from tflm_zo import algorithms, inject
from tflm_zo.cli.app import app
from tflm_zo.data import to_levels
from tflm_zo.firmware import PLATFORMS, arena
from tflm_zo.training import inject_settings


def relative(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


WALKS = [page for page in pages() if page == TUTORIAL or (page.parent == HOW_TO and page.name != "index.md")]
PYTHON = [page for page in pages() if page not in (GUIDE, *WALKS) and blocks(page, "python")]
SHELL = [page for page in pages() if blocks(page, "sh")]


# --- lines that are not executed, and their checks
# -----------------------------------------------------------


def parses(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class TakenError(Exception):
        pass

    def parse(parser: argparse.ArgumentParser, *given: Any) -> argparse.Namespace:
        original(parser, *given)
        raise TakenError

    words = shlex.split(line)
    script = REPOSITORY / words[words.index("python") + 1]
    original = argparse.ArgumentParser.parse_args
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    monkeypatch.setattr(sys, "argv", [str(script), *words[words.index("python") + 2 :]])
    monkeypatch.syspath_prepend(script.parent)
    with pytest.raises(TakenError):
        runpy.run_path(str(script), run_name="__main__")


def is_a_target(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["make", "--dry-run", *shlex.split(line)[1:]]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def has_the_extra(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package, *extra = re.findall(r"[^\[\]]+", shlex.split(line)[-1])
    if package == ".":
        text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
        assert all(re.search(rf"^{name} = \[", text, re.MULTILINE) for name in extra)


def is_a_fuzzer(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Path(shlex.split(line)[0]).relative_to("build/fuzz")
    assert (REPOSITORY / program).with_suffix(".c").is_file()


def names_a_file(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (REPOSITORY / shlex.split(line)[-1]).is_file()


def sets_options_that_there_are(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that the folder's CMakeLists.txt knows the options of the command line, or CMake itself does."""
    known = firmware("cmake").files["CMakeLists.txt"]
    assert all(name.startswith("CMAKE_") or name in known for name in re.findall(r"-D(\w+)=", line))


def is_in_a_generated_readme(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    readmes = [firmware(platform).files["README.md"] for platform in PLATFORMS]
    said = {said.strip() for readme in readmes for said in readme.splitlines()}
    assert line.replace("lenet5", "small") in said


def has_flowers_options(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks the options of Flower's program; fleet/flower/test_processes.py runs the example by such lines."""
    pytest.importorskip("flwr", reason="Flower needs Python 3.11")
    name, *words = shlex.split(line)
    said = help_of(name, *([words[0]] if name == "flwr" else []))
    named = [word for word in words if word.startswith("--")]
    assert named and all(word in said for word in named)


@cache
def help_of(name: str, *words: str) -> str:
    """Returns the help of one of Flower's programs, which takes a second or two to start."""
    environment = {**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    command = [str(Path(sys.executable).with_name(name)), *words, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_a_command(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line)[1:]
    done = CliRunner().invoke(app, [words[0], "--help"])
    assert done.exit_code == 0 and all(word in done.output for word in words if word.startswith("-"))


def is_taken_by_the_gateway(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that the command accepts these options; fleet and tflm_checkout/test_fleet.py run such lines."""
    program, command, *words = shlex.split(line)
    group = typer.main.get_command(app)
    assert program == "tflm-zo" and isinstance(group, click.Group)
    group.commands[command].make_context(command, words)


def is_in_the_tests_of_fleets(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = (REPOSITORY / "tests" / "fleet", REPOSITORY / "benchmarks" / "harness")
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py")]
    assert any(f'"{shlex.split(line)[0]}"' in text for text in texts)


@dataclass(frozen=True)
class Left:
    """Lines with a beginning that excludes them from execution, with the reason; and a check of them."""

    begins: str
    why: str
    check: Callable[[str, pytest.MonkeyPatch], None]


NOT_EXECUTED = (
    Left("make ", "makes environments, and runs the demo, all tests or a fuzzer", is_a_target),
    Left("pip install ", "needs the network", has_the_extra),
    Left("tflm-zo gateway ", "needs devices", is_taken_by_the_gateway),
    Left("python examples/fleet/serial_to_mqtt.py ", "needs a device and a broker", parses),
    Left("mosquitto ", "runs until it is stopped", is_in_the_tests_of_fleets),
    Left(r"(TFLM_DIR=checkout )?python benchmarks/", "takes minutes to hours, data sets, models", parses),
    Left(
        r"python examples/(personalization|new_voice|dirty_camera|machine_sounds|wake_word|fleet)/",
        "pre-trains, may take data: tests/examples and tests/tflm_checkout/test_personalization.py run it",
        parses,
    ),
    Left("jupyter ", "opens a browser: tests/examples/test_notebook.py runs the notebook", names_a_file),
    Left("(flower-superlink|flower-supernode|flwr) ", "runs until it is stopped", has_flowers_options),
    Left("tflm-zo (replay|evaluate) fleet/", "needs what `flwr run` has made", is_a_command),
    Left("build/fuzz/", "needs clang, and an input that was found", is_a_fuzzer),
    Left("cmake ", "needs a cross-compiler's toolchain file, and TFLM", sets_options_that_there_are),
    Left("(cd|idf.py|west|arduino-cli) ", "needs the tools of that platform", is_in_a_generated_readme),
)


def left(line: str) -> Left | None:
    return next((one for one in NOT_EXECUTED if re.match(one.begins, line)), None)


LEFT = [
    pytest.param(line, id=f"{relative(page)}: {line}")
    for page in SHELL
    if page != GUIDE
    for block in blocks(page, "sh")
    for line in block.commands
    if left(line)
]


@pytest.mark.parametrize("line", LEFT)
def test_lines_that_are_not_executed(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = left(line)
    assert one is not None
    one.check(line, monkeypatch)


def test_every_reason_is_needed() -> None:
    lines = [str(one.values[0]) for one in LEFT]
    assert [one.begins for one in NOT_EXECUTED if not any(re.match(one.begins, line) for line in lines)] == []


# --- lines that are executed --------------------------------------------------------------------------------


def but_slow(slow: Sequence[str], of: list[Path]) -> list[Any]:
    return slow_but([page for page in of if relative(page) not in slow], of)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    (folder / "model.tflite").write_bytes(MODELS["lenet5"]())
    inject(folder / "model.tflite", inject_settings(algorithms.node())).save(folder / "lenet5.zo.tflite")
    (folder / "residual.tflite").write_bytes(MODELS["residual"]())
    with_variables().save(folder / "wake_word.tflite")
    (folder / "detector.tflite").write_bytes(grid())
    rng = np.random.default_rng(0)
    for name in ("calibration", "adapt", "test", "old"):
        x = rng.random((64, 28, 28, 1)).astype(np.float32)
        np.savez(folder / f"{name}.npz", x=x, y=rng.integers(0, 10, 64))
    frames = rng.integers(-128, 128, (24, 5, FEATURES)).astype(np.int8)
    np.savez(folder / "clips.npz", x=frames, y=np.arange(24) % 2)
    np.savez(folder / "residual.npz", x=rng.random((64, 8, 8, 3), np.float32), y=rng.integers(0, 6, 64))
    return folder


@pytest.fixture
def folder(start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(start, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PYTHON, ids=relative)
def test_python(page: Path, folder: Path) -> None:
    with np.load("adapt.npz") as adapt, np.load("test.npz") as test:
        names: dict[str, Any] = {"x": adapt["x"], "y": adapt["y"], "x_test": test["x"], "y_test": test["y"]}
    for block in blocks(page, "python"):
        exec(compile(block.text, relative(page), "exec"), names)
    for kept, differ in DIFFERENT.get(relative(page), ()):
        assert names[kept] != names[differ]


@pytest.mark.parametrize(
    "page",
    but_slow(
        (
            "examples/machine_sounds/README.md",
            "examples/dirty_camera/README.md",
            "examples/new_voice/README.md",
            "docs/training.md",
        ),
        [page for page in SHELL if page not in (GUIDE, *WALKS)],
    ),
    ids=relative,
)
def test_commands(page: Path, folder: Path) -> None:
    lines = [line for block in blocks(page, "sh") for line in block.commands if not left(line)]
    remove_what_is_made(lines)
    if any("model.keras" in line for line in lines):
        keras_model(folder / "model.keras")
    run_lines(lines)
    for one, other in EQUAL.get(relative(page), ()):
        assert (folder / one).read_bytes() == (folder / other).read_bytes()


@pytest.mark.parametrize(
    "page",
    but_slow(
        (
            "docs/tutorial.md",
            "docs/how-to/anomalies.md",
            "docs/how-to/fleet.md",
            "docs/how-to/many-machines.md",
            "docs/how-to/from-pytorch-onnx-or-float-tflite.md",
        ),
        WALKS,
    ),
    ids=relative,
)
def test_walk(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = blocks(page, "python", "sh", "c")
    if any("keras" in block.text for block in found):
        pytest.importorskip("keras", reason="NO TensorFlow: THIS PAGE WAS NOT EXECUTED")
    if any("tflm_zo.fleet.flower" in block.text for block in found):
        pytest.importorskip("flwr", reason="NO Flower, which needs Python 3.11: THIS PAGE WAS NOT EXECUTED")
    lines = {
        id(block): [line for line in block.commands if not left(line)] for block in found if block.language == "sh"
    }
    remove_what_is_made([line for every in lines.values() for line in every])
    names: dict[str, Any] = {}
    for block in found:
        if block.language == "python":
            exec(compile(block.text, relative(page), "exec"), names)
        elif block.language == "sh":
            run_lines(lines[id(block)])
        else:
            compile_c(block.text)
    if check := CHECKS.get(relative(page)):
        check(names)
    said = capsys.readouterr().out.splitlines()
    for line in SAID.get(relative(page), ()):
        assert line in said
    for one, other in EQUAL.get(relative(page), ()):
        assert (folder / one).read_bytes() == (folder / other).read_bytes()


#: Assertions about the results of a page's examples: files that are equal, variables that differ, lines that
#: are printed.
EQUAL = {
    "docs/training.md": [("weights.tflite", "again.tflite")],
    "docs/tutorial.md": [("adapted.tflite", "again.tflite"), ("adapted.tflite", "from_python.tflite")],
}
DIFFERENT = {"docs/by-hand.md": [("plus", "minus")]}
SAID = {
    "docs/how-to/fleet-of-devices.md": ["the firmware's run: True"],
    "docs/how-to/power-loss.md": ["the same log: True", "the same model: True"],
    "docs/how-to/compare-desktop-and-device.md": [
        "of the same model: True",
        "run_seed: 0 here, 1 there",
        "first step that differs: 0",
    ],
}


def adapts_a_model(names: dict[str, Any]) -> None:
    # The tutorial's accuracies, with a margin for differences between machines.
    assert names["before"].accuracy < 0.4 and names["after"].accuracy > 0.8


def makes_the_same_levels_in_c(names: dict[str, Any]) -> None:
    level_of = ctypes.CDLL("./snippet.so").level_of
    level_of.argtypes, level_of.restype = [ctypes.c_float, ctypes.c_float, ctypes.c_int32], ctypes.c_int8
    # Not halves of a level, which floating point may round to either side.
    values = (np.arange(-150, 150) + 0.3) * names["scale"]
    levels = [level_of(value, names["scale"], names["zero_point"]) for value in values]
    assert levels == list(to_levels(values, names["scale"], names["zero_point"], np.int8))
    assert {-128, 127} < set(levels)


def finds_faults(names: dict[str, Any]) -> None:
    # The page's last row, with a margin for differences between machines.
    known = names["found"].detection
    assert known.auc > 0.97 and known.detected > 130 and known.false_alarms < 10


#: Of the variables that the blocks of a page leave.
CHECKS = {
    "docs/tutorial.md": adapts_a_model,
    "docs/how-to/sensors-and-streams.md": makes_the_same_levels_in_c,
    "docs/how-to/anomalies.md": finds_faults,
}


def remove_what_is_made(lines: list[str]) -> None:
    for made in re.findall(r"-o (\S+)", "\n".join(lines)):
        Path(made).unlink(missing_ok=True)


def run_lines(lines: list[str]) -> None:
    # The arena's bound: measuring takes a second for each folder.
    with mock.patch.object(arena, "recorded", return_value=None):
        for line in lines:
            if line.startswith("python "):
                run_script(line)
            else:
                run_command(line)


def compile_c(text: str) -> None:
    Path("snippet.c").write_text(text)
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Wstrict-prototypes", "-Werror"]
    command = ["gcc", "-std=c99", *warnings, "-shared", "-fPIC", "-o", "snippet.so", "snippet.c", "-lm"]
    subprocess.run(command, check=True)


def run_script(line: str) -> None:
    words = [sys.executable, REPOSITORY / line.split()[1], *line.split()[2:]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{line}\n{done.stderr}"


def keras_model(path: Path) -> None:
    keras = pytest.importorskip("keras", reason="NO TensorFlow: THE COMMANDS OF THIS PAGE WERE NOT EXECUTED")
    from tflm_zo.keras_models import lenet5

    keras.utils.set_random_seed(0)
    lenet5().save(path)


def test_pages_are_found() -> None:
    assert {README, GUIDE} <= set(SHELL) and README in PYTHON and len(SHELL) > 10
