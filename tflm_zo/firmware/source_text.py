"""Values and texts as C source."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, Final

import jinja2
import numpy as np

from .._version import __version__

# Libraries of Arduino are called by 63 characters at most, some of which are ours.
_LONGEST: Final = 48


def own(name: str) -> dict[str, str]:
    """Returns the prefixes of a model's own names, for templates, since two models can be in one program: ``zo``, in
    place of ``zo`` and ``tflm_zo`` in names of functions, types, files and namespaces, and ``ZO``, in those of macros.
    """
    return {"zo": f"{name}_zo", "ZO": f"{name}_zo".upper()}


def numbers(values: Iterable[int | np.floating[Any]], indent: int = 4, width: int = 100) -> str:
    """Returns numbers separated by commas, in lines."""
    space = " " * indent
    text = ", ".join(f"{v!s}f" if isinstance(v, np.floating) else str(int(v)) for v in values)
    return textwrap.fill(text, width, initial_indent=space, subsequent_indent=space)


def hexadecimal(data: bytes) -> str:
    """Returns bytes in hexadecimal, twelve in a line, like xxd."""
    lines = (data[i : i + 12] for i in range(0, len(data), 12))
    return "\n".join("    " + ", ".join(f"0x{b:02x}" for b in line) + "," for line in lines)


def fields(values: Mapping[str, int | tuple[int, ...]], indent: int = 4) -> str:
    """Returns the initializers of a struct's numbers and arrays, with their names, in lines."""
    lines = []
    for name, value in values.items():
        text = "{" + ", ".join(map(str, value)) + "}" if isinstance(value, tuple) else f"{value}u"
        lines.append(f"{' ' * indent}/* {name} */ {text},")
    return "\n".join(lines)


def literal(text: str) -> str:
    """Returns a string literal."""
    escaped = "".join(
        c if c.isascii() and c.isprintable() and c not in '"\\' else f"\\{ord(c):03o}"
        for c in text.encode("utf-8").decode("latin-1")
    )
    return f'"{escaped}"'


def comment(text: str) -> str:
    """Returns a text that cannot end a comment or its line."""
    line = "".join(c if c.isprintable() else "?" for c in text)
    return line.replace("*/", "* /").replace("/*", "/ *")


def identifier(name: str) -> str:
    """Converts a text to a C identifier of lower case letters, digits and underscores, at most 48."""
    found = re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_") or "model"
    return (f"model_{found}" if found[0].isdigit() else found)[:_LONGEST].rstrip("_")


def is_identifier(name: str) -> bool:
    """Returns whether a name is valid in names of files, targets and namespaces."""
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is not None and len(name) <= _LONGEST


# `@{name}` is replaced: C, CMake and shell use braces and dollar signs.
_TEMPLATES: Final = jinja2.Environment(
    loader=jinja2.PackageLoader("tflm_zo.firmware"),
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    trim_blocks=True,
    variable_start_string="@{",
    variable_end_string="}",
    block_start_string="@%",
    block_end_string="%@",
    comment_start_string="@#",
    comment_end_string="#@",
)
_TEMPLATES.filters |= {f.__name__: f for f in (comment, fields, hexadecimal, literal, numbers)}


def fill(template: str, **values: object) -> str:
    """Returns a file of ``templates`` with its places filled in; ``version`` is this package's."""
    return _TEMPLATES.get_template(template).render(values, version=__version__)
