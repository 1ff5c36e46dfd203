"""Calls of the public functions and commands, and the definition of their faults."""

import contextlib
import io
import linecache
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

import tflm_zo
from helpers.commands import COMMAND
from tflm_zo.converters import ConversionError
from tflm_zo.core import NativeError
from tflm_zo.data import DataError, ModelError
from tflm_zo.logs import LogError
from tflm_zo.runtime import InvokeError, RuntimeUnavailableError
from tflm_zo.training import SettingsError

from .cases import Case

DOCUMENTED = (
    *(ConversionError, DataError, LogError, SettingsError, ModelError, InvokeError, NativeError),
    *(RuntimeUnavailableError, MemoryError, typer.BadParameter),
)
PACKAGE = str(Path(tflm_zo.__file__).parent)
CONVERTERS = str(Path(sys.modules["tflm_zo.converters"].__file__ or "").parent)


class FaultError(Exception):
    """The package broke its word."""


def attempt(case: Case, name: str, function: Callable[[], Any]) -> Any:
    case.used.append(name)
    try:
        return function()
    except Exception as error:
        check(error)
        return None


def check(error: BaseException) -> None:
    text = described(error)
    if not (isinstance(error, DOCUMENTED) or (isinstance(error, ValueError | RuntimeError) and meant(error))):
        raise FaultError(text)
    if isinstance(error, ConversionError | DataError | LogError) and ("\n" in str(error) or not str(error)):
        raise FaultError(f"a message that is not one line\n{text}")


def described(error: BaseException) -> str:
    return "\n".join((type(error).__name__, *traceback.format_exception(error)))


def meant(error: BaseException) -> bool:
    """Returns True for a `raise` in our own code, False for NumPy or an unexpected conversion."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    ours = frame.filename.startswith((PACKAGE, CONVERTERS))
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return ours and line.startswith("raise")


def cli(case: Case, *arguments: str, files: tuple[str, ...] = ()) -> bool:
    """Runs a command in this process; True if it succeeded. It writes the given files, or none of them."""
    case.used.append(" ".join(("tflm-zo", *arguments)))
    before, out, err = set(os.listdir()), io.StringIO(), io.StringIO()
    code, cause = 0, None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            COMMAND.main([*arguments], prog_name="tflm-zo")
        except SystemExit as error:
            code, cause = int(error.code or 0), error
        except Exception as error:
            raise FaultError(described(error)) from error
    if code == 2:
        raise FaultError(f"wrong usage, in the fuzzer: {arguments}\n{err.getvalue()}")
    if code:
        origin: BaseException | None = cause
        while isinstance(origin, SystemExit | typer.Exit):
            origin = origin.__context__
        if origin is None:
            raise FaultError(f"exit code {code} without an error: {arguments}\n{err.getvalue()}")
        check(origin)
        last = err.getvalue().strip().splitlines()[-1:]
        if not last or not last[0].startswith("error: ") or "internal error" in last[0]:
            raise FaultError(f"no line about the error: {arguments}\n{err.getvalue()}")
    # A run that has begun leaves its log, and the ZO model that it belongs to, however it ends.
    kept = {name for name in files if name.endswith((".zolog", ".zo.tflite"))}
    for name in set(os.listdir()) - before:
        if name not in (kept if code else files):
            raise FaultError(f"{name} was left behind: {arguments}\n{err.getvalue()}")
    for name in files:
        if not code and not os.path.exists(name):
            raise FaultError(f"{name} was not written: {arguments}\n{err.getvalue()}")
    return code == 0


def words(case: Case, function: Callable[[], Any]) -> Any:
    case.used.append("prepare")
    try:
        return function()
    except DataError as error:
        check(error)
        return str(error)
