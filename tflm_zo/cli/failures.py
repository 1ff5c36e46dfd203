# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Exceptions become one line on stderr and an exit code.

0: done. 1: bad input or failed work. 2: wrong usage (typer's own). 130: interrupted (Ctrl-C).
"""

from __future__ import annotations

import contextvars
import functools
import re
import traceback
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

from ..converters.passes.layer_names import shown_name

__all__ = ["note", "one_line_errors", "show_tracebacks", "warn"]

_Command = TypeVar("_Command", bound=Callable[..., Any])

# What says in its message what is wrong with the input or the surroundings. RuntimeError: NativeError and
# InvokeError; ImportError: a runtime or TensorFlow is not installed.
_EXPECTED = (ValueError, OSError, RuntimeError, ImportError)


_debug = contextvars.ContextVar("debug", default=False)


def show_tracebacks(wanted: bool) -> None:
    """Whether an error's traceback is printed before its line (--debug)."""
    _debug.set(wanted)


def one_line_errors(command: _Command) -> _Command:
    """Wraps a command: its exceptions end the program as the module's docstring says.

    Warnings of this package that the command causes are shown on stderr, once each.
    """

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                warnings.showwarning = _show_warning
                return command(*arguments, **options)
        except (typer.Exit, typer.Abort, BrokenPipeError, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            _stderr().print("interrupted", style="yellow")
            raise typer.Exit(130) from None
        except MemoryError as error:
            _fail("out of memory", error)
        except _EXPECTED as error:
            _fail(_describe(error), error)
        except Exception as error:
            _fail(f"internal error: {type(error).__name__}: {_describe(error)}; --debug shows where", error)

    return run  # type: ignore[return-value]


def note(message: str) -> None:
    """One line on stderr that says what was decided."""
    _print("", "", message)


def warn(message: str) -> None:
    """One line of warning on stderr."""
    _print("warning: ", "yellow", message)


def _stderr() -> Console:
    # Made at each use: tests and callers may have replaced sys.stderr.
    return Console(stderr=True, soft_wrap=True, highlight=False)


def _print(prefix: str, style: str, message: str) -> None:
    text = re.sub("«([^»]+)»", lambda name: f"«{shown_name(name[1])}»", " ".join(message.split()))
    _stderr().print((f"[bold {style}]{prefix}[/]" if prefix else "") + escape(text))


def _fail(message: str, error: BaseException) -> None:
    if _debug.get():
        typer.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    _print("error: ", "red", message)
    raise typer.Exit(1)


def _describe(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, UserWarning):
        warn(str(message))
