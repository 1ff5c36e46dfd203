"""Exceptions become one line on stderr and an exit code.

0: done. 1: bad input or failed work. 2: wrong usage (typer's own). 130: interrupted (Ctrl-C). 129 and 143:
ended by SIGHUP (the terminal is gone) or SIGTERM, which act like Ctrl-C.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import re
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, Final, TypeVar

import typer
from rich.console import Console
from rich.status import Status
from rich.text import Text

from ..converters import Last, ResidualBlocks
from ..converters.passes.layer_names import shown_name
from ..core import Distribution
from ..io.errors import ExistsError, SettingsError, printable
from ..training.setting_texts import written
from .option_names import in_option_syntax, options_of

_Command = TypeVar("_Command", bound=Callable[..., Any])

# Exceptions whose messages explain an error of the input or the environment. RuntimeError: NativeError and
# InvokeError; ImportError: a runtime or TensorFlow is not installed.
_EXPECTED = (ValueError, OSError, RuntimeError, ImportError)

# Values of settings that have texts of their own.
_VALUES: Final = (Distribution, Last, ResidualBlocks)

# Characters of a message that somebody has written; a dump is longer.
_BRIEF: Final = 200

# Signals that end a command as Ctrl-C does; Windows has no SIGHUP.
_ENDING: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

# Options of each command, by the names of their settings.
_options: dict[str, dict[str, str]] = {}

# The signal that interrupted the command.
_interruption = contextvars.ContextVar("interruption", default=signal.SIGINT)
_debug = contextvars.ContextVar("debug", default=False)


def show_tracebacks(wanted: bool) -> None:
    """Sets whether an error's traceback is printed before its line (--debug)."""
    _debug.set(wanted)


def one_line_errors(command: _Command) -> _Command:
    """Wraps a command: exceptions end the program as the module's docstring says; warnings are shown once each."""
    own = _options[command.__name__] = options_of(command)

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        try:
            with _ending_signals(), warnings.catch_warnings():
                warnings.simplefilter("default")
                warnings.showwarning = _once()
                return command(*arguments, **options)
        except (typer.Exit, typer.Abort, BrokenPipeError, typer.BadParameter):
            raise
        except KeyboardInterrupt as error:
            _print("interrupted", "yellow", f": {error}" if str(error) else "")
            raise typer.Exit(interruption_code()) from None
        except MemoryError as error:
            _fail("out of memory", error)
        except _EXPECTED as error:
            _fail(_describe(error, own), error)
        except Exception as error:
            _fail(f"internal error: {_brief(error)}; --debug shows where", error)

    return run  # type: ignore[return-value]


@contextlib.contextmanager
def _ending_signals() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP, unless ignored (nohup), act like Ctrl-C, so that no file is left incomplete."""
    _interruption.set(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can take signals
        return

    def interrupt(number: int, _: FrameType | None) -> None:
        _interruption.set(signal.Signals(number))
        raise KeyboardInterrupt

    before = {s: signal.getsignal(s) for s in _ENDING if signal.getsignal(s) is signal.SIG_DFL}
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interruption_code() -> int:
    """Returns the exit code of an interrupted command: 128 plus the number of the signal."""
    return 128 + _interruption.get()


def note(message: str) -> None:
    """Prints a line about a decision on stderr."""
    _print("", "", message)


def warn(message: str) -> None:
    """Prints a line of warning on stderr."""
    _print("warning: ", "yellow", message)


def waiting_for(what: str) -> Status:
    """Returns an animated line on stderr, shown from its `start` to its `stop`."""
    return _stderr().status(what)


def _stderr() -> Console:
    # Made at each use: tests and callers may have replaced sys.stderr.
    return Console(stderr=True, soft_wrap=True, highlight=False)


def _print(prefix: str, style: str, message: str) -> None:
    message = " ".join(printable(message).split())
    text = re.sub(r"`([^`\s]+)`", lambda name: f"`{shown_name(name[1])}`", message)
    _stderr().print(Text.assemble((prefix, f"bold {style}"), text))


def _fail(message: str, error: BaseException) -> None:
    if _debug.get():
        typer.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    _print("error: ", "red", message)
    raise typer.Exit(1)


def _describe(error: BaseException, own: Mapping[str, str]) -> str:
    shown = in_option_syntax(own, _options.get("inject", {}))
    if isinstance(error, SettingsError):
        return error.told(shown, lambda got: written(got) if isinstance(got, _VALUES) else repr(got))
    if isinstance(error, ExistsError):
        return error.told(shown)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _brief(error: Exception) -> str:
    """Returns the type of an unexpected error, and its message unless that may be a complete model."""
    name, (said, *_) = type(error).__name__, (*error.args, None)
    return f"{name}: {said}" if isinstance(said, str) and len(said) <= _BRIEF and "\n" not in said else name


def _once() -> Callable[..., None]:
    """Returns a function that shows each warning of this package once."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, UserWarning) and str(message) not in shown:
            shown.add(str(message))
            warn(str(message))

    return show
