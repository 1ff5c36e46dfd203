"""A fragment of a Makefile, as TensorFlow Lite Micro's own builds are made of."""

from __future__ import annotations

from collections.abc import Iterable

from ..source_text import own
from .project import Layout, Project


def _list(macros: str, paths: Iterable[str]) -> str:
    return " \\\n".join(f"$({macros}_DIR)/{path}" for path in paths)


def make(project: Project) -> Layout:
    """``include`` of ``NAME_zo.mk`` gives lists, flags, and a rule for ``$(ZO_LIBRARY)``."""
    example = {"main.cc": project.example(), **project.samples}
    compiled, names = project.compiled(), own(project.name)
    glue = {
        f"{names['zo']}.mk": project.fill(
            "make/zo.mk.in",
            c_sources=_list(names["ZO"], (path for path in compiled if path.endswith(".c"))),
            cc_sources=_list(names["ZO"], (path for path in compiled if path.endswith(".cc"))),
            headers=_list(names["ZO"], project.headers()),
            example=_list(names["ZO"], sorted(path for path in example if path.endswith(".cc"))),
        ),
        "README.md": project.readme("make/use.md.in"),
    }
    return Layout({**project.sources, **example, **glue}, frozenset(example))
