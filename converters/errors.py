# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the converters, and how they quote what a file says."""


class _OneLineError(ValueError):
    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class ConversionError(_OneLineError):
    """A model or a setting cannot be used; the message is one line that says why and what to do.

    Nothing was written and no argument was changed where this is raised.
    """


class DataError(_OneLineError):
    """Samples or labels cannot be used; the message is one line that names the array and says why."""


class ConversionWarning(UserWarning):
    """A model differs from its file; the message says in what and why."""


def one_line(message: str) -> str:
    """A message that quotes a file: names in it may hold line breaks, escapes and bytes that are no text."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(message.split()))
