# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Text with names from a file, which may hold line breaks, escapes and bytes that are not UTF-8."""

__all__ = ["one_line", "printable"]


def one_line(message: str) -> str:
    """Returns a message as one line, with U+FFFD for characters that cannot be printed."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(message.split()))


def printable(name: str) -> str:
    """Returns a name with U+FFFD for bytes that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
