# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What a page of HTML is made of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

__all__ = ["Node", "colours", "contrast", "data_of", "parsed_page"]

_VOID = {"meta", "link", "br", "hr", "img", "input"}


@dataclass
class Node:
    """An element, with its attributes, its text and its children."""

    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)
    own_text: list[str] = field(default_factory=list)

    def all(self, tag: str) -> list[Node]:
        """Elements of that tag in it, in order."""
        return [node for node in self._walk() if node.tag == tag]

    def _walk(self) -> Iterator[Node]:
        for child in self.children:
            yield child
            yield from child._walk()

    @property
    def every(self) -> list[Node]:
        """Every element in it."""
        return list(self._walk())

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(self.own_text) + "".join(child.text for child in self.children)

    def get(self, name: str) -> str:
        """An attribute; "" where there is none."""
        return self.attributes.get(name) or ""


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Node("")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, dict(attrs))
        self._open[-1].children.append(node)
        if tag not in _VOID:
            self._open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Node(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].own_text.append(data)


def parsed_page(text: str) -> Node:
    """A page, every element of which is closed where it should be."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    assert parser._open == [parser.root], "an element is not closed"
    return parser.root


def data_of(page: Node) -> Any:
    """The JSON in a page."""
    (script,) = (node for node in page.all("script"))
    assert script.attributes == {"type": "application/json", "id": "report"}
    return json.loads(script.text)


def colours(css: str) -> dict[str, dict[str, str]]:
    """Colours by the names of their variables, in light and in dark."""
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in _blocks(css))
    return {"light": light, "dark": {**light, **dark}}


def _blocks(css: str) -> tuple[str, str]:
    first, second = (m.group(1) for m in re.finditer(r":root \{([^}]*)\}", css.partition("@media print")[0]))
    return first, second


def contrast(one: str, other: str) -> float:
    """Contrast of two colours, 1 to 21, as WCAG 2.2 defines it."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
