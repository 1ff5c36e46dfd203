"""Errors of settings and data, and the form of messages that quote a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

Shown = Callable[[str, object, bool], str]
"""A function that writes a setting: its name, a value that it should have or `...`, and True if it is `inject`'s."""


class OneLineError(ValueError):
    """A value cannot be used. The message is always one line."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class DataError(OneLineError):
    """Samples or labels cannot be used. The message, one line, names the array and the reason."""


class SettingsError(OneLineError):
    """A setting cannot be used.

    The message is "`setting` must `problem`. Received: `got`. `fix`."

    Attributes:
        setting: name of the setting; a name that two tasks share has the task's name before it.
        problem: constraint on the setting, the words after "must".
        got: value of the setting; `...` if the message has none.
        fix: advice, an imperative without a period; it precedes `give` and `inject`.
        give: settings of the same call, by name, with values that solve the problem, or `...`.
        inject: settings of `inject`, likewise.
    """

    def __init__(
        self,
        setting: str,
        problem: str,
        got: object = ...,
        fix: str = "",
        *,
        give: Mapping[str, object] | None = None,
        inject: Mapping[str, object] | None = None,
    ) -> None:
        self.setting, self.problem, self.got, self.fix = setting, problem, got, fix
        self.give, self.inject = dict(give or {}), dict(inject or {})
        super().__init__(self.told(_in_python))

    def told(self, shown: Shown, written: Callable[[object], str] = repr) -> str:
        """Returns the message. Two functions format names and values of settings."""
        received = "" if self.got is ... else f" Received: {written(self.got)}."
        changes = [shown(name, value, False) for name, value in self.give.items()]
        changes += [shown(name, value, True) for name, value in self.inject.items()]
        advice = " ".join(filter(None, (self.fix, " or ".join(changes))))
        return f"{shown(self.setting, ..., False)} must {self.problem}.{received}" + (f" {advice}." if advice else "")

    def __reduce__(self) -> tuple[Any, ...]:
        again = partial(type(self), self.setting, self.problem, self.got, self.fix, give=self.give, inject=self.inject)
        return again, ()


def check_integer(name: str, value: Any, low: int, high: int, error: type[SettingsError] = SettingsError) -> int:
    """Returns a setting, an integer of Python or NumPy in low..high, as an `int`; raises `error` for another."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not low <= value <= high:
        raise error(name, f"be an integer in {low}..{high}", value)
    return int(value)


class ExistsError(FileExistsError):
    """A file or folder exists and may not be replaced.

    Attributes:
        path: path of the file.
        reason: reason why it is not replaced.
        switches: arguments of the refused call that allow the replacement.
    """

    def __init__(
        self, path: str | os.PathLike[str], reason: str = "exists", switches: tuple[str, ...] = ("force",)
    ) -> None:
        self.path, self.reason, self.switches = os.fspath(path), reason, switches
        super().__init__(self.told(_in_python))

    def told(self, shown: Shown) -> str:
        """Returns the message. A function formats names of arguments."""
        switches = " or ".join(shown(name, True, False) for name in self.switches)
        return f"{self.path} {self.reason}. Choose another name, or use {switches}."


def _in_python(name: str, value: object, _: bool) -> str:
    return f"`{name}`" if value is ... else f"`{name}={value!r}`"


def one_line(message: str) -> str:
    """Returns a message as one line, with U+FFFD for characters that cannot be printed."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(message.split()))


def printable(name: str) -> str:
    """Returns a name with U+FFFD for bytes that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
