# SPDX-License-Identifier: Apache-2.0
"""A fragment of a Makefile, as TensorFlow Lite Micro's own builds are made of."""

from __future__ import annotations

from collections.abc import Iterable

from ..source_text import fill
from .project import Layout, Project


def _list(paths: Iterable[str]) -> str:
    return " \\\n".join(f"$(ZO_DIR)/{path}" for path in paths)


def make(project: Project) -> Layout:
    """``include`` of ``zo_firmware.mk`` gives lists, flags, and a rule for ``$(ZO_LIBRARY)``."""
    example = {"main.cc": project.example(), **project.samples}
    compiled = project.compiled()
    glue = {
        "zo_firmware.mk": fill(
            "make/zo_firmware.mk.in",
            name=project.name,
            command=project.command,
            c_sources=_list(path for path in compiled if path.endswith(".c")),
            cc_sources=_list(path for path in compiled if path.endswith(".cc")),
            headers=_list(project.headers()),
            example=_list(sorted(path for path in example if path.endswith(".cc"))),
        ),
        "README.md": project.readme("make/use.md.in"),
    }
    return Layout({**project.sources, **example, **glue}, frozenset(example))
