# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Elements of SVG, and the pictures that a page shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

__all__ = ["HEIGHT", "WIDTH", "Cell", "Picture", "drawing", "element", "number", "shortened", "text"]

#: Of a picture, in its own units: pixels where the page has room for two side by side.
WIDTH: Final = 480
HEIGHT: Final = 300

Cell = str | int


@dataclass(frozen=True)
class Picture:
    """A picture with what is said of it, and its numbers as a table.

    Attributes:
        name: name of the picture, unique in its page, a word.
        title: title, one line.
        description: what it shows, in a sentence or two, for those who do not see it.
        svg: the picture.
        columns: headings of the table.
        rows: rows of the table, whose first cells name them.
    """

    name: str
    title: str
    description: str
    svg: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def element(tag: str, *children: Element, **attributes: str | float) -> Element:
    """Returns an element of SVG.

    Args:
        tag: name of the element.
        children: its children.
        attributes: its attributes; an underscore stands for a dash, and one at the end for nothing.
    """
    named = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    made = Element(tag, {k: v if isinstance(v, str) else number(v) for k, v in named.items()})
    made.extend(children)
    return made


def text(words: str, x: float, y: float, **attributes: str | float) -> Element:
    """Returns words whose baseline begins at (x, y), or ends or has its middle there (`text_anchor`)."""
    made = element("text", x=x, y=y, **attributes)
    made.text = words
    return made


def number(value: float) -> str:
    """Returns a coordinate, to a tenth."""
    shown = f"{value:.1f}"
    return shown[:-2] if shown.endswith(".0") else shown


def shortened(words: str, most: int) -> str:
    """Returns words of at most so many characters: the beginning and the end of longer ones, which differ."""
    if len(words) <= most:
        return words
    end = (most - 1) // 2
    return f"{words[: most - 1 - end]}…{words[len(words) - end :]}"


def drawing(name: str, title: str, description: str, height: float, parts: Sequence[Element]) -> str:
    """Returns a picture as SVG that names itself.

    Args:
        name: name of the picture, unique in its page.
        title: title of the picture.
        description: what it shows.
        height: height of the picture, whose width is `WIDTH`.
        parts: what is drawn.
    """
    titled = element("title", id=f"{name}-title")
    titled.text = title
    described = element("desc", id=f"{name}-desc")
    described.text = description
    root = element(
        "svg",
        titled,
        described,
        *parts,
        viewBox=f"0 0 {WIDTH} {number(height)}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )
    return ElementTree.tostring(root, encoding="unicode")
