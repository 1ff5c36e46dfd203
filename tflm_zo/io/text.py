# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Text that quotes a file: names in it may hold line breaks, escapes and bytes that are no UTF-8."""

__all__ = ["one_line", "printable"]


def one_line(message: str) -> str:
    """Returns a message in one line, in which U+FFFD stands for every character that cannot be printed."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(message.split()))


def printable(name: str) -> str:
    """Returns a name in which bytes that are no UTF-8 in the file are replaced by U+FFFD."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
