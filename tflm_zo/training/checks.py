"""Checks of single settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..io.errors import SettingsError, check_integer

__all__ = ["SettingsError", "check_choice", "check_integer", "check_number", "needs_injection"]


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raises SettingsError unless a setting is one of its choices."""
    if value not in choices:
        raise SettingsError(name, f"be one of {', '.join(choices)}", value)


def check_number(name: str, value: object, lower: float, upper: float) -> float:
    """Returns a setting, a number in lower..upper, as a `float`; raises SettingsError for another."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not lower <= float(value) <= upper:  # type: ignore[arg-type]
        raise SettingsError(name, f"be in {lower:g}..{upper:g}", value)
    return float(value)  # type: ignore[arg-type]


def needs_injection(setting: str, problem: str, got: object = ..., **inject: Any) -> SettingsError:
    """Returns the error for a model that an injection with other settings mends."""
    return SettingsError(setting, problem, got, "Inject the original model with", inject=inject)
