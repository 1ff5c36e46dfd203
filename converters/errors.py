"""The exceptions of the converters."""

from functools import partial

from ..io.errors import OneLineError, SettingsError, check_integer


class ConversionError(OneLineError):
    """A model or a setting cannot be used. The message, one line, has the reason and advice.

    Nothing was written and no argument was changed where this is raised.
    """


class InjectError(SettingsError, ConversionError):
    """A setting of `inject` or `export_model` cannot be used."""


checked_integer = partial(check_integer, error=InjectError)


class ConversionWarning(UserWarning):
    """A model was changed when it was read. The message has the change and the reason."""
