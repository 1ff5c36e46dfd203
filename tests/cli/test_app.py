"""Common behaviour of all commands."""

import errno
import importlib
import os
import pkgutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import tflm_zo
from tflm_zo.cli import app, commands
from tflm_zo.converters.model import Buffer, Tensor

COMMANDS = [m.name for m in pkgutil.iter_modules(commands.__path__)]


def _module(name: str) -> Any:
    return importlib.import_module(f"tflm_zo.cli.commands.{name}")


# Two screens.
MOST_LINES = 110


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_on_two_screens(cli: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = cli(name.replace("_", "-"), "--help").stdout.splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 80


def _options(name: str) -> list[Any]:
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    return [p for p in command.params if p.param_type_name == "option"]


def test_train_has_few_options_and_each_has_its_place() -> None:
    """All other settings are --set's."""
    options = _options("train")
    assert len(options) <= 25
    panels = {o.name: o.rich_help_panel for o in options}
    assert set(panels.values()) == {"Run", "Algorithm", "Data", "Device", "Files", "Output"}


CHOICES = [
    (command, f"--{o.name}")
    for command in ("train", "inject", "firmware", "evaluate")
    for o in _options(command)
    if o.name in ("algorithm", "runtime", "keep", "platform") or (command, o.name) == ("inject", "loss")
]


@pytest.mark.parametrize(("command", "option"), CHOICES)
def test_choices_are_completed(command: str, option: str) -> None:
    (found,) = (o for o in _options(command) if o.opts[0] == option)
    names = [item.value for item in found.shell_complete(None, "")]
    assert len(names) > 1
    assert [i.value for i in found.shell_complete(None, names[1])] == [n for n in names if n.startswith(names[1])]


def test_version(cli: Any) -> None:
    result = cli("--version")
    assert (result.exit_code, result.stdout) == (0, f"tflm-zo {tflm_zo.__version__}\n")


def test_entry_point_is_installed() -> None:
    from importlib.metadata import entry_points

    (point,) = entry_points(group="console_scripts", name="tflm-zo")
    assert point.value == "tflm_zo.cli:main"


def test_help_lists_the_commands(cli: Any) -> None:
    result = cli("--help")
    assert result.exit_code == 0
    for name in COMMANDS:
        assert name.replace("_", "-") in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example(cli: Any, name: str) -> None:
    result = cli(name.replace("_", "-"), "--help")
    assert result.exit_code == 0
    example = _module(name).EXAMPLE
    assert example.startswith(f"tflm-zo {name.replace('_', '-')} ")
    assert f"Example: {example}" in " ".join(result.stdout.split())


@pytest.mark.parametrize("arguments", [["nonsense"], ["inject"], ["inspect", "a", "--nonsense"]])
def test_wrong_usage_is_exit_code_2(cli: Any, arguments: list[str]) -> None:
    result = cli(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_debug_shows_the_traceback(cli: Any) -> None:
    result = cli("--debug", "inspect", "absent.tflite")
    assert result.exit_code == 1
    assert result.stderr.startswith("Traceback")
    assert result.stderr.endswith("error: absent.tflite: No such file or directory\n")
    assert cli("inspect", "absent.tflite").stderr == "error: absent.tflite: No such file or directory\n"


INTERNAL = "error: internal error: "


@pytest.mark.parametrize(
    ("exception", "said"),
    [
        (AssertionError("what"), "error: internal error: AssertionError: what; --debug shows where\n"),
        (KeyError("name"), "error: internal error: KeyError: name; --debug shows where\n"),
        (KeyError(Tensor("x", (1,), 9, Buffer(bytes(99)))), f"{INTERNAL}KeyError; --debug shows where\n"),
        (TypeError("many\nlines"), f"{INTERNAL}TypeError; --debug shows where\n"),
        (TypeError("long " * 99), f"{INTERNAL}TypeError; --debug shows where\n"),
        (ZeroDivisionError(), f"{INTERNAL}ZeroDivisionError; --debug shows where\n"),
        (MemoryError(), "error: out of memory\n"),
        (ValueError("two\nlines [bold]"), "error: two lines [bold]\n"),
        (ImportError("absent"), "error: absent\n"),
        (KeyboardInterrupt(), "interrupted\n"),
    ],
)
def test_exceptions(
    cli: Any, model_file: Any, monkeypatch: pytest.MonkeyPatch, exception: BaseException, said: str
) -> None:
    def fail(*_: Any) -> None:
        raise exception

    monkeypatch.setattr(_module("inspect"), "load_model", fail)
    result = cli("inspect", model_file())
    code = 130 if isinstance(exception, KeyboardInterrupt) else 1
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", said)


# --- output files -------------------------------------------------------------------------------------------


@pytest.fixture(params=["inject", "export", "inspect", "evaluate"])
def writing(request: Any, cli: Any, model_file: Any, data_file: Any, samples: Any, tmp_path: Path) -> Any:
    """Runs each command that writes a file, to the path given."""
    model = model_file()
    arguments: list[Any] = [model]
    if request.param == "export":
        assert cli("inject", model, "-o", tmp_path / "made.zo.tflite").exit_code == 0
        arguments = [tmp_path / "made.zo.tflite"]
    if request.param == "evaluate":
        arguments.append(data_file(x=samples[0], y=samples[1]))
    return lambda output, *more: cli(request.param, *arguments, "-o", output, *more)


def test_output_is_not_overwritten_unasked(writing: Any, tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.write_bytes(b"precious")
    result = writing(output)
    assert result.exit_code == 1
    assert result.stderr == f"error: {output} exists. Choose another name, or use `--force`.\n"
    assert output.read_bytes() == b"precious"
    assert writing(output, "--force").exit_code == 0
    assert output.read_bytes() != b"precious"


@pytest.mark.parametrize("exists", [False, True])
def test_full_disk(writing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool) -> None:
    output = tmp_path / "out"
    if exists:
        output.write_bytes(b"precious")
    before = sorted(tmp_path.iterdir())

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    result = writing(output, "--force")
    assert result.exit_code == 1
    assert result.stderr.endswith(f"error: {output}: No space left on device\n")
    assert sorted(tmp_path.iterdir()) == before
    assert not exists or output.read_bytes() == b"precious"


def test_unwritable_outputs(writing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = writing(tmp_path / "absent" / "out")
    assert absent.exit_code == 1
    assert "does not exist" in absent.stderr
    folder = writing(tmp_path, "--force")
    assert folder.exit_code == 1
    assert "is a folder" in folder.stderr
    # Tests may run as root, whom permissions do not stop.
    monkeypatch.setattr(os, "access", lambda _, mode, **__: mode != os.W_OK)
    forbidden = writing(tmp_path / "out")
    assert forbidden.exit_code == 1
    assert "cannot be written to" in forbidden.stderr
    assert not (tmp_path / "out").exists()


def test_damaged_models_are_refused(cli: Any, tmp_path: Path, model_file: Any, data_file: Any) -> None:
    text = tmp_path / "text.tflite"
    text.write_text("this is no model at all")
    cut = tmp_path / "cut.tflite"
    cut.write_bytes(model_file().read_bytes()[:2000])
    data = data_file(x=np.zeros((1, 1), np.float32), y=np.zeros(1, int))
    for path in (text, cut):
        for command in (["inspect", path], ["inject", path, "-o", "o"], ["evaluate", path, data]):
            result = cli(*command)
            assert result.exit_code == 1
            assert result.stdout == ""
            assert result.stderr.startswith("error: ")
            assert result.stderr.count("\n") == 1
    assert not (tmp_path / "o").exists()
