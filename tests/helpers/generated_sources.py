# SPDX-License-Identifier: Apache-2.0
"""What stands in generated C and C++."""

from __future__ import annotations

import re

from tflm_zo.firmware import Firmware


def uncommented(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def initializer(text: str, name: str) -> str:
    """What stands between the braces of a definition."""
    found = re.findall(rf"\b{name}(?:\[\w*\])+ = \{{(.*?)\n?\}};", uncommented(text), re.S)
    assert len(found) == 1, name
    return str(found[0])


def rows(text: str, name: str) -> list[list[str]]:
    return [[v.strip() for v in row.split(",")] for row in re.findall(r"\{(.*?)\}", initializer(text, name))]


def define(made: Firmware, name: str) -> str:
    return re.findall(
        rf"^#define \w+_{name} (.*)$",
        next(t for p, t in made.files.items() if p.endswith("_zo_config.h")),
        re.M,
    )[0]
