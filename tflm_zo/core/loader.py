# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The shared library: its path, functions, structs and constants, and its errors.

It is loaded when this module is imported.
"""

from __future__ import annotations

import ctypes
import sys
from enum import IntEnum
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from .declarations import Declarations

__all__ = ["NativeError", "Status", "call", "constants", "installed", "library", "library_path", "structs"]

_PACKAGE: Final = __package__.partition(".")[0]


def installed(name: str) -> Path:
    """Returns the path of a file or folder of the installed package.

    Raises:
        FileNotFoundError: the package was imported from a source tree that is not installed.
    """
    spec = find_spec(_PACKAGE)
    # An editable install spreads the package over the source tree and the place of what was built.
    folders = [Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    folders += [Path(entry) / _PACKAGE for entry in sys.path if entry]
    for folder in folders:
        if (folder / name).exists():
            return (folder / name).resolve()
    raise FileNotFoundError(
        f"{name} is not in {folders[0]}: {_PACKAGE} was imported from a place where it is not installed; run "
        f"'pip install .' or 'pip install -e .' in its source tree"
    )


@lru_cache(maxsize=1)
def library_path() -> Path:
    """Returns the path of the compiled op pack, which a runtime loads as its delegate.

    Raises:
        FileNotFoundError: the package was imported from a source tree that is not installed.
    """
    names = {"darwin": "libtflm_zo.dylib", "win32": "tflm_zo.dll"}
    return installed(f"_native/{names.get(sys.platform, 'libtflm_zo.so')}")


# Its symbols are global, so that TFLM's Python wheel, which looks custom ops up by name in the whole process,
# finds them.
_LIBRARY: Final = ctypes.CDLL(str(library_path()), mode=ctypes.RTLD_GLOBAL)
_DECLARATIONS: Final = Declarations(_LIBRARY)

structs: Final[Any] = SimpleNamespace(**_DECLARATIONS.structs)
"""The classes of all structs, by their C names."""

constants: Final[Any] = SimpleNamespace(**_DECLARATIONS.constants)
"""The constants, by their C names."""


class Status(IntEnum):
    """Status codes of the C core (``zo_status``)."""

    OK = constants.ZO_OK
    ARGUMENT = constants.ZO_ERROR_ARGUMENT
    COMMAND = constants.ZO_ERROR_COMMAND
    OPCODE = constants.ZO_ERROR_OPCODE
    ORDER = constants.ZO_ERROR_ORDER
    BLOCK = constants.ZO_ERROR_BLOCK
    DISTRIBUTION = constants.ZO_ERROR_DISTRIBUTION
    HEADROOM = constants.ZO_ERROR_HEADROOM
    QUERIES = constants.ZO_ERROR_QUERIES
    COEFFICIENT = constants.ZO_ERROR_COEFFICIENT
    FACTOR = constants.ZO_ERROR_FACTOR
    CAPACITY = constants.ZO_ERROR_CAPACITY
    LABEL = constants.ZO_ERROR_LABEL
    OPTIONS = constants.ZO_ERROR_OPTIONS
    MEMORY = constants.ZO_ERROR_MEMORY
    RUNTIME = constants.ZO_ERROR_RUNTIME
    SAMPLE = constants.ZO_ERROR_SAMPLE
    LOG = constants.ZO_ERROR_LOG
    STORE = constants.ZO_ERROR_STORE
    KERNEL = constants.ZO_ERROR_KERNEL


class NativeError(RuntimeError):
    """An error that the C core reported; nothing was changed.

    Attributes:
        status: the code, see `Status`.
        text: the C core's own words for it.
    """

    def __init__(self, function: str, status: int) -> None:
        self.status = Status(status)
        self.text: str = library().zo_status_text(status).decode("ascii")
        super().__init__(f"{function}: {self.text} ({self.status.name})")


def library() -> ctypes.CDLL:
    """The loaded library, every function of the core typed."""
    return _LIBRARY


def call(name: str, *arguments: object) -> None:
    """Calls a function that returns a status.

    Raises:
        NativeError: the status is not OK.
    """
    status: int = getattr(_LIBRARY, name)(*arguments)
    if status != Status.OK:
        raise NativeError(name, status)
