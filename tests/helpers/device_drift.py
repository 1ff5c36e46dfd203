"""The drift score of firmware (``ops/core/math/zo_drift.h``), compiled for this machine."""

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]
GCC = shutil.which("gcc")
_STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror")
_SANITIZED = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=undefined")
_SOURCE = """
#include "ops/core/math/zo_drift.h"
void add(zo_drift* drift, const int8_t* values);
uint32_t score(const zo_drift* drift);
void add(zo_drift* drift, const int8_t* values) { zo_drift_add(drift, values); }
uint32_t score(const zo_drift* drift) { return zo_drift_score(drift); }
"""
u32 = ctypes.c_uint32


class DriftLayer(ctypes.Structure):
    _fields_ = [("old", ctypes.c_void_p), ("channels", u32), ("samples", u32), ("positions", u32)]


class _Drift(ctypes.Structure):
    _fields_ = [("layer", ctypes.POINTER(DriftLayer)), ("sums", ctypes.c_void_p), ("samples", u32)]


@cache
def _library() -> Any:
    assert GCC is not None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "drift.c")
        source.write_text(_SOURCE)
        command = [
            GCC,
            *_STRICT,
            *_SANITIZED,
            "-shared",
            "-fPIC",
            f"-I{ROOT}",
            source,
            ROOT / "ops/core/math/zo_log2.c",
        ]
        subprocess.run([*command, "-o", Path(folder, "drift.so")], check=True)
        library = ctypes.CDLL(str(Path(folder, "drift.so")))
    library.score.restype = u32
    return library


class DeviceDrift:
    """A drift in a device's memory."""

    def __init__(self, layer: DriftLayer) -> None:
        self.layer = layer
        self.sums = np.zeros((2, layer.channels), np.int64)
        self.c = _Drift(ctypes.pointer(layer), self.sums.ctypes.data, 0)

    @classmethod
    def of_rows(cls, rows: NDArray[np.int32], samples: int, positions: int) -> "DeviceDrift":
        kept = np.ascontiguousarray(rows)
        made = cls(DriftLayer(kept.ctypes.data, len(kept), samples, positions))
        made._rows = kept  # type: ignore[attr-defined]
        return made

    def add(self, values: NDArray[np.int8]) -> None:
        """Adds samples, [samples, ..., channels]."""
        for sample in values:
            own = np.ascontiguousarray(sample)
            _library().add(ctypes.byref(self.c), ctypes.c_void_p(own.ctypes.data))

    @property
    def score(self) -> float:
        """The score, in old deviations."""
        return int(_library().score(ctypes.byref(self.c))) / 256
