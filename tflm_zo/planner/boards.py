"""Boards and cores from boards.toml and cores.toml."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ..training.checks import SettingsError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Core:
    """A core."""

    name: str  # name, like "cortex-m4"
    measured: str  # name of the core whose measured instruction counts are used
    kernels: str  # TFLM's kernels: "cmsis_nn" or "reference"
    cycles: float  # assumed cycles per instruction
    note: str = ""  # remark on the estimate, or ""

    @property
    def has_mve(self) -> bool:
        """Returns whether the core has vectors (MVE), for which CMSIS-NN's kernels need more scratch memory."""
        return self.measured == "cortex-m55"


@dataclass(frozen=True)
class Board:
    """A board."""

    name: str  # name, for `--board`
    label: str  # maker and name, for tables
    chip: str  # microcontroller
    core: str  # name of its core
    clock: float  # MHz
    ram: int  # KiB
    flash: int  # KiB
    source: str  # the maker's document


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((files(__package__) / name).read_text())
    return found


@cache
def cores() -> Mapping[str, Core]:
    """Returns all cores by name."""
    return {name: Core(name, **values) for name, values in _read("cores.toml").items()}


@cache
def boards() -> Mapping[str, Board]:
    """Returns all boards by name."""
    return {name: Board(name, **values) for name, values in _read("boards.toml").items()}


def find_core(name: str) -> Core:
    """Returns the core of a name; raises SettingsError, which lists all cores, for an unknown one."""
    if name not in cores():
        raise SettingsError("core", f"be one of {', '.join(cores())}", name)
    return cores()[name]


def find_board(name: str) -> Board:
    """Returns the board of a name. Case is ignored, and underscores count as dashes. Raises SettingsError, which lists
    similar names or all, for an unknown one.
    """
    known, asked = boards(), name.lower().replace("_", "-").replace(" ", "-")
    if asked in known:
        return known[asked]
    called: dict[str, list[str]] = {}  # boards by their names, chips and labels
    for kind in ("name", "chip", "label"):
        for board in known.values():
            called.setdefault(getattr(board, kind).lower().replace(" ", "-"), []).append(board.name)
    close = [n for n in called if asked in n] or difflib.get_close_matches(asked, called, n=4, cutoff=0.5)
    closest = list(dict.fromkeys(found for n in close for found in called[n]))
    if closest:
        raise SettingsError("board", "be a known board", name, f"The closest ones: {', '.join(closest[:6])}")
    raise SettingsError("board", f"be one of {', '.join(known)}", name)
