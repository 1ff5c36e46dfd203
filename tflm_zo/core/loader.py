"""The shared library: its path, functions, structs, constants and errors. It is loaded on import.

No declaration is repeated in Python. The library carries a table of them (``ops/python/zo_declarations.c``), which the
C compiler has checked against the headers. A struct that ctypes lays out differently is an error.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final


class Struct(ctypes.Structure):
    """A struct of the C core. Names that are none of its fields are refused."""

    __slots__ = ()

    def numbers(self) -> dict[str, Any]:
        """The fields as integers, those of a struct or an array within as tuples."""
        return {name: _numbers(getattr(self, name)) for name, *_ in self._fields_}


def _numbers(value: Any) -> Any:
    """Returns an integer unchanged, and a struct or an array as the tuple of its values."""
    if isinstance(value, int):
        return value
    return tuple(map(_numbers, value.numbers().values() if isinstance(value, Struct) else value))


class CSettings(Struct):
    """``zo_control_settings``: the settings of a run as integers."""

    __slots__ = ()


class Tensor(Struct):
    """``zo_tensor``: a trainable tensor."""

    __slots__ = ()


class _Declaration(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_char_p),
        ("offset", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
    ]


# Classes with a name in Python, since signatures have them.
_NAMED: Final[dict[str, type[Struct]]] = {"zo_control_settings": CSettings, "zo_tensor": Tensor}
# Kept in NumPy arrays, whose addresses are handed over.
_IN_ARRAYS: Final = {"zo_query"}
_NUMBERS: Final[dict[str, Any]] = {
    **{f"{u}int{bits}_t": getattr(ctypes, f"c_{u}int{bits}") for u in ("", "u") for bits in (8, 16, 32, 64)},
    "int": ctypes.c_int,
    "void": None,
    "zo_opcode": ctypes.c_int,
    "zo_status": ctypes.c_int,
}


def _declared(loaded: ctypes.CDLL) -> Iterator[tuple[str, str, int, int]]:
    first = _Declaration.in_dll(loaded, "zo_declarations")
    table = ctypes.cast(ctypes.byref(first), ctypes.POINTER(_Declaration))
    for entry in map(table.__getitem__, itertools.count()):
        if entry.name is None:
            return
        yield entry.name.decode(), entry.type.decode(), entry.offset, entry.size


class Declarations:
    """The library's declarations: classes of structs and values of constants, by their C names."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        self.structs: dict[str, type[Struct]] = {}
        self.constants: dict[str, int] = {}
        fields: dict[str, list[tuple[str, str, int, int]]] = {}
        sizes: dict[str, int] = {}
        functions: dict[str, str] = {}
        for name, kind, offset, size in _declared(loaded):
            if kind == "constant":
                self.constants[name] = size
            elif kind == "struct":
                fields[name], sizes[name] = [], size
            elif kind.endswith(")"):
                functions[name] = kind
            else:
                next(reversed(fields.values())).append((name, kind, offset, size))
        for name, own in fields.items():
            self._define(name, own, sizes[name])
        for name, kind in functions.items():
            function = getattr(loaded, name)
            result, _, arguments = kind.partition("(")
            function.restype = self._type(result)
            function.argtypes = [self._type(a) for a in arguments[:-1].split(", ")]

    def _define(self, name: str, fields: list[tuple[str, str, int, int]], size: int) -> None:
        struct: Any = _NAMED.get(name) or type(name, (Struct,), {"__slots__": ()})
        struct._fields_ = [(field, self._field(kind, bytes_)) for field, kind, _, bytes_ in fields]
        found = [(getattr(struct, f).offset, getattr(struct, f).size) for f, *_ in fields]
        if ctypes.sizeof(struct) != size or found != [(offset, bytes_) for *_, offset, bytes_ in fields]:
            raise ImportError(f"the library's {name}: ctypes lays it out otherwise than the compiler on this system")
        self.structs[name] = struct

    def _field(self, kind: str, size: int) -> Any:
        if kind.endswith("*"):
            return ctypes.c_void_p
        element = self._type(kind.removesuffix("[]"))
        return element * (size // ctypes.sizeof(element)) if kind.endswith("[]") else element

    def _type(self, kind: str) -> Any:
        """Returns the ctypes type of an argument or a result; a struct is passed by its address."""
        pointee = kind.removeprefix("const ").removesuffix("*")
        if not kind.endswith("*"):
            return self.structs[kind] if kind in self.structs else _NUMBERS[kind]
        if pointee in self.structs and pointee not in _IN_ARRAYS:
            return ctypes.POINTER(self.structs[pointee])
        return ctypes.c_char_p if pointee == "char" else ctypes.c_void_p


_PACKAGE: Final = __package__.partition(".")[0]


def installed(name: str) -> Path:
    """Returns the path of a file or folder of the package, or raises FileNotFoundError where that is not installed."""
    spec = find_spec(_PACKAGE)
    # An editable install splits the package between the source tree and the build folder.
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
    """Returns the path of the compiled op pack, which a runtime loads as its delegate; see `installed`."""
    names = {"darwin": "libtflm_zo.dylib", "win32": "tflm_zo.dll"}
    return installed(f"_native/{names.get(sys.platform, 'libtflm_zo.so')}")


# Its symbols are global, so that TFLM's Python wheel, which looks custom ops up by name in the whole process,
# finds them.
_LIBRARY: Final = ctypes.CDLL(str(library_path()), mode=ctypes.RTLD_GLOBAL)
_DECLARATIONS: Final = Declarations(_LIBRARY)


class _Structs:
    def __init__(self, classes: dict[str, type[Struct]]) -> None:
        vars(self).update(classes)

    def __getattr__(self, name: str) -> type[Struct]:  # declares the attributes for type checkers
        raise AttributeError(f"the library has no struct {name}")


structs: Final = _Structs(_DECLARATIONS.structs)
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
    """An error of the C core. Nothing was changed.

    Attributes:
        status: the code, see `Status`.
        text: the C core's message.
    """

    def __init__(self, function: str, status: int) -> None:
        self.status = Status(status)
        self.text: str = library().zo_status_text(status).decode("ascii")
        super().__init__(f"{function}: {self.text} ({self.status.name})")


def library() -> ctypes.CDLL:
    """The loaded library with prototypes of all functions."""
    return _LIBRARY


def call(name: str, *arguments: object) -> None:
    """Calls a function that returns a status, and raises NativeError unless that is OK."""
    status: int = getattr(_LIBRARY, name)(*arguments)
    if status != Status.OK:
        raise NativeError(name, status)
