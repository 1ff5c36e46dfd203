"""An Arduino library, and the example as a sketch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from ...converters.errors import ConversionError
from ..source_text import fill, own
from .project import Layout, Project

_COMMON: Final = '#include "tensorflow/lite/micro/micro_common.h"'


def _renamed(files: Mapping[str, str]) -> dict[str, str]:
    """``.cc`` becomes ``.cpp``: older Arduino builders leave out the former."""
    return {f"{path[:-3]}.cpp" if path.endswith(".cc") else path: text for path, text in files.items()}


def arduino(project: Project) -> Layout:
    """The folder goes into the sketchbook's ``libraries``. Builders only have ``src`` on the include path and accept no
    macros, so includes are relative to it or to the file, and definitions are in the headers.
    """
    sketch = f"examples/{project.name}"
    names = own(project.name)
    header = f"{names['zo']}_trainer.h"
    shim = f"{names['zo']}_arduino.h"
    ops = project.sources[header]
    if ops.count(_COMMON) != 1:
        raise ConversionError(f"{header} does not include micro_common.h once: install tflm_zo again")
    sources = {
        **_renamed(project.sources),
        header: ops.replace(_COMMON, f'#include "{shim}"'),
        shim: project.fill("arduino/zo_arduino.h.in"),
        f"{project.name}_zo.h": project.fill("arduino/library.h.in"),
    }
    samples = _renamed(project.samples)
    program = project.example(
        includes="#include <Arduino.h>\n#include <stdarg.h>\n",
        printing=fill("arduino/print.cc.in"),
        print_with="Print",
        entry=fill("arduino/entry.cc.in"),
    )
    example = {
        f"{sketch}/{project.name}.ino": project.fill("arduino/sketch.ino.in"),
        f"{sketch}/zo_train.cpp": program,
        **{f"{sketch}/{path}": text for path, text in samples.items()},
    }
    glue = {
        "library.properties": project.fill("arduino/library.properties.in"),
        "README.md": dataclasses.replace(project, samples=samples).readme(
            "arduino/use.md.in", folder="src/", example=f"{sketch}/", program="zo_train.cpp"
        ),
    }
    files = {f"src/{path}": text for path, text in sources.items()}
    return Layout({**files, **example, **glue}, frozenset(example))
