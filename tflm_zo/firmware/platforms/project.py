"""The files that a platform lays out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ..source_text import fill, own

_MAIN: Final = """int main() { return Train() ? 0 : 1; }
"""


@dataclass(frozen=True)
class Project:
    """Generated sources, before they are laid out. Includes are relative to their common folder."""

    name: str  #: name of the model in the sources, an identifier.
    command: str  #: command line that generated the folder.
    sources: Mapping[str, str]  #: sources of the library, text by path.
    samples: Mapping[str, str]  #: the header and source of the example's samples, text by path.
    has_drift: bool = False  #: True if the device can read the drift of data.
    sequence: int = 0  #: steps of each sample; 0: samples are no sequences.

    def compiled(self) -> list[str]:
        """Returns the paths of the library's sources that are compiled."""
        return sorted(path for path in self.sources if path.endswith((".c", ".cc")))

    def headers(self) -> list[str]:
        """Returns the paths of the library's headers."""
        return sorted(path for path in self.sources if path.endswith(".h"))

    def fill(self, template: str, **more: object) -> str:
        """Returns a file of ``templates`` for the project, with further values."""
        names = {"name": self.name, "NAME": self.name.upper(), **own(self.name)}
        return fill(template, **names, command=self.command, compiled=self.compiled(), **more)

    def example(self, *, includes: str = "", printing: str = "", print_with: str = "printf", entry: str = _MAIN) -> str:
        """Returns the source of the example's program. `includes` are lines before the program's own, `printing`
        defines ``print_with``, which is called as printf is, and `entry` has the functions that the platform calls;
        ``bool Train()`` trains and says if that went well.
        """
        parts = {"includes": includes, "printing": printing, "print_with": print_with, "entry": entry.rstrip("\n")}
        return self.fill("example.cc.in", **parts, drift=self.has_drift)

    def readme(self, use: str, *, folder: str = "", example: str = "", program: str = "main.cc") -> str:
        """Returns the text of the folder's README.md, from the template of the text that says how the platform's builds
        take the folder. `folder` and `example`, of sources and example, end with a slash; "" is the top. `program`
        trains.
        """
        return self.fill(
            "README.md.in",
            at=folder,
            example=example,
            program=program,
            sequence=self.sequence,
            samples=next(path for path in self.samples if not path.endswith(".h")),
            use=self.fill(use).strip("\n"),
        )


@dataclass(frozen=True)
class Layout:
    """A folder."""

    files: Mapping[str, str]  #: texts of the files, by path.
    example: frozenset[str]  #: paths of the example's files, which users change.


@dataclass(frozen=True)
class Platform:
    """A build system."""

    lay_out: Callable[[Project], Layout]  #: function that makes the layout of a project.
    #: True if TensorFlow Lite Micro is built with TF_LITE_STATIC_MEMORY there, which makes its structs smaller.
    static_memory: bool = True
    #: operators that TFLM can register there for int8 alone; None: all of the checkout's.
    int8: frozenset[str] | None = None
    absent: frozenset[str] = frozenset()  #: names of macros that no compiler of the platform defines.
