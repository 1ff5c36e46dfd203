"""Joins the sources of a tree into few files, as SQLite does: each source once, in an order that compiles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..converters.errors import ConversionError
from .reachability import EXTERN_C, closure

_COPYRIGHT: Final = "/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0"
# A header's guard.
_GUARD: Final = re.compile(r"#ifndef (\w+_H_)\n#define \1\n(.*)#endif +/[/*] ?\1(?: \*/)?\n", re.DOTALL)
_INCLUDE: Final = re.compile(r'\s*#\s*include\s+(["<])([^">]+)[">]')
_CONDITION: Final = re.compile(r"\s*#\s*(if|ifdef|ifndef|endif)\b")


@dataclass
class Unit:
    """A file that consists of joined sources."""

    path: str  # its path
    about: str  # description for its first comment, in sentences
    # paths of the sources in it, in this order; headers that they include precede them
    roots: Iterable[str] = ()
    # of a header, paths of the sources that C reads as well as C++; they come first
    c_roots: Iterable[str] = ()
    includes: tuple[str, ...] = ()  # paths of other units that it includes
    cpp_includes: tuple[str, ...] = ()  # of a header, paths of other units that its part for C++ includes
    guard: str = ""  # name of the include guard; "" for a source


@dataclass
class _Joined:
    """The content of a unit so far."""

    sources: Mapping[str, str]
    # Headers that are included on a condition somewhere.
    conditional: set[str]
    # Sources that are available to all following lines.
    known: set[str]
    # Includes of other libraries, unchanged.
    outside: dict[str, None] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def add(self, path: str) -> None:
        """Adds a source, and before it the headers that it includes, where they are missing."""
        if path in self.known:
            return
        self.known.add(path)
        text = EXTERN_C.sub("", _without_copyright(self.sources[path]))
        guarded, depth = _GUARD.search(text), 0
        if guarded is not None and path in self.conditional:
            depth = -1  # its guard is no condition
        elif guarded is not None:
            text = text[: guarded.start()] + guarded[2] + text[guarded.end() :]
        own = [f"/* --- {path} {'-' * max(3, 90 - len(path))} */", ""]
        lines = self._lines_of(text, depth)
        if any(line.strip() for line in lines):
            self.lines += [*own, *lines, ""]

    def _lines_of(self, text: str, depth: int) -> list[str]:
        """Returns the lines of a source, with the content of conditional includes."""
        lines = []
        for line in text.strip("\n").split("\n"):
            condition, include = _CONDITION.match(line), _INCLUDE.match(line)
            if condition is not None:
                depth += -1 if condition[1] == "endif" else 1
            if include is None:
                lines.append(line)
            elif include[2].startswith("ops/"):
                lines += self._included(include[2], depth)
            elif depth > 0:
                lines.append(line)
            else:
                self.outside[line] = None
        return lines

    def _included(self, path: str, depth: int) -> list[str]:
        if path in self.known or path not in self.sources:  # a feature that is left out has no sources
            return []
        if depth <= 0:
            self.add(path)
            return []
        # Whether it is read depends on the condition, so it may be there more than once: guards stay.
        return self._lines_of(_without_copyright(self.sources[path]), depth)


def _without_copyright(text: str) -> str:
    """Removes the line of copyright from a source, because a unit has it once."""
    rest = text.removeprefix(f"{_COPYRIGHT} */\n")
    if rest is not text:
        return rest
    return re.sub(r"^/\*\n \*\n", "/*\n", text.replace(_COPYRIGHT, "/*", 1), count=1)


def _order(line: str) -> tuple[int, str]:
    """Sort key: C's headers, C++'s, then other libraries'."""
    if '"' in line:
        return 2, line
    return (0 if ".h>" in line else 1), line


def join(units: Iterable[Unit], sources: Mapping[str, str]) -> dict[str, str]:
    """Returns the text of each unit by its path. Included units precede the others. `sources` are texts by the path by
    which others include them, which begins with "ops/". Raises ConversionError if a source is in no unit.
    """
    conditional = _conditional(sources)
    texts: dict[str, str] = {}
    known: dict[str, set[str]] = {}
    for unit in units:
        given = set().union(*(known.get(path, set()) for path in (*unit.includes, *unit.cpp_includes)))
        of_c = _Joined(sources, conditional, set(given))
        for root in unit.c_roots:
            of_c.add(root)
        joined = _Joined(sources, conditional, of_c.known)
        for root in unit.roots:
            joined.add(root)
        known[unit.path] = joined.known
        texts[unit.path] = _text(unit, of_c, joined)
    left = sorted(set(sources) - set().union(*known.values()) - conditional)
    if left:
        raise ConversionError(f"{', '.join(left)}: sources that no file of the folder has")
    return texts


def _conditional(sources: Mapping[str, str]) -> set[str]:
    """Returns the paths of headers that a source includes conditionally, directly or indirectly."""
    found: set[str] = set()
    included: dict[str, set[str]] = {}
    for path, text in sources.items():
        depth = -1 if path.endswith(".h") else 0  # a header's guard is no condition
        included[path] = set()
        for line in text.split("\n"):
            condition, include = _CONDITION.match(line), _INCLUDE.match(line)
            if condition is not None:
                depth += -1 if condition[1] == "endif" else 1
            elif include is not None:
                included[path].add(include[2])
                if depth > 0:
                    found.add(include[2])
    return closure(found, included)


def _text(unit: Unit, of_c: _Joined, joined: _Joined) -> str:
    about = "\n".join(f" * {line}".rstrip() for line in unit.about.split("\n"))
    lines = [f"{_COPYRIGHT}\n *\n{about}\n */"]
    if unit.guard:
        lines += [f"#ifndef {unit.guard}", f"#define {unit.guard}", ""]
    own, of_cpp = ([f'#include "{path}"' for path in paths] for paths in (unit.includes, unit.cpp_includes))
    if unit.c_roots or unit.cpp_includes:
        lines += [*_outside(of_c), *own, ""]
        lines += _extern_c(of_c.lines) if of_c.lines else []
        if unit.roots:
            lines += ["#ifdef __cplusplus", "", *_outside(joined), *of_cpp, "", *joined.lines, "#endif", ""]
    else:
        lines += [*_outside(joined), *own, "", *joined.lines]
    if unit.guard:
        lines += [f"#endif /* {unit.guard} */"]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def _outside(joined: _Joined) -> list[str]:
    return sorted(joined.outside, key=_order)


def _extern_c(lines: list[str]) -> list[str]:
    return ["#ifdef __cplusplus", 'extern "C" {', "#endif", "", *lines, "#ifdef __cplusplus", "}", "#endif", ""]
