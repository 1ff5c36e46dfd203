# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Errors of data that people give, and the form of messages that quote a file."""

from .text import one_line

__all__ = ["DataError", "OneLineError"]


class OneLineError(ValueError):
    """A value cannot be used; the message is one line, whatever it quotes."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class DataError(OneLineError):
    """Samples or labels cannot be used; the message is one line that names the array and says why."""
