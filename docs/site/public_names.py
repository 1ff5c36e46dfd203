# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The directive ``public-names``: all exports of a package, documented from its docstrings.

A name that several packages export is documented once, in the one with the shortest path, which is where
programs take it from; the pages of the others link there.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
import sys
import textwrap
import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

import tflm_zo


@functools.cache
def packages() -> list[str]:
    """Lists the packages that declare exports, shortest paths first."""
    found = [module.name for module in pkgutil.walk_packages(tflm_zo.__path__, "tflm_zo.") if module.ispkg]
    named = [name for name in ("tflm_zo", *found) if hasattr(_module(name), "__all__")]
    return sorted(named, key=lambda name: (name.count("."), name))


def _module(name: str) -> ModuleType | None:
    """Imports a package. Returns None if an extra that it needs is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def home(name: str, value: Any, asking: str) -> str:
    """Chooses the package that documents a name: `asking`, or another one with a shorter path."""
    for package in packages():
        module = importlib.import_module(package)
        if name in module.__all__ and getattr(module, name) is value:
            return package
    return asking


def exports(module: ModuleType) -> list[str]:
    """Lists the exports of a module, and the functions behind `ALGORITHMS`."""
    listed = getattr(module, "ALGORITHMS", {}) if module.__name__ == "tflm_zo.training.algorithms" else {}
    return [*module.__all__, *(function.__name__ for function in listed.values())]


def comment(name: str, value: Any) -> str:
    """Reads the comment beside a constant or a type's name."""
    for module in [m for path, m in sys.modules.items() if path.startswith("tflm_zo")]:
        if getattr(module, name, None) is value:
            analyzer = ModuleAnalyzer.for_module(module.__name__)
            if lines := analyzer.find_attr_docs().get(("", name)):
                return "\n".join(lines)
    return ""


def documented(package: str) -> Iterator[str]:
    """Converts a package's part of the reference to reStructuredText, the language of docstrings."""
    module = importlib.import_module(package)
    yield f".. automodule:: {package}\n   :no-members:\n"
    elsewhere = []
    for name in exports(module):
        value = getattr(module, name)
        if inspect.ismodule(value):
            elsewhere.append(f":py:mod:`{value.__name__}`")
        elif name in module.__all__ and (at := home(name, value, package)) != package:
            elsewhere.append(f":py:obj:`{at}.{name}`")
        elif inspect.isclass(value):
            kind = "exception" if issubclass(value, BaseException) else "class"
            bases = "   :show-inheritance:\n" if value.__bases__ != (object,) else ""
            yield f".. auto{kind}:: {package}.{name}\n   :members:\n{bases}"
        elif inspect.isroutine(value) or hasattr(value, "__wrapped__"):
            yield f".. autofunction:: {package}.{name}\n"
        else:
            kind = "type" if typing.get_args(value) else "data"
            shown = f"\n   :value: {value!r}" if isinstance(value, int | str | bytes) else ""
            text = textwrap.indent(comment(name, value), "   ")
            yield f".. py:{kind}:: {name}\n   :module: {package}{shown}\n\n{text}\n"
    if elsewhere:
        yield f"It also has {', '.join(elsewhere)}.\n"


class PublicNames(SphinxDirective):
    """All exports of the package that is the directive's content."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Returns the nodes that replace the directive."""
        more = [f".. autoclass:: {name}\n   :members:\n" for name in self.content]
        text = "\n".join([*documented(self.arguments[0]), *more])
        return self.parse_text_to_nodes(f"````{{eval-rst}}\n{text}\n````")


_EQUATION = re.compile(r"^(?: {4}\S| {5,})")
_NAMES = re.compile(r"^    \w+(?:, \w+)+(?=: )")


def as_written(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Protects text that reStructuredText or napoleon would misread: indented paragraphs before the first
    section, which are equations, absolute values, and a colon in a line about an attribute.
    """
    end = next((i for i, line in enumerate(lines) if re.fullmatch(r"[A-Z]\w+:", line)), len(lines))
    begins = [
        i for i in range(2, end) if _EQUATION.match(lines[i]) and not lines[i - 1] and not _EQUATION.match(lines[i - 2])
    ]
    lines[:] = [re.sub(r"\|(\w+)\|", r"\\|\1\\|", line) for line in lines]
    # Attributes that share a line are one field, whose name has no space.
    lines[:] = [_NAMES.sub(lambda names: "    " + names[0].replace(" ", ""), line) for line in lines]
    for i in reversed(begins):
        lines[i:i] = ["::", ""]
    if what in ("attribute", "property"):
        lines[:0] = ["..", ""]


# Replacements in Sphinx's signatures, in this order.
_WRITTEN = (
    # The alias of a type in a union; shared names, without their module.
    (re.compile(r"TypeAliasForwardRef\('([\w.]+)'\)"), r"\1"),
    (re.compile(r"(?<![\w.~])(?:tflm_zo\.data\.)?(Samples|Labels)\b"), r"~tflm_zo.data.\1"),
    # Bounds of numbers, which pydantic reads.
    (re.compile(r", FieldInfo\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"), ""),
    (re.compile(r"(?:~?typing\.)?Annotated\[((?:[^\[\]]|\[[^\[\]]*\])*)\]"), r"\1"),
)


def readable(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Shortens a signature's types to their names. The text has the bounds."""
    for pattern, replacement in _WRITTEN:
        signature = signature and pattern.sub(replacement, signature)
        returned = returned and pattern.sub(replacement, returned)
    return signature, returned


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the directive. Sphinx calls it."""
    app.add_directive("public-names", PublicNames)
    # Before napoleon, which takes sections apart.
    app.connect("autodoc-process-docstring", as_written, priority=400)
    app.connect("autodoc-process-signature", readable)
    return {"parallel_read_safe": True}
