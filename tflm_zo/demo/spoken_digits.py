# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The Free Spoken Digit Dataset, from one file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..data import read_arrays

__all__ = ["SpokenDigits", "read_spoken_digits"]

_FILE: Final = "fsdd.npz"
_SAMPLES: Final = 8000
_FORMAT: Final = (
    f"x int16 [n, {_SAMPLES}] (8 kHz, zero-padded to 1 s), y [n] (digit), speaker [n] (index into speakers), "
    "take [n], speakers (names)"
)
_SOURCE: Final = "github.com/Jakobovski/free-spoken-digit-dataset"


@dataclass(frozen=True)
class SpokenDigits:
    """Recordings of one spoken digit each.

    Attributes:
        signal: int16 [recordings, 8000], one second at 8 kHz, zero-padded at the end.
        digit: digit that is spoken, 0..9, int32 [recordings].
        speaker: int32 [recordings], index into ``speakers``.
        take: int32 [recordings], which repetition of this digit by this speaker, from 0.
        speakers: names of the speakers, by number.
    """

    signal: NDArray[np.int16]
    digit: NDArray[np.int32]
    speaker: NDArray[np.int32]
    take: NDArray[np.int32]
    speakers: tuple[str, ...]


def read_spoken_digits() -> SpokenDigits:
    """Reads fsdd.npz in the folder that the environment variable TFLM_ZO_DATA names.

    Raises:
        FileNotFoundError: the file does not exist; the message says what it holds and where to get it.
        ValueError: the file is not in that format.
    """
    folder = os.environ.get("TFLM_ZO_DATA")
    path = Path(folder or ".") / _FILE
    if not folder or not path.is_file():
        where = f"{path} does not exist" if folder else "TFLM_ZO_DATA is not set"
        raise FileNotFoundError(
            f"{where}: the spoken digits are read from {_FILE} in the folder TFLM_ZO_DATA, with the arrays "
            f"{_FORMAT}; make it from the recordings of {_SOURCE}"
        )
    arrays = read_arrays(path)
    if missing := {"x", "y", "speaker", "take", "speakers"} - arrays.keys():
        raise ValueError(f"{path}: no array {', '.join(sorted(missing))}; expected {_FORMAT}")
    _check(path, arrays)
    return SpokenDigits(
        signal=arrays["x"],
        digit=arrays["y"].astype(np.int32),
        speaker=arrays["speaker"].astype(np.int32),
        take=arrays["take"].astype(np.int32),
        speakers=tuple(map(str, arrays["speakers"])),
    )


def _check(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    x, names = arrays["x"], arrays["speakers"]
    if x.dtype != np.int16 or x.ndim != 2 or x.shape[1] != _SAMPLES:
        raise ValueError(f"{path}: expected x int16 [n, {_SAMPLES}], got {x.dtype} {list(x.shape)}")
    for name, end in (("y", 10), ("speaker", len(names)), ("take", 2**31)):
        values = arrays[name]
        if values.dtype.kind not in "iu" or values.shape != x.shape[:1]:
            raise ValueError(
                f"{path}: expected {name} integers [{len(x)}], got {values.dtype} {list(values.shape)}"
            )
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) < end:
            raise ValueError(f"{path}: expected {name} in 0..{end - 1}, got {values.min()}..{values.max()}")
