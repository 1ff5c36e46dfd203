"""The exceptions of the converters."""

from ..io.errors import OneLineError, SettingsError


class ConversionError(OneLineError):
    """A model or a setting cannot be used; the message is one line that says why and what to do.

    Nothing was written and no argument was changed where this is raised.
    """


class InjectError(SettingsError, ConversionError):
    """A setting of `inject` or `export_model` cannot be used."""


class ConversionWarning(UserWarning):
    """A model differs from its file; the message says in what and why."""
