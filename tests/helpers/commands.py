"""Commands in this process, and the files of the runs that they make."""

import json
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from tflm_zo.cli.app import app

#: Built once: that takes longer than most commands.
COMMAND = typer.main.get_command(app)


def invoke(*arguments: Any) -> Any:
    """Runs ``tflm-zo ARGUMENTS``, with any end."""
    # Typer's own `invoke` builds the command each time; that of its base class takes one.
    return super(CliRunner, CliRunner()).invoke(COMMAND, [str(argument) for argument in arguments])


def run(*arguments: Any, code: int = 0) -> Any:
    """Runs ``tflm-zo ARGUMENTS``, which ends with an exit code."""
    done = invoke(*arguments)
    assert done.exit_code == code, done.output
    return done


def result_of(*arguments: Any, code: int = 0) -> Any:
    """Runs ``tflm-zo ARGUMENTS --json`` and parses its output."""
    return json.loads(run(*arguments, "--json", code=code).stdout)


def parsed(done: Any) -> Any:
    """Parses the output of a successful command as JSON."""
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def files_of(name: str, folder: Path = Path()) -> list[bytes]:
    """Returns trained model, log and ZO model of a run; the model alone if no way to train was better."""
    paths = [folder / f"{name}{end}" for end in (".tflite", ".zolog", ".zo.tflite")]
    return [path.read_bytes() for path in paths if path.exists()]


def initial_export(model: str) -> bytes:
    """Exports the plain model, of batch 1, of a ZO model's initial state in the working directory."""
    run("export", model, "-o", "initial.tflite", "--batch", 1, "--force")
    return Path("initial.tflite").read_bytes()


def refused(folder: Path, *arguments: Any, said: str, last: bool = False) -> str:
    """Runs a command that fails and leaves the folder unchanged. Returns its last line; `last`: behind a bar."""
    done = _without_a_trace(folder, arguments)
    assert done.exit_code == 1, done.output
    lines = done.stderr.splitlines()
    assert lines[-1].startswith("error: ") and said in lines[-1], done.stderr
    assert last or len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr
    return str(lines[-1])


def wrong_usage(folder: Path, *arguments: Any, said: str) -> None:
    """Runs a wrong command line: exit code 2, and the folder is unchanged."""
    done = _without_a_trace(folder, arguments)
    assert done.exit_code == 2, done.output
    text = " ".join(done.stderr.replace("│", " ").split())
    assert text.startswith("Usage: ") and said in text, done.stderr


def _without_a_trace(folder: Path, arguments: tuple[Any, ...]) -> Any:
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    done = invoke(*arguments)
    assert done.stdout == ""
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    return done
