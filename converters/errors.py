"""The exceptions of the converters."""

from typing import Any

import numpy as np

from ..io.errors import OneLineError, SettingsError


class ConversionError(OneLineError):
    """A model or a setting cannot be used. The message, one line, has the reason and advice.

    Nothing was written and no argument was changed where this is raised.
    """


class InjectError(SettingsError, ConversionError):
    """A setting of `inject` or `export_model` cannot be used."""


def checked_integer(value: Any, what: str, low: int, high: int) -> int:
    """Returns an integer of Python or NumPy as one of Python, or raises ConversionError outside the range."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise InjectError(what, f"be an integer in {low}..{high}", value)
    return int(value)


class ConversionWarning(UserWarning):
    """A model was changed when it was read. The message has the change and the reason."""
